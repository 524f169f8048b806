"""Moves as text, as one of 13,527 actions, and as one of 27 x 81 policy planes.

An action is a move in the mover's view: board moves first (from, to, promotion), then drops
(square, kind). A policy plane is a way to arrive on a square: ten directions, the same with
promotion, or a drop of one of seven kinds. Legal moves of one position never share a plane.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from keisei.shogi.bitboard import KNIGHT_LEFT, KNIGHT_RIGHT, LINE_DIRECTION, step_from
from keisei.shogi.errors import NotationError
from keisei.shogi.pieces import BLACK, HAND_LETTERS
from keisei.shogi.position import BOARD_MOVES, NUM_ACTIONS, decode_board_move, decode_drop
from keisei.shogi.squares import square_name, square_number

NUM_PLANES = 27
NO_PLANE = -1
_DIRECTIONS = 10
_USI_MOVE = re.compile(r"([1-9][a-i])([1-9][a-i])(\+?)|([PLNSGBR])\*([1-9][a-i])")


def _direction(origin: int, target: int) -> int:
    """The policy direction of a move, -1 when no piece moves that way."""
    if target == step_from(origin, KNIGHT_LEFT):
        return int(KNIGHT_LEFT)
    if target == step_from(origin, KNIGHT_RIGHT):
        return int(KNIGHT_RIGHT)
    return int(LINE_DIRECTION[origin, target])


def _make_plane_table() -> NDArray[np.int16]:
    """[13527] int16: plane * 81 + target of every action; `NO_PLANE` where no piece moves so."""
    table = np.full(NUM_ACTIONS, NO_PLANE, np.int16)
    for action in range(BOARD_MOVES):
        origin, target, promotes = decode_board_move(action)
        direction = _direction(origin, target)
        if direction >= 0:
            table[action] = (direction + _DIRECTIONS * promotes) * 81 + target
    for action in range(BOARD_MOVES, NUM_ACTIONS):
        target, kind = decode_drop(action)
        table[action] = (2 * _DIRECTIONS + kind) * 81 + target
    return table


class PolicyOutputMapper:
    """The bijection between USI moves and actions, and the table from actions to planes."""

    num_actions = NUM_ACTIONS
    num_planes = NUM_PLANES
    plane_indices: NDArray[np.int16] = _make_plane_table()
    """[13527] int16: index into the 27 x 81 = 2,187 policy outputs, `NO_PLANE` where none."""

    @staticmethod
    def action_of(move: str, mover: int) -> int:
        """The action of a USI move ("7g7f", "8h2b+", "P*5e") played by `mover`."""
        match = _USI_MOVE.fullmatch(move)
        if match is None or match[1] == match[2] is not None:
            raise NotationError(f"{move!r} is not a move; moves look like 7g7f, 8h2b+ or P*5e")
        if match[4]:
            target = _seen_by(mover, square_number(match[5]))
            return BOARD_MOVES + target * 7 + HAND_LETTERS.index(match[4])
        origin = _seen_by(mover, square_number(match[1]))
        target = _seen_by(mover, square_number(match[2]))
        return 2 * (origin * 80 + target - (target > origin)) + bool(match[3])

    @staticmethod
    def move_of(action: int, mover: int) -> str:
        """The USI move of an action played by `mover`."""
        if not 0 <= action < NUM_ACTIONS:
            raise NotationError(f"action {action} is not between 0 and {NUM_ACTIONS - 1}")
        if action >= BOARD_MOVES:
            target, kind = decode_drop(int(action))
            return f"{HAND_LETTERS[kind]}*{square_name(_seen_by(mover, target))}"
        origin, target, promotes = decode_board_move(int(action))
        names = (square_name(_seen_by(mover, square)) for square in (origin, target))
        return "".join(names) + ("+" if promotes else "")


def _seen_by(mover: int, square: int) -> int:
    """Turn a square of black's view into one of the mover's view, and back."""
    return square if mover == BLACK else 80 - square
