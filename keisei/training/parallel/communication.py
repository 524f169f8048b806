"""Pipes and slots between the main process and its workers.

A rollout is written to a *slot* of shared memory; only its number travels through the worker's
pipe. The main process alone decides who may write to which slot, so there are no locks: a slot is
free, granted to a worker, or committed by it and not yet read. A full ring makes workers wait and
loses nothing. Without shared memory the rollouts and weights themselves travel through the pipes.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from enum import IntEnum
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from typing import Any, Generic, NamedTuple, cast

from keisei.training.parallel.shared_memory import SharedMemory, size_of
from keisei.training.parallel.slots import R, SlotLayout, TornRolloutError

NEWEST = -1
"""In place of a version: the newest there is."""
_SECONDS_TO_END = 1.0


class Kind(IntEnum):
    """What a message says."""

    # To a worker:
    PLAY = 1
    PAUSE = 2
    RESUME = 3
    RESET = 4
    STOP = 5
    WEIGHTS = 6
    OPPONENT = 7
    # From a worker:
    READY = 8
    ALIVE = 9
    COMMITTED = 10
    FAILED = 11


_FORMAT = struct.Struct("<Bqqqqq")


class Message(NamedTuple):
    """A line of the conversation; `epoch` tells the incarnations of a worker apart."""

    kind: Kind
    epoch: int
    slot: int = 0
    number: int = 0
    """Of the rollout."""
    version: int = NEWEST
    opponent_version: int = NEWEST
    payload: bytes = b""

    def encode(self) -> bytes:
        """As bytes."""
        return _FORMAT.pack(*self[:-1]) + self.payload

    @classmethod
    def decode(cls, data: bytes) -> Message:
        """What `encode` gave."""
        kind, *numbers = _FORMAT.unpack_from(data)
        return cls(Kind(kind), *numbers)._replace(payload=data[_FORMAT.size :])


class MainProcessGoneError(RuntimeError):
    """The main process has closed the pipe or died."""


class WorkerLink(Generic[R]):
    """The worker's side; made by `WorkerCommunicator.connect` and sent to the starting worker."""

    def __init__(
        self, pipe: Connection, memory: SharedMemory | None, layout: SlotLayout[R], slots: int
    ) -> None:
        self._pipe, self._memory, self._layout, self._slots = pipe, memory, layout, slots
        self._rollouts: list[R] = []

    def rollout(self, slot: int) -> R:
        """The rollout to write for a granted slot."""
        if not self._rollouts:
            slots = 1 if self._memory is None else self._slots
            self._rollouts = _rollouts(self._memory, self._layout, slots)
        return self._rollouts[slot % len(self._rollouts)]

    def commit(self, order: Message, payload: bytes) -> None:
        """The rollout of `order` is whole; `payload` is appended to the news of it."""
        if self._memory is None:
            payload += self.rollout(order.slot).to_bytes()
        self.send(order._replace(kind=Kind.COMMITTED, payload=payload))

    def send(self, message: Message) -> None:
        """Say something to the main process."""
        try:
            self._pipe.send_bytes(message.encode())
        except OSError as error:
            raise MainProcessGoneError from error

    def receive(self, timeout: float) -> Message | None:
        """The next message, or None when there is none in that time."""
        try:
            if self._pipe.poll(timeout):
                return Message.decode(self._pipe.recv_bytes())
        except (OSError, EOFError) as error:
            raise MainProcessGoneError from error
        return None

    def close(self) -> None:
        """Close the pipe. The main process closes its copy, to notice when the worker ends."""
        self._pipe.close()


