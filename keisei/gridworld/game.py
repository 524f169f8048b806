"""`Game`: what can be trained, epoch after epoch: our worlds, and environments of others."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from keisei.gridworld.errors import WorldError
from keisei.gridworld.model import Model
from keisei.gridworld.parallel_pace import FULL_SPEED, EpochPace
from keisei.gridworld.spans import TimelineLike, TimelineMaker
from keisei.prefixed_names import below

_LOG = logging.getLogger(__name__)


class EpochResult(NamedTuple):
    """What an epoch brought."""

    epoch: int
    turns: int
    steps: int
    """Agent-steps: turns that an agent has taken, over all agents and copies."""
    rewards: NDArray[np.float64]
    """[N] what each agent got, the mean over the copies."""
    figures: list[dict[str, float]]
    """Of each agent's last train step, such as its loss."""
    counts: dict[str, float]
    """What the game itself counts, see `Game.counts`."""
    playing_seconds: float
    training_seconds: float

    @property
    def total_reward(self) -> float:
        """What all agents together got, the mean over the copies."""
        return float(self.rewards.sum())

    @property
    def seconds(self) -> float:
        """How long the epoch took."""
        return self.playing_seconds + self.training_seconds


class GameAgent(Protocol):
    """Who has a model."""

    number: int

    @property
    def model(self) -> Model:
        """Its own model."""


class Game:
    """Epochs of N agents in B copies; what kind of world it is, subclasses know.

    A subclass sets `agents`, `rewards` and `steps`, and writes `reset`, `take_turn` and `is_over`.
    """

    agents: Sequence[GameAgent]
    rewards: NDArray[np.float64]
    """[N, B] what each agent got in this epoch."""
    steps: int
    """Agent-steps of this epoch."""

    def __init__(self) -> None:
        self.epoch = 0
        """How many epochs have been run."""
        self.on_news: Callable[[str], None] = _LOG.warning
        """Told what a person should know, such as that an agent's training failed."""
        self._playing_seconds = 0.0

    # What a kind of game writes

    def reset(self) -> None:
        """Begin an epoch: a world set up anew."""
        raise NotImplementedError

    def take_turn(self) -> None:
        """Everybody looks, decides and acts."""
        raise NotImplementedError

    def is_over(self) -> bool:
        """Whether the epoch has ended."""
        raise NotImplementedError

    def turns(self) -> int:
        """How many turns this epoch has had."""
        raise NotImplementedError

    def start_epoch_action(self, epoch: int) -> None:
        """Called when the world of an epoch is set up."""

    def end_epoch_action(self, epoch: int) -> None:
        """Called when an epoch has been played, before the agents train."""

    def counts(self) -> dict[str, float]:
        """What is worth watching besides rewards: called at the end of each epoch."""
        return {}

    def trace_with(self, timeline: TimelineLike, make_timeline: TimelineMaker) -> None:
        """Write to this timeline, which is not closed here, and one of each other thread."""

    def take_up_lessons(self) -> None:
        """Give the agents what was learned beside, at the end of an epoch; `train` does it too."""

    def next_pace(self) -> EpochPace:
        """How slowly the next epoch is to be played, for a learner beside to keep up."""
        return FULL_SPEED

    def finish_lessons(self, train_steps: int = 1) -> None:
        """Wait until all that was collected is learned, where that is done beside."""

    def close(self) -> None:
        """End the threads and processes of the game, if it has any."""

    # An epoch, and many

    def play_epoch(self, watch: Callable[[Any], None] | None = None) -> None:
        """Set the world up and take turns until it is over; `watch` sees the world each turn."""
        started = time.perf_counter()
        self.reset()
        self.start_epoch_action(self.epoch)
        for agent in self.agents:
            agent.model.start_epoch_action(self.epoch)
        while not self.is_over():
            if watch is not None:
                watch(self.watched())
            self.take_turn()
        self.end_epoch_action(self.epoch)
        for agent in self.agents:
            agent.model.end_epoch_action(self.epoch)
        self._playing_seconds = time.perf_counter() - started

    def watched(self) -> Any:
        """What `watch` is shown."""
        return self

    def train(self, train_steps: int) -> list[dict[str, float]]:
        """So many train steps of every agent; the figures of each agent's last."""
        figures: list[dict[str, float]] = [{} for _ in self.agents]
        for agent in self.agents:
            for _ in range(train_steps):
                figures[agent.number] = agent.model.train_step() or figures[agent.number]
        return figures

    def finish_epoch(self, *, train_steps: int) -> EpochResult:
        """Train the agents on what was played, and count the epoch."""
        started = time.perf_counter()
        rewards, counts = self.rewards.mean(axis=1), self.counts()
        figures = self.train(train_steps)
        result = EpochResult(
            epoch=self.epoch,
            turns=self.turns(),
            steps=self.steps,
            rewards=rewards,
            figures=figures,
            counts=counts,
            playing_seconds=self._playing_seconds,
            training_seconds=time.perf_counter() - started,
        )
        self.epoch += 1
        return result

    def run_epoch(
        self, *, train_steps: int = 1, watch: Callable[[Any], None] | None = None
    ) -> EpochResult:
        """Play an epoch and train the agents."""
        self.play_epoch(watch)
        return self.finish_epoch(train_steps=train_steps)

    def run_experiment(
        self,
        epochs: int,
        *,
        train_steps: int = 1,
        log: Callable[[EpochResult], None] | None = None,
        watch: Callable[[Any], None] | None = None,
    ) -> list[EpochResult]:
        """Run so many epochs more; `log` is called after each one."""
        results = []
        for _ in range(epochs):
            result = self.run_epoch(train_steps=train_steps, watch=watch)
            results.append(result)
            if log is not None:
                log(result)
        return results

    # Going on later

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """All that the next epoch depends on: arrays by name, and JSON. Between epochs only."""
        arrays: dict[str, NDArray[Any]] = {}
        values: dict[str, Any] = {"epoch": self.epoch, "agents": []}
        for agent in self.agents:
            its_arrays, its_values = agent.model.state()
            arrays |= {f"agent{agent.number}.{name}": a for name, a in its_arrays.items()}
            values["agents"].append(its_values)
        return arrays, values

    def load_state(self, arrays: Mapping[str, NDArray[Any]], values: Mapping[str, Any]) -> None:
        """Go on from what `state` gave, in a game set up alike."""
        if len(values["agents"]) != len(self.agents):
            raise WorldError(
                f"The state is of {len(values['agents'])} agents, this game has {len(self.agents)}."
            )
        self.epoch = values["epoch"]
        for agent, its_values in zip(self.agents, values["agents"], strict=True):
            its = below(f"agent{agent.number}.", arrays)
            agent.model.load_state(its, its_values)
