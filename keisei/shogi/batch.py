"""Compiled loops over many games: step, reset, random play.

`run` does one task over a range of games; `run_in_parallel` shares the ranges out to threads. Games
never touch each other, so the split changes nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import prange

from keisei.compiled.kernels import kernel
from keisei.shogi.judging import (
    CONTINUES,
    DRAW,
    MAX_MOVES,
    MOVER_LOSES,
    NONE,
    count_occurrences,
    judge,
    record_position,
    start_history,
)
from keisei.shogi.movegen import generate
from keisei.shogi.position import NUM_ACTIONS, make_move, unmake_move
from keisei.shogi.random_stream import random_below, random_fraction

POSITION_BYTES = 100
"""A compact position: board 81, own hand 7, their hand 7, colour of the mover, in check,
earlier occurrences, ply (two bytes, low first); int8, the mover's pieces positive."""
OWN_HAND, THEIR_HAND, COLOUR, IN_CHECK, REPETITIONS, PLY_LOW, PLY_HIGH = 81, 88, 95, 96, 97, 98, 99


VALIDATE, STEP, RANDOM, DRAW_ACTIONS, DRAW_FRACTIONS, RESET, SHOW = range(7)
"""The tasks of `run`: check the given actions, play them, play random moves, choose random
actions, draw random numbers, begin new games, write the outputs from the records."""


class Games(NamedTuple):
    """The private state of B games."""

    records: np.ndarray  # [B] GAME
    keys: np.ndarray  # [B, M + 1] uint64, see `judging`
    check_runs: np.ndarray  # [B, M + 1] uint16
    actions: np.ndarray  # [B, M + 1] uint16: the action that led to each position
    captured: np.ndarray  # [B, M + 1] int8: the piece it took


class Outputs(NamedTuple):
    """What callers see of B games; the same arrays are written again by every step."""

    positions: np.ndarray
    """[B, 100] int8: the position to move in, compact."""
    legal: np.ndarray
    """[B, 593] uint16: its legal actions; the first `legal_counts` of each row count."""
    legal_counts: np.ndarray
    """[B] int32."""
    mover: np.ndarray
    """[B] int8: 0 black, 1 white."""
    ply: np.ndarray
    """[B] int32: moves played in the running game."""
    result: np.ndarray
    """[B] int8: 1 won, -1 lost, 0 otherwise, for the player who just moved."""
    reason: np.ndarray
    """[B] uint8: `Reason` of the ending, 0 while the game goes on."""
    truncated: np.ndarray
    """[B] bool: the game was cut by the move limit."""
    final_positions: np.ndarray
    """[B, 100] int8: the last position of a game that just ended, before its reset."""


class Rules(NamedTuple):
    """What kernels need of the options."""

    max_moves: int
    declaration: int
    random_start_share: float
    random_start_plies: int
    rewind_share: float
    rewind_plies: int


@kernel
def write_position(game, positions, row):
    """Write the compact form of the position, as the mover sees it."""
    us = game.mover & 1
    for square in range(81):
        positions[row, square] = game.board[us, square]
    for kind in range(7):
        positions[row, OWN_HAND + kind] = game.hands[us, kind]
        positions[row, THEIR_HAND + kind] = game.hands[1 - us, kind]
    positions[row, COLOUR] = us
    positions[row, IN_CHECK] = game.in_check
    positions[row, REPETITIONS] = min(game.repetitions, 3)
    positions[row, PLY_LOW] = game.ply & 255
    positions[row, PLY_HIGH] = (game.ply >> 8) & 255


@kernel
def advance(games, row, action, legal, rules):
    """Play `action`; return (number of legal replies, verdict for the next mover, reason)."""
    game = games.records[row]
    captured = make_move(game, action)
    count = generate(game, legal, row)
    first = record_position(game, games.keys, games.check_runs, row)
    games.actions[row, game.ply] = action
    games.captured[row, game.ply] = captured
    verdict, reason = judge(
        game, games.check_runs, row, first, count, rules.max_moves, rules.declaration
    )
    return count, verdict, reason


@kernel
def _to_start(games, row, start, legal):
    """Set up the start position, keeping the random stream; return its number of legal moves."""
    game = games.records[row]
    stream = game.random
    games.records[row] = start[0]
    game.random = stream
    count = generate(game, legal, row)
    start_history(game, games.keys, games.check_runs, row)
    return count


