"""Reading KIF, the format of most Japanese shogi programs.

Only the main line is read: variations (変化) follow it and are skipped.
"""

from __future__ import annotations

import re

from keisei.shogi.errors import NotationError
from keisei.shogi.notation.kif_start import KifStart
from keisei.shogi.notation.kif_words import ENDING_OF_WORD, KANJI_RANKS, PIECE_OF_WORD
from keisei.shogi.notation.record_builder import RecordBuilder
from keisei.shogi.notation.record_headers import KIF_HEADER_NAME, NEUTRAL_OF_KIF
from keisei.shogi.notation.record_text import errors_at, excerpt, numbered_lines
from keisei.shogi.notation.records import Ending, GameRecord
from keisei.shogi.notation.start_position import of_colour, usi_square
from keisei.shogi.pieces import BLACK, WHITE

_HEADER = re.compile(rf"({KIF_HEADER_NAME})\s*[：:](.*)")
_COLUMN_TITLES = re.compile(r"手数-.*")
_NUMBERED = re.compile(
    r"(?P<number>\d{1,6})\s+(?P<what>\S.*?)\s*"
    r"(?:\(\s*(?:(?P<hours>\d{1,4}):)?(?P<minutes>\d{1,6}):(?P<seconds>\d{1,2})(?:\.\d+)?"
    r"\s*(?:/[\s\d:.]*)?\))?\s*\+?"
)
_MOVE = re.compile(
    r"[▲△▼▽☗☖]?(?:(?P<file>[1-9１-９])(?P<rank>[一二三四五六七八九1-9１-９])|同)\s*"
    rf"(?P<piece>{'|'.join(sorted(PIECE_OF_WORD, key=len, reverse=True))})"
    r"[右左上直寄引行]*(?P<promotion>不成|成|生)?(?P<drop>打)?"
    r"(?:[(（](?P<from_file>[1-9１-９])(?P<from_rank>[1-9１-９])[)）])?"
)
_SUMMARY = re.compile(r"まで[、,]?\s*(?:\d+手)?で?(.*)")
_SUMMARY_OF_A_SIDE = re.compile(
    r"(?:(時間切れ|不戦)により)?([先後下上])手の(反則勝ち|反則負け|入玉勝ち|勝ち)"
)
_ENDING_OF_A_SIDE = {
    ("勝ち", False): Ending.RESIGN,
    ("時間切れ", False): Ending.TIME_UP,
    ("不戦", False): Ending.DEFAULT_LOSS,
    ("不戦", True): Ending.DEFAULT_WIN,
    ("入玉勝ち", True): Ending.DECLARATION_WIN,
    ("反則勝ち", True): Ending.FOUL_WIN,
    ("反則勝ち", False): Ending.ILLEGAL_MOVE,
    ("反則負け", True): Ending.ILLEGAL_MOVE,
    ("反則負け", False): Ending.FOUL_WIN,
}
"""By what the summary says of a side, and whether that side is the mover."""


def read_kif(text: str) -> GameRecord:
    """The game in the text of a KIF file; `NotationError` names the line that cannot be read."""
    reader = _KifReader()
    for line, line_text in numbered_lines(text):
        if line_text.startswith("変化"):
            break
        with errors_at(line):
            reader.read_line(line_text.strip(), line)
    return reader.finish()


