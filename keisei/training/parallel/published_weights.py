"""`PublishedWeights`: what the workers play with, the learner's weights and the opponent's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from keisei.config_schema import ParallelConfig
from keisei.core.ppo_agent import PPOAgent
from keisei.training.opponent_pool import OpponentPool
from keisei.training.parallel.communication import Kind, Message, WorkerCommunicator
from keisei.training.parallel.double_buffer import NOTHING_PUBLISHED
from keisei.training.parallel.model_sync import ModelSynchronizer
from keisei.training.parallel.self_play_worker import SelfPlayWorker


class PublishedWeights:
    """Publishes weights when it is time; where memory is not shared it sends them by pipe."""

    def __init__(
        self,
        agent: PPOAgent,
        pool: OpponentPool | None,
        settings: ParallelConfig,
        communicator: WorkerCommunicator[Any],
    ) -> None:
        self._agent, self._pool, self._communicator = agent, pool, communicator
        self.learner = ModelSynchronizer(
            agent.model,
            compression_enabled=settings.compression_enabled,
            max_policy_lag=settings.max_policy_lag,
            interval=settings.model_sync_interval,
            adaptive=settings.adaptive_sync,
            shared=communicator.shared,
        )
        self.opponent: ModelSynchronizer | None = None
        if pool is not None:
            self.opponent = ModelSynchronizer(
                pool.opponent.model,
                compression_enabled=settings.compression_enabled,
                max_policy_lag=settings.max_policy_lag,
                shared=communicator.shared,
            )

    @property
    def versions(self) -> tuple[int, int]:
        """The newest (learner's, opponent's) that are published."""
        opponent = self.opponent
        return (
            self.learner.published_version,
            NOTHING_PUBLISHED if opponent is None else opponent.published_version,
        )

    def publish(self, workers: Iterable[SelfPlayWorker], largest_lag: int) -> None:
        """Publish what has changed, if it is time; nobody is waited for."""
        before = self.versions
        version = self._agent.version
        behind = version - before[0]
        if before[0] == NOTHING_PUBLISHED or self.learner.should_sync(behind, largest_lag):
            self.learner.publish(version)
        pool, opponent = self._pool, self.opponent
        if pool is not None and opponent is not None and pool.version != before[1]:
            opponent.publish(pool.version)
        if self.versions != before:
            for worker in workers:
                self.send_to(worker)

    def send_to(self, worker: SelfPlayWorker) -> None:
        """Send a worker what is published, where it cannot see it by itself."""
        if self._communicator.shared:
            return
        for kind, synchronizer in ((Kind.WEIGHTS, self.learner), (Kind.OPPONENT, self.opponent)):
            if synchronizer is not None and synchronizer.published_version != NOTHING_PUBLISHED:
                message = Message(
                    kind,
                    worker.epoch,
                    version=synchronizer.published_version,
                    payload=synchronizer.published_bytes(),
                )
                self._communicator.send(worker.number, message)