@kernel
def _restart(games, row, start, legal, rules):
    """Begin a new game, perhaps after random plies; return the number of legal moves."""
    count = _to_start(games, row, start, legal)
    game = games.records[row]
    if rules.random_start_plies == 0 or random_fraction(game) >= rules.random_start_share:
        return count
    plies = 1 + random_below(game, rules.random_start_plies)
    while game.ply < plies:
        action = np.int64(legal[row, random_below(game, count)])
        count, verdict, _ = advance(games, row, action, legal, rules)
        if verdict != CONTINUES:
            count = _to_start(games, row, start, legal)
    return count


@kernel
def _rewind(games, row, legal, rules):
    """Take back some moves of a finished game, to end it otherwise; return the legal moves."""
    game = games.records[row]
    plies = 1 + random_below(game, min(rules.rewind_plies, np.int64(game.ply)))
    for _ in range(plies):
        ply = game.ply
        unmake_move(game, np.int64(games.actions[row, ply]), np.int64(games.captured[row, ply]))
        game.ply -= 1
    count_occurrences(game, games.keys, row)
    return generate(game, legal, row)


@kernel
def _show(games, row, count, outputs):
    """Write what callers see of the position to move in."""
    game = games.records[row]
    write_position(game, outputs.positions, row)
    outputs.legal_counts[row] = count
    outputs.mover[row] = game.mover
    outputs.ply[row] = game.ply


@kernel
def _step_one(games, row, action, start, rules, outputs):
    count, verdict, reason = advance(games, row, action, outputs.legal, rules)
    outputs.reason[row] = reason
    outputs.truncated[row] = reason == MAX_MOVES
    outputs.result[row] = 0
    if verdict != CONTINUES:
        if verdict != DRAW:
            outputs.result[row] = 1 if verdict == MOVER_LOSES else -1
        write_position(games.records[row], outputs.final_positions, row)
        # Only won games: what led to a draw or a cut is no lesson in ending games.
        rewinds = rules.rewind_plies > 0 and verdict != DRAW
        if rewinds and random_fraction(games.records[row]) < rules.rewind_share:
            count = _rewind(games, row, outputs.legal, rules)
        else:
            count = _restart(games, row, start, outputs.legal, rules)
    _show(games, row, count, outputs)


@kernel
def _is_legal(action, outputs, row):
    if action < 0 or action >= NUM_ACTIONS:
        return False
    wanted = np.uint16(action)
    found = False
    for index in range(outputs.legal_counts[row]):  # no early exit: the loop becomes SIMD
        found |= outputs.legal[row, index] == wanted
    return found


@kernel(entry=True)
def run(task, games, first, last, steps, actions, fractions, start, rules, outputs):
    """Do one task for the games first to last - 1.

    One entry point for all tasks, because Numba optimises everything below an entry point anew:
    five of them would take three times as long to compile.
    Returns for VALIDATE the first row with an illegal action (`last` if none), for RANDOM the
    number of games that ended.
    """
    ended = 0
    for row in range(first, last):
        game = games.records[row]
        if task == VALIDATE:
            if not _is_legal(actions[row], outputs, row):
                return row
        elif task == DRAW_ACTIONS:
            choice = random_below(game, outputs.legal_counts[row])
            actions[row] = outputs.legal[row, choice]
        elif task == DRAW_FRACTIONS:
            fractions[row] = random_fraction(game)
        elif task == STEP or task == RANDOM:
            for _ in range(steps):
                action = np.int64(actions[row])
                if task == RANDOM:
                    choice = random_below(game, outputs.legal_counts[row])
                    action = np.int64(outputs.legal[row, choice])
                _step_one(games, row, action, start, rules, outputs)
                ended += outputs.reason[row] != NONE
        else:
            if task == RESET:
                count = _restart(games, row, start, outputs.legal, rules)
            else:
                count = generate(game, outputs.legal, row)
            outputs.reason[row] = NONE
            outputs.result[row] = 0
            outputs.truncated[row] = False
            _show(games, row, count, outputs)
    return last if task == VALIDATE else ended


@kernel(entry=True, parallel=True)
def run_in_parallel(task, games, answers, steps, actions, fractions, start, rules, outputs):
    """`run` over len(answers) ranges of games at once, each with its answer."""
    rows, parts = len(actions), len(answers)
    for part in prange(parts):
        first, last = part * rows // parts, (part + 1) * rows // parts
        answers[part] = run(
            task, games, first, last, steps, actions, fractions, start, rules, outputs
        )
