"""Reading CSA (version 2.2), the format of computer shogi tournaments."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keisei.shogi.errors import NotationError
from keisei.shogi.notation.csa_start import CsaStart
from keisei.shogi.notation.csa_words import ENDING_OF_WORD, ILLEGAL_ACTION, PIECE_OF_WORD, SIGNS
from keisei.shogi.notation.record_builder import RecordBuilder
from keisei.shogi.notation.record_headers import CSA_HEADER_NAME, NEUTRAL_OF_CSA
from keisei.shogi.notation.record_text import errors_at, excerpt, numbered_lines
from keisei.shogi.notation.records import Ending, GameRecord
from keisei.shogi.notation.start_position import of_colour, usi_square
from keisei.shogi.pieces import BLACK

_ENCODING = re.compile(r"'CSA encoding=\S*", re.IGNORECASE)
_HEADER = re.compile(rf"\$({CSA_HEADER_NAME}):(.*)")
_MOVE = re.compile(r"([+-])([1-9]{2}|00)([1-9]{2})([A-Z]{2})")
_TIME = re.compile(r"T(\d{1,9})(?:\.\d*)?")
_GAME_SEPARATOR = "/"


def read_csa(text: str) -> list[GameRecord]:
    """The games in the text of a CSA file; `NotationError` names the line that cannot be read."""
    records: list[GameRecord] = []
    reader = _CsaReader()
    for line, line_text in numbered_lines(text):
        if line_text.strip() == _GAME_SEPARATOR:
            records.extend(reader.finish())
            reader = _CsaReader()
            continue
        for statement in _statements(line_text.strip()):
            with errors_at(line):
                reader.read_statement(statement, line)
    records.extend(reader.finish())
    if not records:
        raise NotationError("there is no game in this text", line=1)
    return records


def _statements(text: str) -> list[str]:
    """The statements of a line: commas separate them, but not in comments, names and headers."""
    if text.startswith(("'", "N", "$")):
        return [text]
    return [statement.strip() for statement in text.split(",") if statement.strip()]


class _CsaReader:
    """Reads the statements of one game."""

    def __init__(self) -> None:
        self._start = CsaStart()
        self._start_line = 1
        self._builder = RecordBuilder()
        self._found_anything = False

    def finish(self) -> Iterator[GameRecord]:
        """The game, if there was one between the separators."""
        if self._found_anything:
            self._begin(BLACK)
            yield self._builder.finish()

    def _begin(self, mover: int) -> None:
        if not self._builder.has_begun:
            with errors_at(self._start_line):
                self._builder.begin(self._start.sfen(mover))

    def read_statement(self, statement: str, line: int) -> None:
        kind = statement[0]
        if kind == "'":
            self._read_comment(statement)
            return
        if kind == "V":
            return
        self._found_anything = True
        if kind in "N$":
            self._read_header(statement)
        elif kind == "P":
            self._read_start(statement, line)
        elif kind in SIGNS:
            self._read_mover_or_move(statement, line)
        elif kind == "%":
            self._begin(BLACK)
            self._builder.end(self._ending(statement))
        elif match := _TIME.fullmatch(statement):
            self._builder.add_seconds(int(match[1]))
        else:
            raise NotationError(f"unknown statement {excerpt(statement)}")

    def _read_comment(self, statement: str) -> None:
        if not _ENCODING.fullmatch(statement):
            self._builder.add_comment(statement[1:].removeprefix("*"))

    def _read_header(self, statement: str) -> None:
        if statement.startswith(("N+", "N-")):
            self._builder.add_header("black" if statement[1] == "+" else "white", statement[2:])
        elif match := _HEADER.fullmatch(statement):
            self._builder.add_header(NEUTRAL_OF_CSA.get(match[1], match[1]), match[2])
        else:
            raise NotationError(f"{excerpt(statement)} is not a header such as $EVENT:name")

    def _read_start(self, statement: str, line: int) -> None:
        if self._builder.has_begun:
            raise NotationError(f"{excerpt(statement)} comes after the start of the game")
        self._start.take(statement)
        self._start_line = line

    def _read_mover_or_move(self, statement: str, line: int) -> None:
        mover = SIGNS.index(statement[0])
        if len(statement) > 1:
            self._begin(mover)
            self._read_move(statement, mover, line)
        elif self._builder.has_begun:
            raise NotationError("the side to move is given twice")
        else:
            self._begin(mover)

    def _read_move(self, statement: str, mover: int, line: int) -> None:
        self._builder.expect_a_move(statement)
        match = _MOVE.fullmatch(statement)
        if match is None or match[4] not in PIECE_OF_WORD:
            raise NotationError(f"{excerpt(statement)} is not a move such as +7776FU")
        letters, target = PIECE_OF_WORD[match[4]], _square(match[3])
        if mover != self._builder.game.mover:
            raise NotationError(f"{excerpt(statement)} is a move of the side not to move")
        if match[2] == "00":
            self._builder.play(f"{letters}*{target}", text=statement, line=line)
        else:
            self._move_piece(_square(match[2]) + target, letters, statement, line)

    def _move_piece(self, usi: str, letters: str, text: str, line: int) -> None:
        """Play a move of which CSA tells the piece that it leaves on the board."""
        game = self._builder.game
        piece = game.piece_at(usi[:2])
        if piece == of_colour(letters, game.mover):
            self._builder.play(usi, text=text, line=line)
        elif piece is not None and "+" + piece == of_colour(letters, game.mover):
            self._builder.play(usi + "+", text=text, line=line)
        else:
            reason = f"illegal move {excerpt(text)}: the mover has no such piece on {usi[:2]}"
            self._builder.refuse(usi, reason, line=line)

    def _ending(self, statement: str) -> Ending:
        if statement in ENDING_OF_WORD:
            return ENDING_OF_WORD[statement]
        if statement[2:] != ILLEGAL_ACTION or statement[1] not in SIGNS:
            raise NotationError(f"unknown ending {excerpt(statement)}")
        is_mover = SIGNS.index(statement[1]) == self._builder.game.mover
        return Ending.FOUL_LOSS if is_mover else Ending.FOUL_WIN


def _square(digits: str) -> str:
    return usi_square(int(digits[0]), int(digits[1]))
