"""Who can play: what a player is, and two that need no training."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from keisei.evaluation.greedy import choose_greedily
from keisei.shogi.position import MAX_LEGAL_MOVES, new_games
from keisei.shogi.vector_shogi import VectorShogi


class Player(Protocol):
    """Someone who plays many games at once."""

    name: str

    def choose(self, games: VectorShogi, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """[R] int64: a legal action for each of the given rows of the batch; changes no game.

        rows: [R] int64, never empty. The player is to move in all of them.
        """


class RandomPlayer:
    """Every legal move is equally likely."""

    name = "random"

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def choose(self, games: VectorShogi, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """[R] int64: a random legal action for each row."""
        choices = self._random.integers(games.legal_counts[rows])
        return games.legal[rows, choices].astype(np.int64)


class GreedyPlayer:
    """Mates in one if it can, else takes or promotes for the most material, else moves at random.

    It never looks at replies: a rook takes a defended pawn. Moves of equal gain are equally likely.
    """

    name = "greedy"

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._copy = new_games(1)
        self._candidates = np.zeros((2, MAX_LEGAL_MOVES), np.uint16)

    def choose(self, games: VectorShogi, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """[R] int64: the greedy action for each row."""
        actions = np.zeros(len(rows), np.int64)
        choose_greedily(
            games.records,
            rows,
            games.legal,
            games.legal_counts,
            self._random.random(len(rows)),
            self._copy,
            self._candidates,
            actions,
        )
        return actions


_PLAYERS = {player.name: player for player in (RandomPlayer, GreedyPlayer)}


def make_player(name: str, seed: int) -> Player:
    """The untrained player of that name."""
    if name not in _PLAYERS:
        raise ValueError(f"unknown player {name!r}; use {' or '.join(_PLAYERS)}")
    return _PLAYERS[name](seed)
