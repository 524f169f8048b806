"""Who can play: what a player is, and those that need neither training nor a search."""

from __future__ import annotations

from enum import IntEnum
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from keisei.evaluation.greedy import choose_greedily
from keisei.shogi.position import MAX_LEGAL_MOVES, new_games
from keisei.shogi.vector_shogi import VectorShogi


class NoMove(IntEnum):
    """What a player may answer instead of an action, negative so that it is none.

    Its game ends there and then. Who declares has won if the points of the 27-point rule suffice;
    for everything else the game is lost, and this is the reason that is kept.
    """

    RESIGNS = -1
    DECLARES = -2
    FALSE_DECLARATION = -3
    ILLEGAL_MOVE = -4
    REFUSES_MOVE = -5
    """It does not accept a legal move of the opponent."""
    CRASHED = -6
    SILENT = -7
    """It did not answer in time."""


class Player(Protocol):
    """Someone who plays many games at once."""

    name: str

    def choose(self, games: VectorShogi, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """[R] int64: a legal action, or a `NoMove`, for each of the given rows; changes no game.

        rows: [R] int64, never empty. The player is to move in all of them.
        """


@runtime_checkable
class SeatedPlayer(Player, Protocol):
    """A player with processes of its own: it thinks beside its opponent, and must be closed."""

    seats: int | None
    """So many games it plays side by side at most; None if that does not matter to it."""

    def think(self, games: VectorShogi, rows: NDArray[np.int64]) -> None:
        """Begin to think about rows that `choose` will be asked about before any game changes."""

    def close(self) -> None:
        """End its processes."""


def close_player(player: Player) -> None:
    """End the processes of a player that has any."""
    if isinstance(player, SeatedPlayer):
        player.close()


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


class MixPlayer:
    """Another player with a given probability for each move, else a random legal move."""

    def __init__(self, probability: float, other: Player, seed: int) -> None:
        self.name = f"mix:{probability:g}:{other.name}"
        self.seats = other.seats if isinstance(other, SeatedPlayer) else None
        self._probability = probability
        self._other = other
        self._chance = RandomPlayer(seed)
        self._random = np.random.default_rng([seed, 1])
        self._asks_other: NDArray[np.bool_] | None = None

    def think(self, games: VectorShogi, rows: NDArray[np.int64]) -> None:
        """Decide whose moves these will be, so that the other player can begin to think."""
        self._asks_other = self._random.random(len(rows)) < self._probability
        if isinstance(self._other, SeatedPlayer) and self._asks_other.any():
            self._other.think(games, rows[self._asks_other])

    def choose(self, games: VectorShogi, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """[R] int64: what the other player chooses, or a random legal action."""
        if self._asks_other is None:
            self.think(games, rows)
        asks_other, self._asks_other = self._asks_other, None
        actions = self._chance.choose(games, rows)
        if asks_other is not None and asks_other.any():
            actions[asks_other] = self._other.choose(games, rows[asks_other])
        return actions

    def close(self) -> None:
        """End the other player's processes."""
        close_player(self._other)
