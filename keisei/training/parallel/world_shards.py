"""`ShardedGame`: a game whose worlds are played by worker processes, each playing some copies.

In every epoch each worker fetches the newest weights of all agents, plays its copies, and hands
over what each agent's memory holds. Here are the models that learn: what an agent lived through in
any copy goes to that agent's own memory, shard after shard. With a learner beside the collection,
the next epoch is begun before that: it does not depend on it. The same seed and number of shards
give the same run, bit for bit, even if workers are killed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from keisei.config_schema import ParallelConfig
from keisei.core.turn_parts import MergingMemory
from keisei.gridworld.errors import WorldError
from keisei.gridworld.game import Game
from keisei.gridworld.spans import TimelineLike, TimelineMaker
from keisei.training.parallel.serial_shards import SerialShards
from keisei.training.parallel.world_rollout import EpochNotes, WorldRollout
from keisei.training.parallel.world_shard import acting_networks
from keisei.training.parallel.world_worker import WorldWorkerSetup, work
from keisei.training.parallel.world_workers import WorldWorkers
from keisei.training.world_games import found_from_anywhere, make_game
from keisei.world_config import WorldConfig

_LOG = logging.getLogger(__name__)
SUPERVISION = ParallelConfig(mode="sync")
"""How workers are supervised unless told otherwise: timeouts, restarts, shared memory or pipes."""


class ShardedGame(Game):
    """Starts the workers with the first epoch and ends them with `close`.

    Agents learn as the config says: one after the other, or as in `ParallelEnvironment`, beside
    the collection too. supervision: of the workers, in sync mode. on_news: told of workers that are
    replaced, and of agents whose training fails. When a worker cannot be kept alive, an epoch
    raises `WorkersLostError` with the worker's first traceback. debug_serial: the same run in this
    process and thread.
    """

    def __init__(
        self,
        config: WorldConfig,
        shards: int,
        *,
        supervision: ParallelConfig = SUPERVISION,
        on_news: Callable[[str], None] = _LOG.warning,
        log_path: Path | None = None,
        trace_path: Path | None = None,
        debug_serial: bool = False,
        worker_main: Callable[[WorldWorkerSetup], None] = work,
    ) -> None:
        if supervision.mode != "sync":
            raise WorldError("Shards of a world are played in sync mode: set mode to sync.")
        config = found_from_anywhere(config)
        self.learners = make_game(config, debug_serial=debug_serial)
        """The game of the models that learn; its worlds are not played."""
        super().__init__()
        self.agents = self.learners.agents
        self.on_news, self.learners.on_news = on_news, self._tell
        networks = acting_networks(self.agents)
        self._ahead = config.parallel.enabled and config.parallel.async_learning
        self.workers: WorldWorkers | SerialShards
        if debug_serial:
            self.workers = SerialShards(config, shards, networks)
        else:
            self.workers = WorldWorkers(
                config,
                shards,
                networks,
                supervision,
                ahead=self._ahead,
                announce=self._tell,
                log_path=log_path,
                trace_path=trace_path,
                worker_main=worker_main,
            )
        self.rewards = np.zeros((len(self.agents), config.copies))
        self.steps = 0
        self._notes = EpochNotes(0, 0, {})

    def _tell(self, text: str) -> None:
        self.on_news(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the workers and give back the memory, and finish what is being learned."""
        self.workers.close()
        self.learners.close()

    def trace_with(self, timeline: TimelineLike, make_timeline: TimelineMaker) -> None:
        """As any game; the workers write to the file that they were told at the start."""
        self.learners.trace_with(timeline, make_timeline)

    def finish_lessons(self, train_steps: int = 1) -> None:
        """Wait until all that was collected is learned, where that is done beside.

        An epoch that was begun before is played with the weights from before.
        """
        self.learners.finish_lessons(train_steps)

    # The learners count the epochs: what they learn may depend on it.

    @property
    def epoch(self) -> int:
        """How many epochs have been run."""
        return self.learners.epoch

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        self.learners.epoch = epoch

    # An epoch

    def play_epoch(self, watch: Callable[[Any], None] | None = None) -> None:
        """Have every worker play its copies, and give each agent what it lived through."""
        if watch is not None:
            raise WorldError("Worlds that worker processes play cannot be watched from here.")
        started = time.perf_counter()
        for agent in self.agents:
            agent.model.start_epoch_action(self.epoch)
        with self.workers.play(self.epoch) as rollouts:
            if self._ahead:
                self.learners.take_up_lessons()
                self.workers.begin(self.epoch + 1, self.learners.next_pace())
            self._take_over(rollouts)
        for agent in self.agents:
            agent.model.end_epoch_action(self.epoch)
        self._playing_seconds = time.perf_counter() - started

    def _take_over(self, rollouts: Sequence[WorldRollout]) -> None:
        """Give each agent its own turns, shard after shard whoever was first."""
        for agent in self.agents:
            memory = agent.model.memory
            if isinstance(memory, MergingMemory):
                memory.add_turns([rollout.turns_of(agent.number) for rollout in rollouts])
        self.rewards = np.concatenate([rollout.rewards for rollout in rollouts], axis=1)
        notes = [rollout.notes for rollout in rollouts]
        self.steps = sum(part.steps for part in notes)
        counts = _means([part.counts for part in notes], [r.rewards.shape[1] for r in rollouts])
        self._notes = EpochNotes(max(part.turns for part in notes), self.steps, counts)

    def turns(self) -> int:
        """How many turns this epoch has had, in the shard where it lasted longest."""
        return self._notes.turns

    def counts(self) -> dict[str, float]:
        """What the game counts, the mean over the copies."""
        return self._notes.counts

    def train(self, train_steps: int) -> list[dict[str, float]]:
        """Have the agents learn, each from its own memory."""
        self.learners.steps = self.steps
        return self.learners.train(train_steps)

    def get_statistics(self) -> dict[str, Any]:
        """Everything there is to know of the workers: in all, and of each."""
        return self.workers.get_statistics()

    # Going on later

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """As of any game, and of each shard what its next epoch goes on from."""
        arrays, values = self.learners.state()
        states = self.workers.states
        for number, state in enumerate(states):
            arrays |= {f"shard{number}.{name}": array for name, array in state.items()}
        return arrays, {**values, "shards": len(states)}

    def load_state(self, arrays: Mapping[str, NDArray[Any]], values: Mapping[str, Any]) -> None:
        """Go on from what `state` gave, in a game of as many shards; workers start anew."""
        shards = len(self.workers.states)
        if values.get("shards") != shards:
            raise WorldError(
                f"The state is of {values.get('shards', 'no')} shards, this game has {shards}: a "
                "run goes on with as many as it began with."
            )
        self.learners.load_state(arrays, values)
        self.workers.load_states([{"state": arrays[f"shard{n}.state"]} for n in range(shards)])


def _means(counts: Sequence[Mapping[str, float]], copies: Sequence[int]) -> dict[str, float]:
    """Counts over all copies: what each shard counts is a mean over its own."""
    sums: dict[str, float] = {}
    for its_counts, its_copies in zip(counts, copies, strict=True):
        for name, value in its_counts.items():
            sums[name] = sums.get(name, 0.0) + value * its_copies
    return {name: total / sum(copies) for name, total in sums.items()}
