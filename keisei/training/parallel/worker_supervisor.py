"""`WorkerSupervisor`: keeps the workers alive and hears what they say.

A worker that dies or falls silent is replaced, and its games go on from its last committed rollout.
One that fails again and again is tried later and later, then given up.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from multiprocessing.context import BaseContext
from typing import Any, Generic, NamedTuple

from keisei.config_schema import ParallelConfig
from keisei.training.parallel.communication import Kind, Message, WorkerCommunicator
from keisei.training.parallel.packed_games import PackedGames
from keisei.training.parallel.self_play_worker import STARTUP_SECONDS, SelfPlayWorker
from keisei.training.parallel.slots import R, TornRolloutError
from keisei.training.parallel.worker_life import TIME_SPENT_BYTES, Setup

_LOG = logging.getLogger(__name__)
_SECONDS_TO_STOP = 2.0


class WorkersLostError(RuntimeError):
    """Too few workers can be kept alive; the message holds the first traceback there was."""


class Committed(NamedTuple, Generic[R]):
    """A rollout that waits in its slot to be read."""

    worker: SelfPlayWorker
    slot: int
    rollout: R
    state: PackedGames
    """The games after it."""


class WorkerSupervisor(Generic[R]):
    """The workers of a run and the pipes to them."""

    def __init__(
        self,
        workers: list[SelfPlayWorker],
        communicator: WorkerCommunicator[R],
        settings: ParallelConfig,
        *,
        context: BaseContext,
        worker_main: Callable[[Any], None],
        setup_of: Callable[[SelfPlayWorker], Setup],
        announce: Callable[[str], None],
    ) -> None:
        self._workers, self._communicator, self._settings = workers, communicator, settings
        self._context, self._worker_main, self._setup_of = context, worker_main, setup_of
        self._announce = announce
        self.refused = 0
        """Messages of earlier incarnations that were not believed."""

    @property
    def playing(self) -> list[SelfPlayWorker]:
        """The workers that can be told to play."""
        return [worker for worker in self._workers if worker.ready]

    def listen(self, seconds: float) -> list[Committed[R]]:
        """Start whoever is due, hear the workers for so long at most; the new rollouts."""
        self.start_those_due()
        committed = [
            rollout
            for number, message in self._communicator.receive(seconds)
            for rollout in self._take_in(self._workers[number], message)
        ]
        self._replace_the_silent()
        return committed

    def start_those_due(self) -> None:
        """Start workers that are not running and whose time has come."""
        now = time.monotonic()
        for worker in self._workers:
            if not (worker.running or worker.given_up) and now >= worker.start_after:
                self._start(worker)

    def _start(self, worker: SelfPlayWorker) -> None:
        try:
            worker.start(self._context, self._worker_main, self._setup_of)
            _LOG.info("%s started, epoch %d", worker.name, worker.epoch)
        except (OSError, EOFError) as error:  # the server that forks them has died, for one
            self._lost(worker, f"could not be started ({error})")

    def _take_in(self, worker: SelfPlayWorker, message: Message | None) -> Iterator[Committed[R]]:
        if message is None:
            self._lost(worker)
        elif message.epoch != worker.epoch:
            self.refused += 1
        else:
            match message.kind:
                case Kind.READY:
                    worker.is_ready(self._communicator)
                case Kind.ALIVE:
                    worker.heard(message.payload)
                case Kind.COMMITTED:
                    yield from self._committed(worker, message)
                case Kind.FAILED:
                    text = message.payload.decode(errors="replace")
                    worker.first_traceback = worker.first_traceback or text
                    _LOG.error("%s failed:\n%s", worker.name, text)
                case _:
                    raise ValueError(f"{worker.name} sent {message.kind.name}")

    def _committed(self, worker: SelfPlayWorker, message: Message) -> Iterator[Committed[R]]:
        try:
            rollout = self._communicator.committed(worker.number, message, TIME_SPENT_BYTES)
        except TornRolloutError as error:
            self._lost(worker, f"sent a torn rollout ({error})")
            return
        worker.heard(message.payload)
        worker.committed(message.number, rollout.copy_of_state())
        yield Committed(worker, message.slot, rollout, worker.state)

    def _replace_the_silent(self) -> None:
        now = time.monotonic()
        for worker in self._workers:
            allowed = self._settings.worker_timeout if worker.ready else STARTUP_SECONDS
            if worker.running and worker.is_silent(now, allowed):
                self._lost(worker, f"said nothing for {worker.silent_for(now):.0f} s")

    def _lost(self, worker: SelfPlayWorker, why: str = "") -> None:
        """A worker has died, or must (`why`): take back its slots and plan its replacement."""
        name = worker.name
        how, dead = worker.end(0 if why else _SECONDS_TO_STOP)
        self._communicator.disconnect(worker.number, dead=dead)
        worker.plan_restart(self._settings.restart_backoff)
        if worker.failures > self._settings.max_restarts:
            self._give_up(worker, f"{name} {why or how}")
        else:
            worker.restarts += 1
            self._tell(f"{name} {why or how}: replaced, its games go on")

    def _give_up(self, lost: SelfPlayWorker, what_happened: str) -> None:
        """In async mode the others can go on; in sync mode every group has its own worker."""
        lost.given_up = True
        traceback = lost.first_traceback.strip()
        words = f"the first:\n{traceback}" if traceback else "without a traceback"
        count = "1 failure" if lost.failures == 1 else f"{lost.failures} failures in a row"
        text = f"{what_happened}: given up after {count}, {words}"
        if self._settings.mode == "sync" or all(worker.given_up for worker in self._workers):
            raise WorkersLostError(text)
        self._tell(text)

    def _tell(self, text: str) -> None:
        _LOG.warning(text)
        self._announce(text)

    def close(self) -> None:
        """End all workers: ask, wait a little, kill."""
        running = [worker for worker in self._workers if worker.running]
        for worker in running:
            worker.stop(self._communicator)
        deadline = time.monotonic() + _SECONDS_TO_STOP
        for worker in running:
            _, dead = worker.end(max(deadline - time.monotonic(), 0))
            self._communicator.disconnect(worker.number, dead=dead)
