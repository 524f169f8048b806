"""What runs inside a worker process: play rollouts as ordered until told to stop."""

from __future__ import annotations

import logging
import struct
import time
import traceback
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from keisei.config_schema import Config
from keisei.core.ppo_agent import PPOAgent
from keisei.training.parallel.child_process import settle_as_child
from keisei.training.parallel.communication import (
    NEWEST,
    Kind,
    MainProcessGoneError,
    Message,
    WorkerLink,
)
from keisei.training.parallel.double_buffer import NOTHING_PUBLISHED
from keisei.training.parallel.model_sync import WorkerModelReceiver
from keisei.training.parallel.piped_weights import PipedModelReceiver
from keisei.training.parallel.self_play import GamesState, Group, SelfPlay
from keisei.training.parallel.shared_memory import SharedMemory
from keisei.training.run_log import open_run_log
from keisei.training.timeline import Timeline

HEARTBEAT_SECONDS = 0.5
_SECONDS_BETWEEN_LOOKS = 0.001
_Receiver = WorkerModelReceiver | PipedModelReceiver
_LOG = logging.getLogger(__name__)


class TimeSpent(NamedTuple):
    """Seconds of a worker's life; playing includes asking the network."""

    playing: float = 0.0
    waiting_for_weights: float = 0.0
    waiting_for_slot: float = 0.0

    def encode(self) -> bytes:
        """As bytes."""
        return _TIMES.pack(*self)

    @classmethod
    def decode(cls, data: bytes) -> TimeSpent:
        """What `encode` gave, perhaps with more behind it."""
        return cls(*_TIMES.unpack_from(data))


_TIMES = struct.Struct("<ddd")
TIME_SPENT_BYTES = _TIMES.size


@dataclass(frozen=True)
class WorkerSetup:
    """All that a worker is told when it starts."""

    number: int
    epoch: int
    config: Config
    group: Group
    state: GamesState
    """The games to go on with."""
    link: WorkerLink
    weights: SharedMemory | None
    """Where the weights are published; None: they come through the pipe."""
    opponent_weights: SharedMemory | None
    has_opponent: bool
    log_path: Path | None
    trace_path: Path | None


class _StoppedError(Exception):
    """The main process wants no more."""


def work(setup: WorkerSetup) -> None:
    """The whole life of a worker process."""
    settle_as_child(gives_way=True)
    try:
        _play_until_stopped(setup)
    except _StoppedError:
        _LOG.info("stopped")
    except MainProcessGoneError:
        _LOG.warning("the main process is gone; ending")
    except BaseException:
        _LOG.exception("failed")
        words = traceback.format_exc().encode()
        with suppress(MainProcessGoneError):
            setup.link.send(Message(Kind.FAILED, setup.epoch, payload=words))
        raise SystemExit(1) from None


def _play_until_stopped(setup: WorkerSetup) -> None:
    who = f"worker {setup.number}"
    if setup.log_path is not None:
        open_run_log(setup.log_path, who)
    timeline = Timeline(setup.trace_path, who)
    try:
        _Worker(setup, timeline).run()
    finally:
        timeline.close()
        if timeline.failure is not None:
            _LOG.warning(timeline.failure)


