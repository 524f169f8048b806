"""`ShogiGame`: one game for people, tests and tools, on the same compiled rules as the batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from keisei.shogi.errors import IllegalMoveError
from keisei.shogi.judging import (
    CONTINUES,
    DRAW,
    MOVER_WINS,
    Declaration,
    Reason,
    declaration_verdict,
    judge,
    record_position,
    start_history,
)
from keisei.shogi.movegen import generate
from keisei.shogi.pieces import BLACK, HAND_LETTERS, WHITE
from keisei.shogi.policy_output_mapper import PolicyOutputMapper
from keisei.shogi.position import MAX_LEGAL_MOVES, make_move, unmake_move
from keisei.shogi.sfen import START_SFEN, format_sfen, parse_sfen, piece_letters
from keisei.shogi.squares import RANKS, square_number

DeclarationResult = Literal["win", "draw", "none"]
_DECLARATION_RESULTS: dict[int, DeclarationResult] = {
    CONTINUES: "none",
    DRAW: "draw",
    MOVER_WINS: "win",
}
_NO_LIMIT = 2**31 - 1
_FIRST_CAPACITY = 128


@dataclass(frozen=True)
class Outcome:
    """How a game ended: `winner` is 0 (black), 1 (white) or None."""

    winner: int | None
    reason: Reason


@dataclass(frozen=True)
class _Before:
    """What a move changes besides the board, kept to take it back."""

    action: int
    captured: int
    in_check: int
    repetitions: int
    first_occurrence: int


class ShogiGame:
    """A game of shogi. Moves are USI text or action numbers, colours 0 (black) and 1 (white).

    `make_move` accepts every legal move, also after a repetition or the move limit: programs that
    send such games exist. `outcome` judges the position on the board.
    """

    def __init__(
        self,
        sfen: str = START_SFEN,
        *,
        max_moves: int | None = 512,
        declaration: Declaration = Declaration.OFF,
    ) -> None:
        self._records, self._start_number = parse_sfen(sfen)
        self._game = self._records[0]
        self._max_moves = _NO_LIMIT if max_moves is None else max_moves
        self._declaration = declaration
        self._keys = np.zeros((1, _FIRST_CAPACITY), np.uint64)
        self._check_runs = np.zeros((1, _FIRST_CAPACITY), np.uint16)
        self._legal = np.zeros((1, MAX_LEGAL_MOVES), np.uint16)
        self._past: list[_Before] = []
        self._first_occurrence = 0
        self.moves: list[str] = []
        self._count = int(generate(self._game, self._legal, 0))
        start_history(self._game, self._keys, self._check_runs, 0)

    @property
    def mover(self) -> int:
        """Whose turn it is: 0 black, 1 white."""
        return int(self._game.mover)

    @property
    def ply(self) -> int:
        """Moves played since the start position."""
        return int(self._game.ply)

    @property
    def in_check(self) -> bool:
        """Whether the mover's king is attacked."""
        return bool(self._game.in_check)

    @property
    def repetitions(self) -> int:
        """How often this position occurred before."""
        return int(self._game.repetitions)

    def sfen(self) -> str:
        """The position as SFEN; the move number counts on from that of the start."""
        return format_sfen(self._game, self._start_number + self.ply)

    def compact_position(self) -> NDArray[np.int8]:
        """[100] int8: the position on the board as `VectorShogi.positions` has it."""
        game, mover = self._game, self.mover
        low, high = self.ply & 255, self.ply >> 8 & 255
        rest = [mover, self.in_check, min(self.repetitions, 3), low, high]
        parts = [game.board[mover], game.hands[mover], game.hands[1 - mover], rest]
        return np.concatenate(parts).astype(np.uint8).view(np.int8)

    def legal_actions(self) -> list[int]:
        """All legal moves as action numbers, in the order `VectorShogi` gives them."""
        return [int(action) for action in self._legal[0, : self._count]]

    def legal_moves(self) -> list[str]:
        """All legal moves in USI notation, sorted."""
        return sorted(PolicyOutputMapper.move_of(a, self.mover) for a in self.legal_actions())

    def is_legal(self, move: str | int) -> bool:
        """Whether the rules allow `move` now; text that is no move at all is a `NotationError`."""
        return bool(np.any(self._legal[0, : self._count] == self._action(move)))

    def make_move(self, move: str | int) -> None:
        """Play a legal move."""
        action = self._action(move)
        text = PolicyOutputMapper.move_of(action, self.mover)
        if not self.is_legal(action):
            raise IllegalMoveError(f"{text} is not legal in {self.sfen()}")
        if self.ply + 1 >= self._keys.shape[1]:
            self._keys = np.concatenate([self._keys, np.zeros_like(self._keys)], axis=1)
            self._check_runs = np.concatenate(
                [self._check_runs, np.zeros_like(self._check_runs)], axis=1
            )
        game = self._game
        in_check, repetitions = int(game.in_check), int(game.repetitions)
        captured = int(make_move(game, action))
        self._past.append(_Before(action, captured, in_check, repetitions, self._first_occurrence))
        self.moves.append(text)
        self._count = int(generate(game, self._legal, 0))
        self._first_occurrence = int(record_position(game, self._keys, self._check_runs, 0))

    def undo(self) -> str:
        """Take the last move back and return it."""
        if not self._past:
            raise IllegalMoveError("there is no move to take back")
        before = self._past.pop()
        unmake_move(self._game, before.action, before.captured)
        self._count = int(generate(self._game, self._legal, 0))
        self._game.ply -= 1
        self._game.repetitions = before.repetitions
        self._first_occurrence = before.first_occurrence
        return self.moves.pop()

    def outcome(self) -> Outcome | None:
        """How the game stands ended, None while it goes on."""
        verdict, reason = judge(
            self._game,
            self._check_runs,
            0,
            self._first_occurrence,
            self._count,
            self._max_moves,
            int(self._declaration),
        )
        if verdict == CONTINUES:
            return None
        if verdict == DRAW:
            return Outcome(None, Reason(reason))
        return Outcome(self.mover if verdict == MOVER_WINS else 1 - self.mover, Reason(reason))

    def declaration(self, rule: Literal[24, 27] = 27) -> DeclarationResult:
        """What the mover would get by declaring an entered king now."""
        verdict = declaration_verdict(self._game, rule)
        return _DECLARATION_RESULTS[int(verdict)]

    def piece_at(self, square: str) -> str | None:
        """SFEN letters of the piece on a square such as "7g", upper case for black."""
        piece = int(self._game.board[BLACK, square_number(square)])
        return piece_letters(piece) if piece else None

    def hand(self, colour: int) -> dict[str, int]:
        """The pieces in hand: {"P": 2, "G": 1}."""
        counts = zip(HAND_LETTERS, self._game.hands[colour], strict=True)
        return {letter: int(count) for letter, count in counts if count}

    def copy(self) -> ShogiGame:
        """An independent game with the same position and past."""
        other = ShogiGame.__new__(ShogiGame)
        other.__dict__.update(self.__dict__)
        for name in ("_records", "_keys", "_check_runs", "_legal", "_past", "moves"):
            setattr(other, name, getattr(self, name).copy())
        other._game = other._records[0]
        return other

    def __str__(self) -> str:
        """The board as black sees it, with hands and whose turn it is."""
        rows = ["  9  8  7  6  5  4  3  2  1"]
        for rank, row in zip(RANKS, self._game.board[BLACK].reshape(9, 9), strict=True):
            cells = (piece_letters(int(piece)) if piece else "." for piece in row)
            rows.append("".join(f"{cell:>3}" for cell in cells) + f"  {rank}")
        hands = ["".join(_hand_text(self.hand(colour))) or "-" for colour in (BLACK, WHITE)]
        turn = "black" if self.mover == BLACK else "white"
        check = ", in check" if self.in_check else ""
        return "\n".join(
            [
                f"white holds {hands[WHITE]}",
                *rows,
                f"black holds {hands[BLACK]}",
                f"{turn} to move{check}",
            ]
        )

    def _action(self, move: str | int) -> int:
        return PolicyOutputMapper.action_of(move, self.mover) if isinstance(move, str) else move


def _hand_text(hand: dict[str, int]) -> list[str]:
    return [f"{letter}{count if count > 1 else ''}" for letter, count in hand.items()]
