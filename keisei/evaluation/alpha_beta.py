"""`AlphaBetaPlayer`: looks some plies ahead and counts material."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from keisei.evaluation.alpha_beta_kernels import choose_by_search
from keisei.shogi.position import MAX_LEGAL_MOVES, new_games
from keisei.shogi.vector_shogi import VectorShogi

DEEPEST = 8
_PLIES_OF_CAPTURES = 8
"""So far exchanges are followed beyond the depth."""


class AlphaBetaPlayer:
    """Plays the move that leads to the most material within `depth` plies, mates above all.

    Exchanges are followed to their end before material is counted. Moves of equal score are equally
    likely.
    """

    def __init__(self, depth: int, seed: int) -> None:
        if not 1 <= depth <= DEEPEST:
            raise ValueError(f"alpha-beta searches 1 to {DEEPEST} plies deep, not {depth}")
        self.name = f"ab:{depth}"
        self._depth = np.int64(depth)
        self._random = np.random.default_rng(seed)
        self._copy = new_games(1)
        shape = (depth + _PLIES_OF_CAPTURES, MAX_LEGAL_MOVES)
        self._moves = np.zeros(shape, np.uint16)
        self._gains, self._ranks = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        self._killers = np.zeros(len(self._moves), np.int64)
        self._equals = np.zeros(MAX_LEGAL_MOVES, np.int64)

    def choose(self, games: VectorShogi, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """[R] int64: the action found for each row."""
        actions = np.zeros(len(rows), np.int64)
        choose_by_search(
            games.records,
            rows,
            self._depth,
            self._random.random(len(rows)),
            self._copy,
            self._moves,
            self._gains,
            self._ranks,
            self._killers,
            self._equals,
            actions,
        )
        return actions
