"""`SelfPlayWorker`: a worker as the main process sees it, through all its incarnations."""

from __future__ import annotations

import signal
import time
from collections import deque
from collections.abc import Callable
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import Any

from keisei.training.parallel.child_process import start_child
from keisei.training.parallel.communication import Kind, Message, WorkerCommunicator
from keisei.training.parallel.packed_games import PackedGames
from keisei.training.parallel.self_play import Group
from keisei.training.parallel.worker_life import HEARTBEAT_SECONDS, Setup, TimeSpent

STARTUP_SECONDS = 120.0
"""How long a worker may take until it plays; compiling the rules takes a quarter of a minute."""
_LONGEST_BACKOFF = 60.0
_SECONDS_TO_END = 5.0


class SelfPlayWorker:
    """One worker: started, spoken to, watched, replaced.

    Each process that plays this worker's games has its own `epoch`; what an earlier one still says
    is refused.
    """

    def __init__(self, number: int, group: Group, state: PackedGames) -> None:
        self.number, self.group = number, group
        self.state = state
        """The games after the last committed rollout."""
        self.epoch = 0
        self.ready = False
        self.given_up = False
        self.paused = False
        self.orders: deque[int] = deque()
        """Numbers of the rollouts it has been told to play and has not committed."""
        self.next_rollout = 0
        self.failures = 0
        """In a row, without a committed rollout between them."""
        self.restarts = 0
        self.start_after = 0.0
        self._last_heard = 0.0
        self._missed_since: float | None = None
        self._reset_before: int | None = None
        """Number of a rollout: new games are to begin before it."""
        self.first_traceback = ""
        self.steps = 0
        self.games = 0
        self.spent = TimeSpent()
        self._spent_before = TimeSpent()
        self._process: BaseProcess | None = None

    @property
    def running(self) -> bool:
        """Whether there is a process, started and not yet known to have ended."""
        return self._process is not None

    @property
    def pid(self) -> int | None:
        """Of its present process."""
        return None if self._process is None else self._process.pid

    @property
    def name(self) -> str:
        """For people."""
        return f"worker {self.number}" + (f" (pid {self.pid})" if self.running else "")

    def start(
        self,
        context: BaseContext,
        main: Callable[[Any], None],
        setup: Callable[[SelfPlayWorker], Setup],
    ) -> None:
        """Start the next incarnation, which goes on from `state`."""
        self.epoch += 1
        self.ready = False
        self.orders.clear()
        told = setup(self)
        process = context.Process(  # type: ignore[attr-defined]
            target=main, args=(told,), name=f"keisei worker {self.number}", daemon=True
        )
        try:
            start_child(process)
        finally:
            told.link.close()
        self._process = process
        self.heard()

    def is_ready(self, communicator: WorkerCommunicator[Any]) -> None:
        """It takes orders; it is told what those before it were told and did not do."""
        self.ready = True
        self.heard()
        if self.paused:
            self.pause(communicator)
        if self._reset_before is not None:
            self.reset(communicator)

    def pause(self, communicator: WorkerCommunicator[Any]) -> None:
        """Stop between two plies, until `resume`."""
        self.paused = True
        communicator.send(self.number, Message(Kind.PAUSE, self.epoch))

    def resume(self, communicator: WorkerCommunicator[Any]) -> None:
        """Go on after `pause`."""
        self.paused = False
        communicator.send(self.number, Message(Kind.RESUME, self.epoch))

    def reset(self, communicator: WorkerCommunicator[Any]) -> None:
        """Begin new games, after the rollouts already ordered."""
        self._reset_before = self.next_rollout
        communicator.send(self.number, Message(Kind.RESET, self.epoch))

    def stop(self, communicator: WorkerCommunicator[Any]) -> None:
        """Ask the process to end; `end` makes sure that it does."""
        communicator.send(self.number, Message(Kind.STOP, self.epoch))

    def silent_for(self, now: float) -> float:
        """Seconds since something it said was read."""
        return now - self._last_heard

    def is_silent(self, now: float, allowed: float) -> bool:
        """Whether it has said nothing for so long, and nothing in the moment after it was missed.

        What it says while nobody listens waits in the pipe, so that any time counts. The moment is
        for processes that were all stopped together, by Ctrl-Z say.
        """
        if self.silent_for(now) <= allowed:
            return False
        if self._missed_since is None:
            self._missed_since = now
        return now - self._missed_since > 2 * HEARTBEAT_SECONDS

    def heard(self, spent: bytes = b"") -> None:
        """It lives, and perhaps tells how it spent its time."""
        self._last_heard = time.monotonic()
        self._missed_since = None
        if spent:
            now = TimeSpent.decode(spent)
            sums = (before + this for before, this in zip(self._spent_before, now, strict=True))
            self.spent = TimeSpent(*sums)

    def committed(self, number: int, state: PackedGames) -> None:
        """It has played a rollout, with the games as they are now; its failures are forgiven."""
        self.orders.remove(number)
        self.state = state
        self.failures, self.first_traceback = 0, ""
        if self._reset_before is not None and number >= self._reset_before:
            self._reset_before = None

    def end(self, seconds: float) -> tuple[str, bool]:
        """Wait for the process to end, then kill it; how it ended, and whether it surely did."""
        process = self._process
        if process is None:
            return "was not running", True
        process.join(seconds)
        hung = process.is_alive()
        if hung:
            process.kill()
            process.join(_SECONDS_TO_END)
        code = process.exitcode
        self._process = None
        self.ready = False
        self.orders.clear()
        self._spent_before = self.spent
        if code is None:
            return "cannot be killed", False
        process.close()
        return "hung and was killed" if hung else _how_it_ended(code), True

    def forgive(self) -> None:
        """Forget the failures of earlier processes; one that was given up is started again."""
        self.failures, self.first_traceback = 0, ""
        self.given_up, self.start_after = False, 0.0

    def plan_restart(self, backoff: float) -> None:
        """Start again at once after a first failure, later and later after more in a row."""
        self.failures += 1
        wait = 0.0
        if self.failures > 1:
            wait = min(backoff * 2.0 ** (self.failures - 2), _LONGEST_BACKOFF)
        self.start_after = time.monotonic() + wait


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
