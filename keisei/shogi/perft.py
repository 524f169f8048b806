"""Perft: how many sequences of legal moves of a given length a position has."""

from __future__ import annotations

import numpy as np

from keisei.compiled.kernels import kernel
from keisei.shogi.movegen import generate
from keisei.shogi.position import MAX_LEGAL_MOVES, make_move, unmake_move
from keisei.shogi.sfen import START_SFEN, parse_sfen

_COMPILED_DEPTH = 5


@kernel(entry=True)
def _count_leaves(game, depth, legal, counts, tried, captured):
    """Leaves below `game` at `depth` >= 1, by an explicit stack.

    legal: [depth, 593] uint16; counts, tried, captured: [depth] int64, all scratch.
    """
    level = np.int64(0)  # not a literal: see the directions in `bitboard`
    leaves = np.int64(0)
    counts[0] = generate(game, legal, level)
    if depth == 1:
        return counts[0]
    tried[0] = 0
    while True:
        if tried[level] == counts[level]:
            level -= 1
            if level < 0:
                return leaves
            unmake_move(game, np.int64(legal[level, tried[level] - 1]), captured[level])
            continue
        action = np.int64(legal[level, tried[level]])
        tried[level] += 1
        captured[level] = make_move(game, action)
        replies = generate(game, legal, level + 1)
        if level + 2 == depth:
            leaves += replies
            unmake_move(game, action, captured[level])
        else:
            level += 1
            counts[level] = replies
            tried[level] = 0


def perft(depth: int, sfen: str = START_SFEN) -> int:
    """Leaf count at `depth`; draws by repetition do not end lines."""
    if depth < 0:
        raise ValueError(f"depth must be at least 0, not {depth}")
    games, _ = parse_sfen(sfen)
    return _count(games[0], depth)


def _count(game: np.record, depth: int) -> int:
    """The first levels in Python, so that Ctrl-C is answered within a second."""
    if depth == 0:
        return 1
    rows = min(depth, _COMPILED_DEPTH)
    legal = np.zeros((rows, MAX_LEGAL_MOVES), np.uint16)
    if depth <= _COMPILED_DEPTH:
        scratch = np.zeros((3, rows), np.int64)
        return int(_count_leaves(game, depth, legal, *scratch))
    leaves = 0
    for action in legal[0, : generate(game, legal, 0)].tolist():
        captured = int(make_move(game, action))
        leaves += _count(game, depth - 1)
        unmake_move(game, action, captured)
    return leaves