class _Worker:
    def __init__(self, setup: WorkerSetup, timeline: Timeline) -> None:
        self._setup, self._link, self._timeline = setup, setup.link, timeline
        config = setup.config
        self._agent = _agent_for_playing(config)
        self._weights = _receiver(config, setup.weights, self._agent)
        opponent = None
        self._opponent_weights: _Receiver | None = None
        if setup.has_opponent:
            opponent = _agent_for_playing(config)
            self._opponent_weights = _receiver(config, setup.opponent_weights, opponent)
        self._play = SelfPlay(config, self._agent, opponent, setup.group)
        self._play.load_state(setup.state)
        self._orders: deque[Message] = deque()
        self._paused = False
        self._spent = dict.fromkeys(TimeSpent._fields, 0.0)
        self._last_sign_of_life = time.monotonic()

    def run(self) -> None:
        _LOG.info("ready with %d games", self._setup.group.games)
        self._send(Kind.READY)
        while True:
            with self._spending("waiting_for_slot"):
                order = self._next_order()
            if order.kind == Kind.RESET:
                self._play.reset()
            else:
                self._play_rollout(order)

    def _play_rollout(self, order: Message) -> None:
        with self._spending("waiting_for_weights"):
            self._fetch_weights(order)
        rollout = self._link.rollout(order.slot)
        rollout.begin(self._setup.epoch, order.number)

        def before_step() -> None:
            self._listen(0)
            while self._paused:
                self._listen(HEARTBEAT_SECONDS)
            if order.version == NEWEST:
                self._take_newest_weights()

        with self._spending("playing"):
            values, statistics = self._play.collect(rollout.buffer, before_step)
        rollout.finish(values, statistics, self._play.state())
        self._link.commit(order, TimeSpent(**self._spent).encode())
        self._last_sign_of_life = time.monotonic()

    def _fetch_weights(self, order: Message) -> None:
        """The versions that the order names, waiting for them if need be."""
        self._wait_for(self._weights, order.version)
        self._agent.version = self._weights.version
        if self._opponent_weights is not None:
            self._wait_for(self._opponent_weights, order.opponent_version)

    def _wait_for(self, receiver: _Receiver, version: int) -> None:
        wanted = None if version == NEWEST else version
        receiver.fetch(wanted)
        while receiver.version == NOTHING_PUBLISHED or wanted not in (None, receiver.version):
            self._listen(_SECONDS_BETWEEN_LOOKS)
            receiver.fetch(wanted)

    def _take_newest_weights(self) -> None:
        if self._weights.fetch() is not None:
            self._agent.version = self._weights.version
            self._timeline.instant(f"weights {self._agent.version}")

    def _next_order(self) -> Message:
        while self._paused or not self._orders:
            self._listen(HEARTBEAT_SECONDS)
        return self._orders.popleft()

    def _listen(self, timeout: float) -> None:
        """Take in what the main process says, and let it know that we live."""
        message = self._link.receive(timeout)
        while message is not None:
            self._take_in(message)
            message = self._link.receive(0)
        if time.monotonic() - self._last_sign_of_life >= HEARTBEAT_SECONDS:
            self._send(Kind.ALIVE, TimeSpent(**self._spent).encode())

    def _take_in(self, message: Message) -> None:
        match message.kind:
            case Kind.PLAY | Kind.RESET:
                self._orders.append(message)
            case Kind.PAUSE | Kind.RESUME:
                self._paused = message.kind == Kind.PAUSE
            case Kind.STOP:
                raise _StoppedError
            case Kind.WEIGHTS:
                self._offer(self._weights, message)
            case Kind.OPPONENT:
                self._offer(self._opponent_weights, message)
            case _:
                raise ValueError(f"a worker does not understand {message.kind.name}")

    def _offer(self, receiver: _Receiver | None, message: Message) -> None:
        if isinstance(receiver, PipedModelReceiver):
            receiver.offer(message.version, message.payload)

    def _send(self, kind: Kind, payload: bytes = b"") -> None:
        self._link.send(Message(kind, self._setup.epoch, payload=payload))
        self._last_sign_of_life = time.monotonic()

    @contextmanager
    def _spending(self, what: str) -> Iterator[None]:
        start = time.monotonic()
        with self._timeline.span(what.replace("_", " ")):
            yield
        self._spent[what] += time.monotonic() - start


def _agent_for_playing(config: Config) -> PPOAgent:
    return PPOAgent(config.model, config.ppo, mixed_precision=config.training.mixed_precision)


def _receiver(config: Config, memory: SharedMemory | None, agent: PPOAgent) -> _Receiver:
    halved = config.training.parallel.compression_enabled
    if memory is None:
        return PipedModelReceiver(agent.model, compression_enabled=halved)
    return WorkerModelReceiver(memory, agent.model, compression_enabled=halved)
