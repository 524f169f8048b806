"""`WorldWorkers`: the worker processes of a world, kept alive and told to play each epoch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from keisei.config_schema import ParallelConfig
from keisei.gridworld.parallel_pace import FULL_SPEED, EpochPace
from keisei.training.parallel.child_process import WORLDS, child_context
from keisei.training.parallel.collection_statistics import (
    memory_mb,
    sync_figures,
    worker_figures,
)
from keisei.training.parallel.communication import Kind, Message, WorkerCommunicator
from keisei.training.parallel.double_buffer import NOTHING_PUBLISHED
from keisei.training.parallel.model_sync import ModelSynchronizer
from keisei.training.parallel.self_play_worker import SelfPlayWorker
from keisei.training.parallel.shared_memory import SharedMemoryError
from keisei.training.parallel.worker_supervisor import (
    Committed,
    WorkersLostError,
    WorkerSupervisor,
)
from keisei.training.parallel.world_rollout import WorldRollout
from keisei.training.parallel.world_shard import ShardState, WorldShard, shards_of
from keisei.training.parallel.world_worker import WorldWorkerSetup
from keisei.world_config import WorldConfig

_LISTENING_SECONDS = 0.1


class _Running(NamedTuple):
    """What exists while workers do."""

    communicator: WorkerCommunicator[WorldRollout]
    weights: ModelSynchronizer
    supervisor: WorkerSupervisor[WorldRollout]


class WorldWorkers:
    """Starts a process for each shard when it is needed, and ends them with `close`.

    networks: whose weights the workers play with, those of all agents. ahead: whether an epoch is
    begun while the one before is read.
    """

    def __init__(
        self,
        config: WorldConfig,
        shards: int,
        networks: nn.Module,
        settings: ParallelConfig,
        *,
        ahead: bool,
        announce: Callable[[str], None],
        log_path: Path | None,
        trace_path: Path | None,
        worker_main: Callable[[WorldWorkerSetup], None],
    ) -> None:
        self._config, self._networks, self._settings = config, networks, settings
        self._ahead, self._announce, self._worker_main = ahead, announce, worker_main
        self._log_path, self._trace_path = log_path, trace_path
        groups = shards_of(config.copies, shards)
        largest = WorldShard(config, groups[0])
        self._layout = largest.layout()
        states = [largest.state(), *(WorldShard(config, group).state() for group in groups[1:])]
        parts = zip(groups, states, strict=True)
        self.each = [SelfPlayWorker(number, *part) for number, part in enumerate(parts)]
        self._states = states
        self._played: dict[tuple[int, int], Committed[WorldRollout]] = {}
        """By epoch and worker, what has been played and not been read to its end."""
        self._begun: int | None = None
        """The epoch that was begun last."""
        self._pace = FULL_SPEED
        self._version = NOTHING_PUBLISHED
        self._running: _Running | None = None

    @property
    def states(self) -> list[ShardState]:
        """Of each shard, after the last epoch that was played by all and read to its end."""
        return self._states

    def load_states(self, states: list[ShardState]) -> None:
        """Go on from what `states` gave; processes that play already are ended."""
        self.close()
        self._states = states
        self._take_back()

    # Processes

    def start(self) -> None:
        """Make the memory to share and start every worker; `play` does it when needed."""
        self._get_running()

    def _get_running(self) -> _Running:
        if self._running is None:
            try:
                running = self._connect(shared=self._settings.use_shared_memory)
            except SharedMemoryError as error:
                self._announce(f"{error} Experience travels through pipes instead: slower.")
                running = self._connect(shared=False)
            self._running = running
            for worker in self.each:
                worker.forgive()
            running.supervisor.start_those_due()
        return self._running

    def _connect(self, *, shared: bool) -> _Running:
        settings, context = self._settings, child_context(WORLDS)
        communicator = WorkerCommunicator(
            context,
            self._layout,
            slots=len(self.each) * (2 if self._ahead else 1),
            shared=shared,
            timeout=settings.worker_timeout,
        )
        weights = ModelSynchronizer(
            self._networks,
            compression_enabled=settings.compression_enabled,
            max_policy_lag=settings.max_policy_lag,
            shared=shared,
        )
        supervisor = WorkerSupervisor(
            self.each,
            communicator,
            settings,
            context=context,
            worker_main=self._worker_main,
            setup_of=lambda worker: self._setup_of(worker, communicator, weights),
            announce=self._announce,
        )
        return _Running(communicator, weights, supervisor)

    def _setup_of(
        self,
        worker: SelfPlayWorker,
        communicator: WorkerCommunicator[WorldRollout],
        weights: ModelSynchronizer,
    ) -> WorldWorkerSetup:
        """What a worker is told when it starts, the pipe to it included."""
        link = communicator.connect(worker.number)
        _send_weights(worker, communicator, weights)
        return WorldWorkerSetup(
            number=worker.number,
            epoch=worker.epoch,
            config=self._config,
            group=worker.group,
            state=worker.state,
            link=link,
            weights=weights.memory,
            compression_enabled=self._settings.compression_enabled,
            log_path=self._log_path,
            trace_path=self._trace_path,
        )

    # An epoch

    @contextmanager
    def play(self, epoch: int) -> Iterator[list[WorldRollout]]:
        """Have all shards play an epoch; what they played, in their order.

        They play it with the weights of now, unless it was begun before. It counts as played when
        the block is left without an error; else the same is handed over again. After a
        `WorkersLostError` all workers have ended; the next epoch starts new ones.
        """
        running = self._get_running()
        if epoch != self._begun:
            self.begin(epoch)
        try:
            self._wait_for_all(running, epoch)
        except WorkersLostError:
            self.close()
            raise
        played = [self._played[epoch, worker.number] for worker in self.each]
        yield [committed.rollout for committed in played]
        self._states = [committed.state for committed in played]
        for committed in played:
            committed.worker.steps += committed.rollout.notes.steps
            committed.worker.games += committed.worker.group.games
            running.communicator.release(committed.slot)
            del self._played[epoch, committed.worker.number]

    def begin(self, epoch: int, pace: EpochPace = FULL_SPEED) -> None:
        """Have all shards that can begin to play an epoch, with the weights of now.

        Another one that is being read must have been played by all of them.
        """
        running = self._get_running()
        self._publish(running)
        self._begun, self._pace = epoch, pace
        self._order(running, epoch)

    def _wait_for_all(self, running: _Running, epoch: int) -> None:
        while any((epoch, worker.number) not in self._played for worker in self.each):
            self._order(running, epoch)
            for committed in running.supervisor.listen(_LISTENING_SECONDS):
                self._played[committed.rollout.number, committed.worker.number] = committed

    def _publish(self, running: _Running) -> None:
        self._version += 1
        running.weights.publish(self._version)
        for worker in self.each:
            if worker.running:
                _send_weights(worker, running.communicator, running.weights)

    def _order(self, running: _Running, epoch: int) -> None:
        """Have those play who are ready and have not played this epoch."""
        for worker in running.supervisor.playing:
            if (epoch, worker.number) not in self._played and not worker.orders:
                worker.orders.append(epoch)
                order = Message(
                    Kind.PLAY,
                    worker.epoch,
                    number=epoch,
                    version=self._version,
                    payload=self._pace.encode(),
                )
                running.communicator.grant(worker.number, order)

    # Figures, and the end

    def get_statistics(self) -> dict[str, Any]:
        """Everything there is to know: in all, and of each worker."""
        running = self._running
        return {
            "shared_memory": running is not None and running.communicator.shared,
            "restarts": sum(worker.restarts for worker in self.each),
            "refused_messages": 0 if running is None else running.supervisor.refused,
            "main_memory_mb": memory_mb(os.getpid()),
            **sync_figures(None if running is None else running.weights),
            "workers": [worker_figures(worker) for worker in self.each],
        }

    def close(self) -> None:
        """End the processes and give back the memory; the shards stay as they were last read."""
        if self._running is None:
            return
        self._running.supervisor.close()
        self._played.clear()
        self._begun = None
        self._take_back()
        self._running.communicator.close()
        self._running = None

    def _take_back(self) -> None:
        for worker, state in zip(self.each, self._states, strict=True):
            worker.state = state


def _send_weights(
    worker: SelfPlayWorker,
    communicator: WorkerCommunicator[WorldRollout],
    weights: ModelSynchronizer,
) -> None:
    """Send a worker what is published, where it cannot see it by itself."""
    version = weights.published_version
    if not communicator.shared and version != NOTHING_PUBLISHED:
        data = weights.published_bytes()
        message = Message(Kind.WEIGHTS, worker.epoch, version=version, payload=data)
        communicator.send(worker.number, message)
