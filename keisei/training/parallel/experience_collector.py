"""`ExperienceCollector`: who plays the games that the learner learns from.

The serial one plays them in this process; `ParallelManager` has workers do it; with
`DeviceCollector` the learner's device chooses the moves of large batches.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from keisei.config_schema import Config
from keisei.core.experience_buffer import ExperienceBuffer
from keisei.core.ppo_agent import PPOAgent
from keisei.training.opponent_pool import OpponentPool
from keisei.training.parallel.rollout_statistics import RolloutStatistics
from keisei.training.parallel.self_play import GamesState, Group, SelfPlay, board_of

Collected = tuple[NDArray[np.float32], RolloutStatistics]


@dataclass(frozen=True)
class CollectorReport:
    """How the collecting goes: figures for the metrics, lines for people."""

    figures: dict[str, float] = field(default_factory=dict)
    workers: list[str] = field(default_factory=list)
    """One line for each worker."""


Rollout_contra = TypeVar("Rollout_contra", contravariant=True)


class ExperienceCollector(Protocol[Rollout_contra]):
    """Fills a buffer with rollouts of its games: an `ExperienceBuffer` or a `DeviceRollout`."""

    def collect(self, buffer: Rollout_contra, /) -> Collected:
        """Fill the empty buffer.

        Returns the values [B] of the positions behind its last step, and what happened.
        """

    def synchronize_models(self) -> None:
        """The learner's weights, or the opponent's, have changed: play with the new ones."""

    def pause(self) -> None:
        """Leave the processors to others until `resume`."""

    def resume(self) -> None:
        """Play on."""

    def report(self) -> CollectorReport:
        """How it goes."""

    def board(self) -> str:
        """One of the running games, as text."""

    def state(self) -> dict[str, NDArray[Any]]:
        """The games behind all that was collected, as arrays."""

    def load_state(self, state: dict[str, NDArray[Any]]) -> None:
        """Continue the games of `state`."""

    def close(self) -> None:
        """End what was started."""


class PlaysHere:
    """What is simple for a collector that plays in this process, with the learner's own network."""

    def synchronize_models(self) -> None:
        """Nothing to do: the games are played by the learner's own network."""

    def pause(self) -> None:
        """Nothing to do: nothing is played but in `collect`."""

    def resume(self) -> None:
        """Nothing to do."""

    def report(self) -> CollectorReport:
        """Nothing beyond what each rollout tells."""
        return CollectorReport()

    def close(self) -> None:
        """Nothing was started."""


class SerialCollector(PlaysHere):
    """Plays the groups in this process, one after the other."""

    def __init__(
        self,
        config: Config,
        agent: PPOAgent,
        pool: OpponentPool | None,
        groups: list[Group],
        *,
        threads: int,
    ) -> None:
        opponent = None if pool is None else pool.opponent
        self._agent = agent
        self.groups = [
            SelfPlay(config, agent, opponent, group, threads=threads) for group in groups
        ]

    def collect(self, buffer: ExperienceBuffer) -> Collected:
        """Play one rollout of every group, or of those whose turn it is if not all find room."""
        if len(self.groups) == 1:
            return self.groups[0].collect(buffer)
        statistics, last_values = RolloutStatistics(), []
        rollouts = buffer.games // self.groups[0].games.num_games
        first = self._agent.version * rollouts
        column = 0
        for number in range(first, first + rollouts):
            group = self.groups[number % len(self.groups)]
            part = ExperienceBuffer(buffer.steps, group.games.num_games)
            values, what_happened = group.collect(part)
            buffer.place(part.get_serializable_batch(), column)
            column += group.games.num_games
            statistics.add(what_happened)
            last_values.append(values)
        return np.concatenate(last_values), statistics

    def board(self) -> str:
        """The last game, as text."""
        return board_of(self.groups[-1].state())

    def state(self) -> GamesState:
        """The games in progress, as arrays."""
        return join_states([group.state() for group in self.groups])

    def load_state(self, state: GamesState) -> None:
        """Continue the games of `state`."""
        parts = split_state(state, [group.state() for group in self.groups])
        for group, part in zip(self.groups, parts, strict=True):
            group.load_state(part)


def join_states(states: list[GamesState]) -> GamesState:
    """The states of several groups as one."""
    return {name: np.concatenate([state[name] for state in states]) for name in states[0]}


def split_state(state: GamesState, groups: list[GamesState]) -> list[GamesState]:
    """The games of `state`, shared out to groups as large as those that are there.

    If there are too many, the last are given up; too few, and the last of the groups stay.
    """
    parts, first = [], 0
    for group in groups:
        behind = first + len(next(iter(group.values())))
        parts.append(_filled_up({name: state[name][first:behind] for name in state}, group))
        first = behind
    return parts


def _filled_up(games: GamesState, group: GamesState) -> GamesState:
    """So many games as the group has, its own behind the others."""
    found = len(next(iter(games.values())))
    if found == 0:
        return group
    rest = {name: group[name][found:] for name in games if name in group}
    alike = all(rest[name].shape[1:] == games[name].shape[1:] for name in rest)
    if not alike:  # who loads them knows what to say
        return games
    return {name: np.concatenate([games[name], rest[name]]) for name in rest}
