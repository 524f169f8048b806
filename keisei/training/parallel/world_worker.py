"""What runs inside a worker process of a world: play epochs of a shard until told to stop."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from keisei.gridworld.parallel_pace import EpochPace
from keisei.training.parallel.communication import Kind, Message, WorkerLink
from keisei.training.parallel.model_sync import WorkerModelReceiver
from keisei.training.parallel.piped_weights import PipedModelReceiver
from keisei.training.parallel.self_play import Group
from keisei.training.parallel.shared_memory import SharedMemory
from keisei.training.parallel.worker_life import ObedientWorker, Receiver, live
from keisei.training.parallel.world_rollout import WorldRollout
from keisei.training.parallel.world_shard import ShardState, WorldShard
from keisei.training.timeline import Timeline
from keisei.world_config import WorldConfig

_LOG = logging.getLogger(__name__)
_SECONDS_BETWEEN_LOOKS = 0.01


@dataclass(frozen=True)
class WorldWorkerSetup:
    """All that a worker is told when it starts."""

    number: int
    epoch: int
    config: WorldConfig
    group: Group
    state: ShardState
    """What to go on from."""
    link: WorkerLink[WorldRollout]
    weights: SharedMemory | None
    """Where the weights of all agents are published; None: they come through the pipe."""
    compression_enabled: bool
    log_path: Path | None
    trace_path: Path | None


def work(setup: WorldWorkerSetup) -> None:
    """The whole life of a worker process."""
    live(setup, lambda timeline: _WorldWorker(setup, timeline).run())


class _WorldWorker(ObedientWorker):
    def __init__(self, setup: WorldWorkerSetup, timeline: Timeline) -> None:
        super().__init__(setup, timeline)
        self._shard = WorldShard(setup.config, setup.group)
        self._shard.load_state(setup.state)
        self._weights = self._receiver(setup)
        self._listen_after = 0.0
        self._turns_before = self._shard.game.max_turns  # of the last epoch
        _LOG.info("ready with %d copies from %d on", setup.group.games, setup.group.first_game)

    def _receiver(self, setup: WorldWorkerSetup) -> Receiver:
        networks, halved = self._shard.networks, setup.compression_enabled
        if setup.weights is None:
            return PipedModelReceiver(networks, compression_enabled=halved)
        return WorkerModelReceiver(setup.weights, networks, compression_enabled=halved)

    def _receiver_for(self, kind: Kind) -> Receiver | None:
        return self._weights if kind == Kind.WEIGHTS else None

    def _play_rollout(self, order: Message) -> None:
        """Play the epoch with the order's number."""
        with self._spending("waiting_for_weights"):
            self._wait_for(self._weights, order.version)
        rollout = self._link.rollout(order.slot)
        rollout.begin(self._epoch, order.number)
        with self._spending("playing"):
            self._shard.play(order.number, self._turns_at(EpochPace.decode(order.payload)))
        self._turns_before = max(self._shard.game.turns(), 1)
        self._shard.hand_over(rollout)
        self._commit(order)

    def _turns_at(self, pace: EpochPace) -> Callable[[], None]:
        """What is done before each turn of an epoch that begins now."""
        began, game = time.monotonic(), self._shard.game

        def before_turn() -> None:
            """Listen now and then: a turn may take less time than to ask if anything was said."""
            now = time.monotonic()
            wait = pace.wait_before(game.turns() / self._turns_before, now - began)
            if wait or now >= self._listen_after:
                self._listen(wait)
                self._listen_after = now + _SECONDS_BETWEEN_LOOKS

        return before_turn
