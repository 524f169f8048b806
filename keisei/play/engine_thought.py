"""One `go` from the moment it is read to its answer: when it has to end."""

from __future__ import annotations

import threading
import time

from keisei.play.searching import Limits, SearchReport
from keisei.play.time_control import ThinkingTime, less_margin
from keisei.play.usi_options import UNLIMITED_NODES, Options
from keisei.play.usi_protocol import Go, Position


class Thought:
    """What a `go` asks, and what has been said about it since.

    The thread that reads calls `stop` and `ponder_hit`; the one that thinks asks `is_over`.
    """

    def __init__(self, go: Go, position: Position, options: Options, *, read_at: float) -> None:
        self.go = go
        self.position = position
        self.options = options
        self._clock_started = read_at
        self._time: ThinkingTime | None = None
        self._stopped = threading.Event()
        self._may_answer = threading.Event()
        if not (go.ponder or go.infinite):
            self._may_answer.set()
        self.is_answered = False
        self._best: str | None = None
        self._is_settled = True
        self._asked_at: float | None = None
        self._step = 0.0

    def stop(self) -> None:
        """Answer as soon as possible."""
        self._stopped.set()
        self._may_answer.set()

    @property
    def is_stopped(self) -> bool:
        """Whether `stop` was said."""
        return self._stopped.is_set()

    def ponder_hit(self, read_at: float) -> None:
        """The expected move was played: the clock runs from here."""
        if self.go.ponder and not self._may_answer.is_set():
            self._clock_started = read_at
            if not self.go.infinite:
                self._may_answer.set()

    def begin(self, thinking: ThinkingTime | None) -> None:
        """How long there is, once it is known whose clock runs."""
        self._time = thinking

    def limits(self) -> Limits:
        """For the search: `is_over` ends it, and the time that is left helps it to end in time."""
        left = None
        if self._time is not None and self._may_answer.is_set():
            left = max(self._time.deadline - self._elapsed(), 0.0)
        asked = UNLIMITED_NODES if self.go.nodes is None else self.go.nodes
        nodes = max(min(self.options.nodes, asked), 1)
        return Limits(
            nodes=None if nodes == UNLIMITED_NODES else nodes,
            seconds=left,
            depth=None if self.go.depth is None else max(self.go.depth, 1),
            stop=self.is_over,
        )

    def seconds_for_mate(self) -> float | None:
        """What is left to look for a mate; None is for ever."""
        if self.go.mate_time is None:
            return None
        usable = less_margin(self.go.mate_time / 1000, self.options.margin_ms / 1000)
        return max(usable - self._elapsed(), 0.0)

    def is_over(self) -> bool:
        """Whether the search should end now."""
        self._measure_step()
        if self._stopped.is_set():
            return True
        if self._time is None or not self._may_answer.is_set():
            return False
        elapsed = self._elapsed()
        if elapsed + self._step >= self._time.deadline:
            return True
        return self._is_settled and elapsed >= self._time.target

    def _measure_step(self) -> None:
        """How long a search takes between two questions: the next step has to fit as well.

        A large network or a busy machine makes steps of a second. One long step is soon forgotten.
        """
        now = time.monotonic()
        if self._asked_at is not None:
            self._step = max(now - self._asked_at, self._step / 2)
        self._asked_at = now

    def note(self, report: SearchReport) -> None:
        """Remember whether the search still changes its mind: then it gets more than the target."""
        best = report.lines[0].moves[0] if report.lines else None
        self._is_settled = self._best in (None, best)
        self._best = best

    def wait_until_answer_is_wanted(self) -> None:
        """While pondering and without limits nobody wants an answer, however soon it is known."""
        self._may_answer.wait()

    def _elapsed(self) -> float:
        return time.monotonic() - self._clock_started
