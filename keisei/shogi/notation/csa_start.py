"""The start position in CSA: lines that begin with P."""

from __future__ import annotations

import re

from keisei.shogi.errors import NotationError
from keisei.shogi.notation.csa_words import PIECE_OF_WORD, SIGNS, WORD_OF_PIECE
from keisei.shogi.notation.record_text import excerpt
from keisei.shogi.notation.start_position import HAND_ORDER, StartPosition, usi_square
from keisei.shogi.pieces import BLACK, WHITE
from keisei.shogi.sfen import START_SFEN
from keisei.shogi.shogi_game import ShogiGame

_PLACED = re.compile(r"(?:[1-9]{2}|00)[A-Z]{2}")
_CELL_WIDTH = 3


class CsaStart:
    """Collects the statements that say where the game begins."""

    def __init__(self) -> None:
        self._position = StartPosition()
        self._ranks_given: set[int] = set()
        self._anything_given = False

    def take(self, statement: str) -> None:
        """Read a statement that begins with P."""
        kind, rest = statement[1:2], statement[2:]
        if kind == "I":
            self._take_even_start(rest)
        elif kind and kind in SIGNS:
            self._take_pieces(SIGNS.index(kind), rest)
        elif kind and kind in "123456789":
            self._take_rank(int(kind), rest)
        else:
            raise NotationError(f"unknown statement {excerpt(statement)}")
        self._anything_given = True

    def sfen(self, mover: int) -> str:
        """The start position with `mover` to move."""
        if not self._anything_given:
            self._take_even_start("")
        if 0 < len(self._ranks_given) < 9:
            missing = min(set(range(1, 10)) - self._ranks_given)
            raise NotationError(f"the rank P{missing} is missing")
        self._position.mover = mover
        return self._position.sfen()

    def _take_even_start(self, removed: str) -> None:
        if self._anything_given:
            raise NotationError("PI after another position")
        game = ShogiGame(START_SFEN)
        for square in (usi_square(file, rank) for file in range(1, 10) for rank in range(1, 10)):
            if piece := game.piece_at(square):
                self._position.board[square] = piece
        for square, letters in _placed_pieces(removed):
            if self._position.board.pop(square, "").upper() != letters:
                raise NotationError(f"PI removes {letters} from {square}, where none stands")

    def _take_rank(self, rank: int, cells: str) -> None:
        if rank in self._ranks_given:
            raise NotationError(f"the rank P{rank} is given twice")
        self._ranks_given.add(rank)
        # The blank at the end of a line is often lost, and is not needed to tell ` * `.
        cells = f"{cells} " if cells.endswith("*") else cells
        if len(cells) != 9 * _CELL_WIDTH:
            raise NotationError(f"P{rank} does not have 9 squares of 3 characters")
        for column in range(9):
            cell = cells[_CELL_WIDTH * column :][:_CELL_WIDTH]
            if cell != " * ":
                self._place(usi_square(9 - column, rank), cell)

    def _place(self, square: str, cell: str) -> None:
        if cell[0] not in SIGNS or cell[1:] not in PIECE_OF_WORD:
            raise NotationError(f"no piece is written {cell!r}")
        self._position.place(square, PIECE_OF_WORD[cell[1:]], SIGNS.index(cell[0]))

    def _take_pieces(self, colour: int, placed: str) -> None:
        if placed.endswith("00AL"):
            self._take_pieces(colour, placed.removesuffix("00AL"))
            self._position.put_the_rest_in_hand(colour)
            return
        for square, letters in _placed_pieces(placed):
            if square:
                self._position.place(square, letters, colour)
            else:
                self._position.put_in_hand(letters, colour)


def _placed_pieces(text: str) -> list[tuple[str, str]]:
    """(square or "" for the hand, letters) of a list such as `82HI22KA00FU`."""
    text = text.strip()
    words = _PLACED.findall(text)
    if "".join(words) != text:
        raise NotationError(f"{excerpt(text)} is no list of squares and pieces")
    placed = []
    for word in words:
        if word[2:] not in PIECE_OF_WORD:
            raise NotationError(f"no piece is written {word[2:]!r}")
        square = "" if word[0] == "0" else usi_square(int(word[0]), int(word[1]))
        placed.append((square, PIECE_OF_WORD[word[2:]]))
    return placed


def start_lines(start_sfen: str) -> list[str]:
    """The statements that describe a start position, the side to move last."""
    game = ShogiGame(start_sfen)
    if game.sfen() == START_SFEN:
        return ["PI", "+"]
    return [
        *(_rank_line(game, rank) for rank in range(1, 10)),
        *(_hand_line(game, colour) for colour in (BLACK, WHITE) if game.hand(colour)),
        SIGNS[game.mover],
    ]


def _rank_line(game: ShogiGame, rank: int) -> str:
    cells = (_cell(game.piece_at(usi_square(file, rank))) for file in range(9, 0, -1))
    return f"P{rank}{''.join(cells)}"


def _cell(piece: str | None) -> str:
    if piece is None:
        return " * "
    return SIGNS[piece.islower()] + WORD_OF_PIECE[piece.upper()]


def _hand_line(game: ShogiGame, colour: int) -> str:
    hand = game.hand(colour)
    held = (f"00{WORD_OF_PIECE[letter]}" * hand.get(letter, 0) for letter in HAND_ORDER)
    return f"P{SIGNS[colour]}{''.join(held)}"
