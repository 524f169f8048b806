"""A worker's side of the conversation: it takes orders, shows that it lives, counts its time."""

from __future__ import annotations

import logging
import struct
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

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
from keisei.training.run_log import open_run_log
from keisei.training.timeline import Timeline

HEARTBEAT_SECONDS = 0.5
_SECONDS_BETWEEN_LOOKS = 0.001
Receiver = WorkerModelReceiver | PipedModelReceiver
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


class Setup(Protocol):
    """What every worker is told when it starts, whatever it plays."""

    @property
    def number(self) -> int:
        """Of the worker."""

    @property
    def epoch(self) -> int:
        """Of its incarnation."""

    @property
    def link(self) -> WorkerLink[Any]:
        """The pipe to the main process."""

    @property
    def log_path(self) -> Path | None:
        """Where it writes what happens."""

    @property
    def trace_path(self) -> Path | None:
        """Where it writes when what happened."""


class _StoppedError(Exception):
    """The main process wants no more."""


def live(setup: Setup, play: Callable[[Timeline], None]) -> None:
    """The whole life of a worker process; `play` takes orders until it is stopped."""
    settle_as_child(gives_way=True)
    try:
        _play_until_stopped(setup, play)
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


def _play_until_stopped(setup: Setup, play: Callable[[Timeline], None]) -> None:
    who = f"worker {setup.number}"
    if setup.log_path is not None:
        open_run_log(setup.log_path, who)
    timeline = Timeline(setup.trace_path, who)
    try:
        play(timeline)
    finally:
        timeline.close()
        if timeline.failure is not None:
            _LOG.warning(timeline.failure)


class ObedientWorker:
    """Plays rollouts as ordered; what is played, subclasses know.

    A subclass writes `_play_rollout`, and calls `_listen` often while it plays.
    """

    def __init__(self, setup: Setup, timeline: Timeline) -> None:
        self._link, self._epoch, self._timeline = setup.link, setup.epoch, timeline
        self._orders: deque[Message] = deque()
        self._paused = False
        self._spent = dict.fromkeys(TimeSpent._fields, 0.0)
        self._last_sign_of_life = time.monotonic()

    def _play_rollout(self, order: Message) -> None:
        """Fetch the weights, play into the slot of the order, and commit it."""
        raise NotImplementedError

    def _reset(self) -> None:
        """Begin new games; for workers whose games outlast a rollout."""
        raise NotImplementedError

    def _receiver_for(self, kind: Kind) -> Receiver | None:
        """Who takes weights that come by pipe: `Kind.WEIGHTS` or `Kind.OPPONENT`."""
        raise NotImplementedError

    def run(self) -> None:
        """Do as told until `_StoppedError`."""
        self._send(Kind.READY)
        while True:
            with self._spending("waiting_for_slot"):
                order = self._next_order()
            if order.kind == Kind.RESET:
                self._reset()
            else:
                self._play_rollout(order)

    def _commit(self, order: Message) -> None:
        self._link.commit(order, TimeSpent(**self._spent).encode())
        self._last_sign_of_life = time.monotonic()

    def _wait_for(self, receiver: Receiver, version: int) -> None:
        wanted = None if version == NEWEST else version
        receiver.fetch(wanted)
        while receiver.version == NOTHING_PUBLISHED or wanted not in (None, receiver.version):
            self._listen(_SECONDS_BETWEEN_LOOKS)
            receiver.fetch(wanted)

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
            case Kind.WEIGHTS | Kind.OPPONENT:
                receiver = self._receiver_for(message.kind)
                if isinstance(receiver, PipedModelReceiver):
                    receiver.offer(message.version, message.payload)
            case _:
                raise ValueError(f"a worker does not understand {message.kind.name}")

    def _send(self, kind: Kind, payload: bytes = b"") -> None:
        self._link.send(Message(kind, self._epoch, payload=payload))
        self._last_sign_of_life = time.monotonic()

    @contextmanager
    def _spending(self, what: str) -> Iterator[None]:
        start = time.monotonic()
        with self._timeline.span(what.replace("_", " ")):
            yield
        self._spent[what] += time.monotonic() - start
