"""A start position laid out piece by piece, as diagrams in KIF and CSA files give it."""

from __future__ import annotations

from dataclasses import dataclass, field

from keisei.shogi.errors import NotationError
from keisei.shogi.pieces import BLACK, HAND_LETTERS, PIECES_IN_A_SET, WHITE
from keisei.shogi.squares import RANKS

HAND_ORDER = "RBGSNLP"
"""The order in which pieces in hand are listed."""


def usi_square(file: int, rank: int) -> str:
    """The USI name of a square: file 7, rank 6 is `7f`."""
    return f"{file}{RANKS[rank - 1]}"


def file_and_rank(square: str) -> tuple[int, int]:
    """The numbers of a USI square: `7f` is file 7, rank 6."""
    return int(square[0]), RANKS.index(square[1]) + 1


def of_colour(letters: str, colour: int) -> str:
    """SFEN letters in the case of their owner."""
    return letters.lower() if colour == WHITE else letters


@dataclass
class StartPosition:
    """Pieces on squares (`{"7g": "P", "5a": "k"}`), pieces in hand, and who moves first."""

    board: dict[str, str] = field(default_factory=dict)
    hands: tuple[dict[str, int], dict[str, int]] = field(default_factory=lambda: ({}, {}))
    mover: int = BLACK
    move_number: int = 1

    def place(self, square: str, letters: str, colour: int) -> None:
        """Put a piece on an empty square."""
        if square in self.board:
            raise NotationError(f"two pieces on {square}")
        self.board[square] = of_colour(letters, colour)

    def put_in_hand(self, letter: str, colour: int, count: int = 1) -> None:
        """Give a side pieces to drop."""
        if letter not in HAND_LETTERS:
            raise NotationError(f"{letter} cannot be held in hand")
        self.hands[colour][letter] = self.hands[colour].get(letter, 0) + count

    def put_the_rest_in_hand(self, colour: int) -> None:
        """Give a side every piece of the set, kings apart, that is not placed yet."""
        for piece_number, letter in enumerate(HAND_LETTERS, start=1):
            on_board = sum(piece.upper().lstrip("+") == letter for piece in self.board.values())
            held = sum(hand.get(letter, 0) for hand in self.hands)
            rest = PIECES_IN_A_SET[piece_number] - on_board - held
            if rest > 0:
                self.put_in_hand(letter, colour, rest)

    def sfen(self) -> str:
        """The position as SFEN, readable though not in its shortest form.

        Whether the position is possible is for `ShogiGame` to say.
        """
        ranks = "/".join(
            "".join(self.board.get(usi_square(file, rank), "1") for file in range(9, 0, -1))
            for rank in range(1, 10)
        )
        held = "".join(
            f"{count}{of_colour(letter, colour)}"
            for colour in (BLACK, WHITE)
            for letter, count in self.hands[colour].items()
        )
        return f"{ranks} {'bw'[self.mover]} {held or '-'} {self.move_number}"
