"""How games end: repetition, perpetual check, entering-king declaration, mate, move limit.

The history of a game is two rows of arrays beside its record:
keys: [B, M + 1] uint64, the hash of the position after each ply (index 0: the start);
check_runs: [B, M + 1] uint16, how many moves in a row, up to the one that led to this position,
its player had given check with.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from keisei.compiled.kernels import kernel
from keisei.shogi.bitboard import ZONE, count_bits
from keisei.shogi.pieces import (
    ALL,
    BISHOPS,
    DRAGONS,
    HORSES,
    ROOKS,
)

SEEN_BITS = 4096


class Reason(IntEnum):
    """Why a game ended."""

    NONE = 0
    CHECKMATE = 1
    NO_LEGAL_MOVES = 2
    REPETITION = 3
    PERPETUAL_CHECK = 4
    DECLARATION = 5
    MAX_MOVES = 6


class Declaration(IntEnum):
    """Which entering-king rule ends games; its number of points for a draw or a win."""

    OFF = 0
    POINTS_24 = 24
    POINTS_27 = 27


# Kernels see enum members as plain numbers.
NONE, CHECKMATE, NO_LEGAL_MOVES, REPETITION, PERPETUAL_CHECK, DECLARATION, MAX_MOVES = map(
    int, Reason
)
CONTINUES, DRAW, MOVER_WINS, MOVER_LOSES = range(4)
"""Verdicts on a position, from the side of the player to move."""


@kernel(entry=True)
def start_history(game, keys, check_runs, row):
    """Begin the history with the position on the board."""
    game.ply = 0
    game.repetitions = 0
    game.seen[:] = 0
    keys[row, 0] = game.key
    check_runs[row, 0] = 0
    _mark_seen(game)


@kernel
def _mark_seen(game):
    """Note the position's hash in the filter; return whether its bit was set already."""
    bit = np.int64(game.key & (SEEN_BITS - 1))
    byte = np.int64(game.seen[bit >> 3])
    mask = 1 << (bit & 7)
    game.seen[bit >> 3] = byte | mask
    return byte & mask


@kernel(entry=True)
def record_position(game, keys, check_runs, row):
    """Add the position after a move to the history; returns the ply it first occurred at.

    Needs `in_check`, so it comes after move generation. Most positions are new, and the filter
    `seen` says so without a look at the history.
    """
    game.ply += 1
    ply = np.int64(game.ply)
    keys[row, ply] = game.key
    run = 0
    if game.in_check:
        run = 1 + (np.int64(check_runs[row, ply - 2]) if ply >= 2 else 0)
    check_runs[row, ply] = run
    if _mark_seen(game):
        return count_occurrences(game, keys, row)
    game.repetitions = 0
    return ply


@kernel
def count_occurrences(game, keys, row):
    """Set `repetitions` from the history; return the ply of the first occurrence."""
    game.repetitions = 0
    first = np.int64(game.ply)
    for earlier in range(first - 2, -1, -2):
        if keys[row, earlier] == game.key:
            game.repetitions += 1
            first = earlier
    return first


@kernel
def _repetition(game, check_runs, row, first):
    """(verdict, reason) of a fourth occurrence, the first of which was at ply `first`.

    Whoever gave check with every move of the cycle loses; if both did, nobody can be blamed.
    """
    ply = np.int64(game.ply)
    moves_each = (ply - first) // 2
    opponent_checked = check_runs[row, ply] >= moves_each
    mover_checked = check_runs[row, ply - 1] >= moves_each
    if opponent_checked and not mover_checked:
        return MOVER_WINS, PERPETUAL_CHECK
    if mover_checked and not opponent_checked:
        return MOVER_LOSES, PERPETUAL_CHECK
    return DRAW, REPETITION


@kernel
def declaration_points(game):
    """(points, pieces in the zone) of the mover; the king counts for neither."""
    us = game.mover & 1
    own = game.squares[us, 0]
    pieces = count_bits(own[ALL, 0] & ZONE)
    big = own[BISHOPS, 0] | own[ROOKS, 0] | own[HORSES, 0] | own[DRAGONS, 0]
    king = np.int64(game.king[us])
    if 0 <= king < 27:
        pieces -= 1
    points = pieces + 4 * count_bits(big & ZONE)
    for kind in range(5):
        points += np.int64(game.hands[us, kind])
    return points + 5 * (np.int64(game.hands[us, 5]) + np.int64(game.hands[us, 6])), pieces


@kernel(entry=True)
def declaration_verdict(game, rule):
    """What the mover gets by declaring now under the 24- or 27-point rule (`in_check` is set)."""
    us = game.mover & 1
    king = np.int64(game.king[us])
    if king < 0 or king >= 27 or game.in_check:
        return CONTINUES
    points, pieces = declaration_points(game)
    if pieces < 10:
        return CONTINUES
    if rule == 27:
        return MOVER_WINS if points >= 28 - us else CONTINUES
    if points >= 31:
        return MOVER_WINS
    return DRAW if points >= 24 else CONTINUES


@kernel(entry=True)
def judge(game, check_runs, row, first, legal_moves, max_moves, rule):
    """(verdict, reason) of the position just recorded."""
    if legal_moves == 0:
        return MOVER_LOSES, CHECKMATE if game.in_check else NO_LEGAL_MOVES
    if game.repetitions >= 3:
        return _repetition(game, check_runs, row, first)
    if rule:
        verdict = declaration_verdict(game, rule)
        if verdict != CONTINUES:
            return verdict, DECLARATION
    if game.ply >= max_moves:
        return DRAW, MAX_MOVES
    return CONTINUES, NONE
