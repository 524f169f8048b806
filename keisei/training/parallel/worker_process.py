"""What runs inside a worker process of self-play: play rollouts as ordered until told to stop."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from keisei.config_schema import Config, ParallelConfig
from keisei.core.ppo_agent import PPOAgent
from keisei.training.parallel.child_process import leave_cores_at_once
from keisei.training.parallel.communication import NEWEST, Kind, Message, WorkerLink
from keisei.training.parallel.model_sync import WorkerModelReceiver
from keisei.training.parallel.packed_games import PackedGames, unpacked_games
from keisei.training.parallel.piped_weights import PipedModelReceiver
from keisei.training.parallel.process_counts import ProcessCounts
from keisei.training.parallel.rollout import Rollout
from keisei.training.parallel.self_play import Group, SelfPlay
from keisei.training.parallel.shared_memory import SharedMemory
from keisei.training.parallel.worker_life import (
    HEARTBEAT_SECONDS,
    ObedientWorker,
    Receiver,
    live,
)
from keisei.training.timeline import Timeline

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class WorkerSetup:
    """All that a worker is told when it starts."""

    number: int
    epoch: int
    config: Config
    group: Group
    state: PackedGames
    """The games to go on with."""
    link: WorkerLink[Rollout]
    weights: SharedMemory | None
    """Where the weights are published; None: they come through the pipe."""
    opponent_weights: SharedMemory | None
    has_opponent: bool
    log_path: Path | None
    trace_path: Path | None


def work(setup: WorkerSetup) -> None:
    """The whole life of a worker process."""
    live(setup, lambda timeline: _Worker(setup, timeline).run())


class _Worker(ObedientWorker):
    def __init__(self, setup: WorkerSetup, timeline: Timeline) -> None:
        super().__init__(setup, timeline)
        config = setup.config
        self._agent = _agent_for_playing(config)
        self._weights = _receiver(config, setup.weights, self._agent)
        opponent = None
        self._opponent_weights: Receiver | None = None
        if setup.has_opponent:
            opponent = _agent_for_playing(config)
            self._opponent_weights = _receiver(config, setup.opponent_weights, opponent)
        self._play = SelfPlay(config, self._agent, opponent, setup.group)
        self._play.load_state(unpacked_games(setup.state, config.games.max_moves))
        if _plays_where_others_learn(config.training.parallel):
            try:
                leave_cores_at_once()
            except OSError as error:
                _LOG.warning("cannot leave its core at once, updates may be slow: %s", error)
        _LOG.info("ready with %d games", setup.group.games)

    def _reset(self) -> None:
        self._play.reset()

    def _play_rollout(self, order: Message) -> None:
        with self._spending("waiting_for_weights"):
            self._fetch_weights(order)
        rollout = self._link.rollout(order.slot)
        rollout.begin(self._epoch, order.number)

        def before_step() -> None:
            self._listen(0)
            while self._paused:
                self._listen(HEARTBEAT_SECONDS)
            if order.version == NEWEST:
                self._take_newest_weights()

        with self._spending("playing"):
            values, statistics = self._play.collect(rollout.buffer, before_step)
        rollout.finish(values, statistics, self._play.live_state())
        self._commit(order)

    def _fetch_weights(self, order: Message) -> None:
        """The versions that the order names, waiting for them if need be."""
        self._wait_for(self._weights, order.version)
        self._agent.version = self._weights.version
        if self._opponent_weights is not None:
            self._wait_for(self._opponent_weights, order.opponent_version)

    def _take_newest_weights(self) -> None:
        if self._weights.fetch() is not None:
            self._agent.version = self._weights.version
            self._timeline.instant(f"weights {self._agent.version}")

    def _receiver_for(self, kind: Kind) -> Receiver | None:
        return self._weights if kind == Kind.WEIGHTS else self._opponent_weights


def _plays_where_others_learn(parallel: ParallelConfig) -> bool:
    counts = parallel.num_workers, parallel.num_learners
    shared = "auto" in counts or not ProcessCounts(*map(int, counts)).have_own_cores()
    return parallel.mode == "async" and shared


def _agent_for_playing(config: Config) -> PPOAgent:
    return PPOAgent(config.model, config.ppo, mixed_precision=config.training.mixed_precision)


def _receiver(config: Config, memory: SharedMemory | None, agent: PPOAgent) -> Receiver:
    halved = config.training.parallel.compression_enabled
    if memory is None:
        return PipedModelReceiver(agent.model, compression_enabled=halved)
    return WorkerModelReceiver(memory, agent.model, compression_enabled=halved)
