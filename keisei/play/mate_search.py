"""`MateSearch`: forced mates by checks, exact; a mate it announces is one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keisei.play.game_history import GameHistory
from keisei.play.mate_kernels import (
    DISPROVEN,
    MOST_PLIES,
    NEVER,
    NODES,
    PROVEN,
    MateRoom,
    new_mate_room,
)
from keisei.play.search_kernels import LINE, PROVE, answer_about_mate
from keisei.shogi.policy_output_mapper import PolicyOutputMapper

_SLICE = 20_000
"""Nodes between two looks at the clock: a tenth of a second."""


class Mate(Enum):
    """What is known of a mate."""

    FORCED = "forced"
    NONE = "none"
    """No sequence of checks mates."""
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class MateAnswer:
    """What a mate search found."""

    mate: Mate
    moves: tuple[str, ...] = ()
    """In USI, the defender holding out as long as possible; empty unless mate is forced."""
    shortest: bool = False
    """Whether no shorter mate exists."""
    nodes: int = 0


@dataclass(frozen=True)
class MateLimits:
    """When a mate search gives up: at the first of these that is reached."""

    nodes: int | None = None
    seconds: float | None = None
    stop: Callable[[], bool] = lambda: False


class MateSearch:
    """Searches one position at a time; 2 ** `table_bits` positions are remembered meanwhile."""

    def __init__(self, *, table_bits: int = 18) -> None:
        self._room: MateRoom = new_mate_room(table_bits)
        self._line = np.zeros(MOST_PLIES + 1, np.int64)

    def mate_in(self, sfen: str, moves: Sequence[str] = (), *, nodes: int = 100_000) -> MateAnswer:
        """Whether the player to move after `moves` from `sfen` mates."""
        return self.find_mate(GameHistory.of(sfen, moves), MateLimits(nodes=nodes))

    def find_mate(
        self, game: GameHistory, limits: MateLimits, *, max_moves: int = 32767
    ) -> MateAnswer:
        """Whether the player to move mates, before the game reaches `max_moves`.

        Half of the nodes or seconds go to ever longer mates, which finds the shortest. What is left
        then goes to a mate of any length.
        """
        self._room.counters[:] = self._room.counters[0] + 1, 0
        clock = _Clock(limits, self._room)
        most = min(MOST_PLIES, max_moves - game.ply)
        most -= 1 - most % 2
        plies = 1
        while plies <= most and not clock.half_spent():
            answer = self._prove(game, plies, clock)
            if answer == PROVEN:
                return self._answer(game, plies, shortest=True)
            if answer == NEVER:
                return MateAnswer(Mate.NONE, nodes=clock.nodes)
            if answer == DISPROVEN:
                plies += 2
        while plies < most and not clock.spent():
            answer = self._prove(game, most, clock)
            if answer == PROVEN:
                return self._answer(game, most, shortest=False)
            if answer == NEVER:
                return MateAnswer(Mate.NONE, nodes=clock.nodes)
            if answer == DISPROVEN:
                break
        return MateAnswer(Mate.UNKNOWN, nodes=clock.nodes)

    def _prove(self, game: GameHistory, plies: int, clock: _Clock) -> int:
        """Work on mate within `plies` for one slice; the table keeps what was done."""
        return self._ask(PROVE, game, plies, clock.slice())

    def _answer(self, game: GameHistory, plies: int, *, shortest: bool) -> MateAnswer:
        nodes = int(self._room.counters[NODES])
        length = self._ask(LINE, game, plies, _SLICE)
        if length == 0:
            return MateAnswer(Mate.UNKNOWN, nodes=nodes)
        actions = self._line[:length].tolist()
        return MateAnswer(Mate.FORCED, moves_of(actions, game.mover), shortest, nodes)

    def _ask(self, task: int, game: GameHistory, plies: int, budget: int) -> int:
        copy: NDArray[Any] = game.records.copy()
        return int(answer_about_mate(task, copy, plies, budget, game.keys, self._room, self._line))


class _Clock:
    """What a mate search has used of its limits."""

    def __init__(self, limits: MateLimits, room: MateRoom) -> None:
        self._limits = limits
        self._room = room
        self._start = time.perf_counter()

    @property
    def nodes(self) -> int:
        return int(self._room.counters[NODES])

    def spent(self) -> bool:
        return self._used() >= 1

    def half_spent(self) -> bool:
        return self._used() >= 0.5

    def slice(self) -> int:
        """Nodes to search before the next look."""
        if self._limits.nodes is None:
            return _SLICE
        left = self._limits.nodes - self.nodes
        half = self._limits.nodes // 2 - self.nodes
        return max(min(_SLICE, half if half > 0 else left), 1)

    def _used(self) -> float:
        """Share of the limit that is nearest; 1 from `stop` on."""
        if self._limits.stop():
            return 1.0
        shares = [0.0]
        if self._limits.nodes is not None:
            shares.append(self.nodes / max(self._limits.nodes, 1))
        if self._limits.seconds is not None:
            seconds = time.perf_counter() - self._start
            shares.append(seconds / max(self._limits.seconds, 1e-6))
        return max(shares)


def moves_of(actions: Sequence[int], mover: int) -> tuple[str, ...]:
    """The USI moves of actions played in turn, `mover` first."""
    return tuple(
        PolicyOutputMapper.move_of(action, (mover + ply) % 2) for ply, action in enumerate(actions)
    )
