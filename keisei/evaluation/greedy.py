"""The move of `GreedyPlayer`, compiled: mate in one, else the most material."""

from __future__ import annotations

import numpy as np

from keisei.compiled.kernels import kernel
from keisei.shogi.attacks import is_attacked
from keisei.shogi.movegen import generate
from keisei.shogi.pieces import PROMOTES_TO
from keisei.shogi.position import BOARD_MOVES, decode_board_move, make_move, unmake_move

PIECE_VALUES = np.array([0, 1, 3, 4, 5, 6, 8, 10, 0, 6, 6, 6, 6, 10, 12], np.int64)
"""[15] int64 by piece number: what a piece is worth on the board. A king is never taken."""

_MATE = 1000  # more than any capture
_FIRST_ROW = np.int64(0)  # not a literal: see the directions in `bitboard`
_board_move = kernel(decode_board_move)


@kernel
def _material_gain(game, action):
    """The value of the piece taken and of the promotion; never negative."""
    if action >= BOARD_MOVES:
        return np.int64(0)
    origin, target, promotes = _board_move(action)
    own_view = game.board[game.mover & 1]
    gain = PIECE_VALUES[-np.int64(own_view[target])]
    if promotes:
        piece = np.int64(own_view[origin])
        gain += PIECE_VALUES[PROMOTES_TO[piece]] - PIECE_VALUES[piece]
    return gain


@kernel
def _gives_mate(game, action, replies):
    """Whether the action mates. Changes nothing of `game` but `in_check`."""
    captured = make_move(game, action)
    them = game.mover & 1
    king = np.int64(game.king[them])
    mate = False
    if king >= 0 and is_attacked(king, game.squares[them, 0], game.squares[them, 1]):
        mate = generate(game, replies, _FIRST_ROW) == 0
    unmake_move(game, action, captured)
    return mate


@kernel(entry=True)
def choose_greedily(records, rows, legal, legal_counts, draws, copy, candidates, actions):
    """Write the greedy action of each of R games to `actions`.

    records: [B] GAME, only read; rows: [R] int64; legal: [B, 593] uint16; legal_counts: [B] int32;
    draws: [R] float64 from 0 to 1, one for each choice among equals; copy: [1] GAME and
    candidates: [2, 593] uint16, both scratch; actions: [R] int64.
    """
    game = copy[0]
    equals, replies = candidates[1], candidates[:1]
    for index in range(len(rows)):
        row = rows[index]
        copy[0] = records[row]
        best = count = 0
        for move in range(legal_counts[row]):
            action = np.int64(legal[row, move])
            gain = _MATE if _gives_mate(game, action, replies) else _material_gain(game, action)
            if gain > best:
                best, count = gain, 0
            if gain == best:
                equals[count] = action
                count += 1
        actions[index] = equals[int(draws[index] * count)]
