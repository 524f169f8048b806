"""The start position in KIF: the name of a handicap, or a diagram of the board (BOD)."""

from __future__ import annotations

import re

from keisei.shogi.errors import NotationError
from keisei.shogi.notation.kif_words import (
    COUNT_WORDS,
    EVEN_GAME,
    FULL_WIDTH_FILES,
    HANDICAP_OF_SFEN,
    HANDICAPS,
    KANJI_RANKS,
    OTHER_START,
    PIECE_OF_WORD,
    WORD_OF_PIECE,
)
from keisei.shogi.notation.record_text import excerpt
from keisei.shogi.notation.start_position import HAND_ORDER, StartPosition, usi_square
from keisei.shogi.pieces import BLACK, WHITE
from keisei.shogi.shogi_game import ShogiGame

_HANDICAP = re.compile(r"手合割\s*[：:](.*)")
_HAND = re.compile(r"([先後下上])手の持ち?駒\s*[：:](.*)")
_ROW = re.compile(r"\|(.*)\|\s*([一二三四五六七八九]?)\s*")
_MOVER = re.compile(r"([先後下上])手番")
_MOVES_PLAYED = re.compile(r"手数\s*[＝=]\s*(\d{1,5})(?:\D.*)?")
_FRAME = re.compile(r"\+-+\+|[９9]\s*[８8]\s*[７7]\s*[６6]\s*[５5]\s*[４4]\s*[３3]\s*[２2]\s*[１1]")
_HELD = re.compile(r"([歩香桂銀金角飛])(\d{1,2}|[零一二三四五六七八九十]*)")
_MARKS = {" ": BLACK, "　": BLACK, "^": BLACK, "v": WHITE, "V": WHITE, "ｖ": WHITE}
_EMPTY_SQUARES = "・ ．.*　"
_BORDER = "+---------------------------+"


class KifStart:
    """Collects the lines that say where the game begins."""

    def __init__(self) -> None:
        self._handicap = EVEN_GAME
        self._diagram = StartPosition()
        self._rows = 0
        self._mover: int | None = None

    def take(self, line: str) -> bool:
        """Read a line if it is about the start position; False if it is about something else."""
        text = line.strip()
        if match := _HANDICAP.fullmatch(text):
            self._take_handicap(match[1].strip())
        elif match := _HAND.fullmatch(text):
            self._take_hand(_colour(match[1]), match[2].strip())
        elif match := _ROW.fullmatch(text):
            self._take_row(match[1], match[2])
        elif match := _MOVER.fullmatch(text):
            self._mover = _colour(match[1])
        elif match := _MOVES_PLAYED.fullmatch(text):
            self._diagram.move_number = int(match[1]) + 1
        else:
            return _FRAME.fullmatch(text) is not None
        return True

    def sfen(self) -> str:
        """The start position."""
        if self._rows not in (0, 9):
            raise NotationError(f"the diagram has {self._rows} ranks instead of 9")
        default_mover = BLACK if self._handicap in (EVEN_GAME, OTHER_START) else WHITE
        self._diagram.mover = default_mover if self._mover is None else self._mover
        if self._rows:
            return self._diagram.sfen()
        if self._handicap == OTHER_START:
            raise NotationError("手合割：その他 needs a diagram of the board")
        return HANDICAPS[self._handicap]

    def _take_handicap(self, name: str) -> None:
        if name not in HANDICAPS and name not in (OTHER_START, ""):
            known = " ".join([*HANDICAPS, OTHER_START])
            raise NotationError(f"unknown handicap {excerpt(name)}; known are {known}")
        self._handicap = name or EVEN_GAME

    def _take_hand(self, colour: int, text: str) -> None:
        self._diagram.hands[colour].clear()
        words = "".join(text.split()).removesuffix("なし")
        if _HELD.sub("", words):
            raise NotationError(f"the pieces in hand {excerpt(text)} are unreadable")
        for word, count in _HELD.findall(words):
            self._diagram.put_in_hand(PIECE_OF_WORD[word], colour, _count(count))

    def _take_row(self, cells: str, label: str) -> None:
        self._rows += 1
        rank = self._rows
        if rank > 9 or (label and label != KANJI_RANKS[rank - 1]):
            raise NotationError(f"the ranks of the diagram are out of order at rank {rank}")
        if len(cells) != 18:
            raise NotationError(f"rank {rank} of the diagram does not have 9 squares")
        for file, mark, word in zip(range(9, 0, -1), cells[::2], cells[1::2], strict=True):
            if word in _EMPTY_SQUARES:
                continue
            if word not in PIECE_OF_WORD or mark not in _MARKS:
                raise NotationError(f"rank {rank} of the diagram has no piece {mark + word!r}")
            self._diagram.place(usi_square(file, rank), PIECE_OF_WORD[word], _MARKS[mark])


def _colour(player: str) -> int:
    return BLACK if player in "先下" else WHITE


def _count(word: str) -> int:
    if not word:
        return 1
    if word.isdecimal():
        return int(word)
    if word not in COUNT_WORDS:
        raise NotationError(f"{excerpt(word)} is no number of pieces")
    return COUNT_WORDS.index(word)


def start_lines(start_sfen: str) -> list[str]:
    """The lines that describe a start position: a handicap by its name, else a diagram.

    A diagram comes without a 手合割 line: programs disagree on what it should say then.
    """
    game = ShogiGame(start_sfen)
    start_sfen = game.sfen()
    if start_sfen in HANDICAP_OF_SFEN:
        return [f"手合割：{HANDICAP_OF_SFEN[start_sfen]}"]
    moves_played = int(start_sfen.split()[3]) - 1
    return [
        f"後手の持駒：{_hand_text(game.hand(WHITE))}",
        "  " + " ".join(reversed(FULL_WIDTH_FILES)),
        _BORDER,
        *(_row_text(game, rank) for rank in range(1, 10)),
        _BORDER,
        f"先手の持駒：{_hand_text(game.hand(BLACK))}",
        *([f"手数＝{moves_played}"] if moves_played else []),
        *(["後手番"] if game.mover == WHITE else []),
    ]


def is_handicap(start_sfen: str) -> bool:
    """Whether the players are called 下手 and 上手 instead of 先手 and 後手."""
    return HANDICAP_OF_SFEN.get(ShogiGame(start_sfen).sfen(), EVEN_GAME) != EVEN_GAME


def _row_text(game: ShogiGame, rank: int) -> str:
    cells = (_cell_text(game.piece_at(usi_square(file, rank))) for file in range(9, 0, -1))
    return f"|{''.join(cells)}|{KANJI_RANKS[rank - 1]}"


def _cell_text(piece: str | None) -> str:
    if piece is None:
        return " ・"
    return ("v" if piece.islower() else " ") + WORD_OF_PIECE[piece.upper()]


def _hand_text(hand: dict[str, int]) -> str:
    held = (
        WORD_OF_PIECE[letter] + (COUNT_WORDS[hand[letter]] if hand[letter] > 1 else "")
        for letter in HAND_ORDER
        if letter in hand
    )
    return "　".join(held) or "なし"