class WorkerCommunicator(Generic[R]):
    """The main process's side: a pipe to every worker, and who may write to which slot."""

    def __init__(
        self,
        context: BaseContext,
        layout: SlotLayout[R],
        *,
        slots: int,
        shared: bool,
        timeout: float = 60.0,
    ) -> None:
        """`SharedMemoryError` when the memory for the slots cannot be had.

        A worker that stops for `timeout` seconds in the middle of a message counts as gone.
        """
        self._context, self._layout, self._timeout = context, layout, timeout
        self._memory = SharedMemory(slots * _slot_size(layout)) if shared else None
        self._rollouts = _rollouts(self._memory, layout, slots)
        self._free = deque(range(slots))
        self._granted: dict[int, tuple[int, int]] = {}
        """(worker, rollout) of each slot that is being written."""
        self._pipes: dict[int, Connection] = {}
        self._feeders: dict[int, _Feeder] = {}

    @property
    def shared(self) -> bool:
        """Whether slots are in shared memory."""
        return self._memory is not None

    @property
    def free_slots(self) -> int:
        """Slots that could be granted."""
        return len(self._free)

    def connect(self, worker: int) -> WorkerLink[R]:
        """A new pipe for a worker that is about to be started."""
        ours, theirs = self._context.Pipe()
        _limit_reading(ours, self._timeout)
        self._pipes[worker] = ours
        if not self.shared:
            self._feeders[worker] = _Feeder(ours)
        return WorkerLink(theirs, self._memory, self._layout, len(self._rollouts))

    def disconnect(self, worker: int, *, dead: bool) -> None:
        """Close a worker's pipe and take back the slots it was writing.

        A slot of a worker that may still be alive is never granted again: it could write there.
        """
        pipe, feeder = self._pipes.pop(worker, None), self._feeders.pop(worker, None)
        if feeder is not None:  # first: a new pipe could take this one's number
            feeder.close()
        if pipe is not None:
            pipe.close()
        for slot in [slot for slot, (owner, _) in self._granted.items() if owner == worker]:
            del self._granted[slot]
            if dead:
                self._free.append(slot)

    def grant(self, worker: int, order: Message) -> None:
        """Have a worker play into a free slot."""
        slot = self._free.popleft()
        self._granted[slot] = worker, order.number
        self.send(worker, order._replace(slot=slot))

    def committed(self, worker: int, message: Message, payload_size: int) -> R:
        """The rollout that a message announces; `release` its slot when it has been read.

        `payload_size` is how much of the payload comes before a rollout sent by pipe. Raises
        `TornRolloutError` if it is not the rollout that was ordered, and whole; then the worker
        still holds the slot.
        """
        if self._granted.get(message.slot) != (worker, message.number):
            raise TornRolloutError(f"slot {message.slot} is not for rollout {message.number}")
        rollout = self._rollouts[message.slot]
        if not self.shared:
            rollout.load_bytes(message.payload[payload_size:])
        rollout.check(message.epoch, message.number)
        del self._granted[message.slot]
        return rollout

    def release(self, slot: int) -> None:
        """A committed slot has been read."""
        self._free.append(slot)

    def send(self, worker: int, message: Message) -> None:
        """Say something to a worker; one that is gone is noticed when listening."""
        if worker in self._feeders:
            self._feeders[worker].send(message)
        elif worker in self._pipes:  # else it is dead, and known to be
            with suppress(OSError):  # its pipe reads as closed: see `receive`
                self._pipes[worker].send_bytes(message.encode())

    def receive(self, timeout: float) -> Iterator[tuple[int, Message | None]]:
        """What the workers have said, waiting for the first of it; None from one that is gone."""
        workers = {pipe: worker for worker, pipe in self._pipes.items()}
        for ready in connection.wait(list(workers), timeout):
            pipe = cast(Connection, ready)
            worker = workers[pipe]
            while self._pipes.get(worker) is pipe:
                try:
                    if not pipe.poll():
                        break
                    message = Message.decode(pipe.recv_bytes())
                except (OSError, EOFError):
                    yield worker, None
                    break
                yield worker, message

    def close(self) -> None:
        """Close everything; the workers must have ended."""
        for worker in list(self._pipes):
            self.disconnect(worker, dead=True)
        self._rollouts.clear()
        if self._memory is not None:
            self._memory.close()


class _Feeder:
    """Sends to a worker from a thread: large messages would block until the worker reads them.

    Of weights only the newest wait: a slow worker does not make them pile up.
    """

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._waiting: deque[Message | None] = deque()
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._send_all, daemon=True)
        self._thread.start()

    def send(self, message: Message) -> None:
        with self._changed:
            if message.kind in (Kind.WEIGHTS, Kind.OPPONENT):
                older = [m for m in self._waiting if m is not None and m.kind == message.kind]
                for outdated in older:
                    self._waiting.remove(outdated)
            self._waiting.append(message)
            self._changed.notify()

    def close(self) -> None:
        """Send no more. The worker has ended, so that nothing blocks."""
        with self._changed:
            self._waiting.clear()
            self._waiting.append(None)
            self._changed.notify()
        self._thread.join(_SECONDS_TO_END)

    def _send_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                message = self._waiting.popleft()
            if message is None:
                return
            try:
                self._pipe.send_bytes(message.encode())
            except OSError:
                return


def _limit_reading(pipe: Connection, seconds: float) -> None:
    """Have a read fail that waits so long: `poll` only tells that a message has begun."""
    whole = int(seconds)
    limit = struct.pack("ll", whole, max(int(1e6 * (seconds - whole)), 1))
    with socket.socket(fileno=os.dup(pipe.fileno())) as end:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)


def _slot_size(layout: SlotLayout[Any]) -> int:
    return size_of(layout.specs)


def _rollouts(memory: SharedMemory | None, layout: SlotLayout[R], slots: int) -> list[R]:
    if memory is None:
        return [layout.private() for _ in range(slots)]
    size = _slot_size(layout)
    return [layout.over(memory.arrays(layout.specs, slot * size)) for slot in range(slots)]
