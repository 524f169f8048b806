"""`LessonThreads`: threads that learn beside the collection; one that hangs is left to itself.

A thread cannot be killed. One whose job takes longer than `timeout` is forgotten: what it may still
do reaches nobody, and another takes its place. The threads are daemons, so that a run can end.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple

from keisei.gridworld.agent_stacks import Job, Outcomes
from keisei.gridworld.quick_switching import QUICK_SWITCHING
from keisei.gridworld.spans import NoTimeline, TimelineLike, TimelineMaker
from keisei.gridworld.stack import Failure

_WORTH_SLEEPING = 0.001
"""Seconds: a processor that falls asleep may take a millisecond to wake up."""


class Round(NamedTuple):
    """What became of some jobs."""

    outcomes: Outcomes
    abandoned: set[int]
    """Agents whose models a forgotten thread may still change."""


class _Work(NamedTuple):
    job: Job
    since: float


class LessonThreads:
    """A round of jobs at a time, by up to `count` threads, which start when there is work."""

    def __init__(
        self, count: int, *, timeout: float | None = None, make_timeline: TimelineMaker = NoTimeline
    ) -> None:
        self._count, self._timeout, self._make_timeline = count, timeout, make_timeline
        self._news = threading.Condition()
        self._threads: set[threading.Thread] = set()
        self._waiting: deque[Job] = deque()
        self._at: dict[threading.Thread, _Work] = {}
        self._round: Round | None = None
        self._closing = False
        self._since = self.round_seconds = 0.0
        """When the last round was started, and how long after that a job of it was done."""
        self._switching = ExitStack()

    @property
    def under_way(self) -> bool:
        """Whether a round was started and not fetched yet."""
        return self._round is not None

    def start(self, jobs: Sequence[Job]) -> None:
        """Begin a round; the last one has been fetched."""
        self._switching.enter_context(QUICK_SWITCHING)
        with self._news:
            self._round, self._closing = Round({}, set()), False
            self._since = time.monotonic()
            self._waiting.extend(jobs)
            self._start_threads()
            self._news.notify_all()

    def fetch(self, *, wait: bool = False) -> Round | None:
        """The round that was started, when all of it is done or abandoned; else None."""
        with self._news:
            while (remaining := self._abandon_hung()) is not None and wait:
                self._news.wait(remaining if remaining < threading.TIMEOUT_MAX else None)
            if remaining is not None or self._round is None:
                return None
            done, self._round = self._round, None
        self._switching.close()
        return done

    def wait_a_while(self, seconds: float) -> None:
        """Wait until the round is done, but no longer than so many seconds."""
        if seconds < _WORTH_SLEEPING:
            until = time.perf_counter() + seconds
            while self._is_at_work() and time.perf_counter() < until:
                time.sleep(0)  # lets others have the interpreter
            return
        with self._news:
            self._news.wait_for(lambda: not self._is_at_work(), seconds)

    def _is_at_work(self) -> bool:
        return bool(self._at or self._waiting)

    def close(self) -> None:
        """End the threads when they have done their jobs; the round can still be fetched."""
        with self._news:
            self._closing = True
            self._news.notify_all()
            while (remaining := self._abandon_hung()) is not None:
                self._news.wait(remaining if remaining < threading.TIMEOUT_MAX else None)
            ending, self._threads = self._threads, set()
        for thread in ending:
            thread.join()

    def _abandon_hung(self) -> float | None:
        """Forget threads that hang; seconds until the next could be one, None if all is done."""
        limit = threading.TIMEOUT_MAX if self._timeout is None else self._timeout
        now = time.monotonic()
        for thread, work in list(self._at.items()):
            if now - work.since >= limit:
                self._abandon(thread)
        if not self._is_at_work():
            return None
        began = min((work.since for work in self._at.values()), default=now)
        return max(began + limit - now, 0.001)

    def _abandon(self, thread: threading.Thread) -> None:
        work = self._at.pop(thread)
        self._threads.discard(thread)
        failure = Failure(
            f"it took longer than {self._timeout:g} seconds and was abandoned", _stack_of(thread)
        )
        if self._round is not None:
            self._round.abandoned.update(work.job.numbers)
            self._round.outcomes.update(dict.fromkeys(work.job.numbers, failure))
        self._start_threads()

    def _start_threads(self) -> None:
        """As many as there is work for, and no more than so many."""
        idle = len(self._threads) - len(self._at)
        wanted = min(len(self._waiting) - idle, self._count - len(self._threads))
        for _ in range(wanted):
            thread = threading.Thread(target=self._work, name="learner", daemon=True)
            self._threads.add(thread)
            thread.start()

    def _work(self) -> None:
        timeline = self._make_timeline("learner")
        try:
            self._follow(timeline)
        finally:
            timeline.close()

    def _follow(self, timeline: TimelineLike) -> None:
        me = threading.current_thread()
        while (job := self._next_job(me)) is not None:
            with timeline.span("learn"):
                outcomes = done(job)
            with self._news:
                if self._at.pop(me, None) is None or self._round is None:
                    return  # abandoned meanwhile
                self._round.outcomes.update(outcomes)
                self.round_seconds = time.monotonic() - self._since
                self._news.notify_all()

    def _next_job(self, me: threading.Thread) -> Job | None:
        """What to do next, waiting for it; None when the threads are to end."""
        with self._news:
            while not self._waiting and not self._closing:
                self._news.wait()
            if not self._waiting:
                return None
            job = self._waiting.popleft()
            self._at[me] = _Work(job, time.monotonic())
            self._news.notify_all()  # who waits for hung ones has another to watch
            return job


def done(job: Job) -> Outcomes:
    """Do a job; what became of each agent, for whoever waits must not wait for ever."""
    try:
        return job.learn()
    except Exception as error:
        return dict.fromkeys(job.numbers, Failure.of(error))


def _stack_of(thread: threading.Thread) -> str:
    """Where a thread is now."""
    frame = sys._current_frames().get(thread.ident or 0)
    return "" if frame is None else "".join(traceback.format_stack(frame))