class _KifReader:
    def __init__(self) -> None:
        self._start = KifStart()
        self._start_line = 1
        self._builder = RecordBuilder()
        self._next_number: int | None = None
        self._last_square = ""
        self._found_anything = False

    def read_line(self, text: str, line: int) -> None:
        if not text or text.startswith("#"):
            return
        if text.startswith(("*", "&")):
            self._builder.add_comment(text.removeprefix("*"))
            return
        self._found_anything = True
        if not self._builder.has_begun and self._start.take(text):
            self._start_line = line
        elif match := _NUMBERED.fullmatch(text):
            self._begin()
            self._read_numbered(match, line)
        elif match := _SUMMARY.fullmatch(text):
            self._begin()
            self._read_summary(match[1])
        elif not _COLUMN_TITLES.fullmatch(text):
            self._read_header(text)

    def finish(self) -> GameRecord:
        if not self._found_anything:
            raise NotationError("there is no game in this text", line=1)
        self._begin()
        return self._builder.finish()

    def _begin(self) -> None:
        """Settle the start position when the first move, or the end of the file, is reached."""
        if not self._builder.has_begun:
            with errors_at(self._start_line):
                self._builder.begin(self._start.sfen())

    def _read_header(self, text: str) -> None:
        if self._builder.has_begun:
            raise NotationError(f"{excerpt(text)} is neither a move nor a comment")
        match = _HEADER.fullmatch(text)
        if match is None:
            raise NotationError(f"{excerpt(text)} is neither a header nor a move")
        self._builder.add_header(NEUTRAL_OF_KIF.get(match[1], match[1]), match[2])

    def _read_numbered(self, match: re.Match[str], line: int) -> None:
        what = match["what"]
        if what in ENDING_OF_WORD:
            self._builder.end(ENDING_OF_WORD[what])
        else:
            self._expect_number(int(match["number"]))
            self._read_move(what, line)
        if match["minutes"]:
            minutes = 60 * int(match["hours"] or 0) + int(match["minutes"])
            self._builder.add_seconds(60 * minutes + int(match["seconds"]))

    def _expect_number(self, number: int) -> None:
        """Catch lost lines: moves may start at any number but must then count up."""
        if self._next_number not in (None, number):
            raise NotationError(f"move {self._next_number} expected, but this is move {number}")
        self._next_number = number + 1

    def _read_move(self, text: str, line: int) -> None:
        self._builder.expect_a_move(text)
        match = _MOVE.fullmatch(text)
        if match is None:
            raise NotationError(f"{excerpt(text)} is neither a move nor an ending")
        letters = PIECE_OF_WORD[match["piece"]]
        target = self._target(match)
        if match["drop"] and not match["from_file"] and not match["promotion"]:
            self._builder.play(f"{letters}*{target}", text=text, line=line)
        elif match["from_file"] and not match["drop"]:
            source = usi_square(int(match["from_file"]), int(match["from_rank"]))
            usi = source + target + ("+" if match["promotion"] == "成" else "")
            self._move_piece(usi, letters, text, line)
        else:
            raise NotationError(f"{excerpt(text)} needs either 打 or the square it comes from")
        self._last_square = target

    def _target(self, match: re.Match[str]) -> str:
        if match["file"]:
            rank = KANJI_RANKS.find(match["rank"]) + 1 or int(match["rank"])
            return usi_square(int(match["file"]), rank)
        if not self._last_square:
            raise NotationError("同 refers to the move before, and there is none")
        return self._last_square

    def _move_piece(self, usi: str, letters: str, text: str, line: int) -> None:
        game = self._builder.game
        if game.piece_at(usi[:2]) == of_colour(letters, game.mover):
            self._builder.play(usi, text=text, line=line)
        else:
            reason = f"illegal move {excerpt(text)}: the mover has no such piece on {usi[:2]}"
            self._builder.refuse(usi, reason, line=line)

    def _read_summary(self, text: str) -> None:
        """Take the ending from the summary (まで…) of a file that has no line for it."""
        if self._builder.has_ended:
            return
        ending = _ending_of_summary(text, self._builder.game.mover)
        if ending is not None:
            self._builder.end(ending)


def _ending_of_summary(text: str, mover: int) -> Ending | None:
    match = _SUMMARY_OF_A_SIDE.search(text)
    if match is None:
        words = sorted((word for word in ENDING_OF_WORD if word in text), key=len)
        return ENDING_OF_WORD[words[-1]] if words else None
    reason, side, result = match.groups()
    is_mover = mover == (BLACK if side in "先下" else WHITE)
    return _ENDING_OF_A_SIDE.get((reason or result, is_mover))
