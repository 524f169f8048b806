"""`AsyncLearner`: learns beside the collection, in a thread of its own, on twins of the models.

The collection hands over a copy of what to learn from and goes on. When the learner is done, the
weights of each twin wait for the agent that they belong to.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Any

from keisei.gridworld.agent_stacks import AgentStacks, Outcomes
from keisei.gridworld.spans import NoTimeline, TimelineLike, TimelineMaker
from keisei.gridworld.stack import Failure, LearningModel


class AsyncLearner:
    """One lesson of every agent at a time.

    `models` are those that act: only `deliver` touches them, in the thread that calls it. With
    `inline` there is no thread: `teach` learns before it returns.
    """

    def __init__(
        self,
        models: Mapping[int, LearningModel],
        *,
        stacked: bool,
        pool: Executor | None = None,
        inline: bool = False,
        make_timeline: TimelineMaker = NoTimeline,
    ) -> None:
        self._models = dict(models)
        self.twins = {number: model.twin() for number, model in models.items()}
        self._stacked = stacked
        self._stacks = AgentStacks(self.twins, stacked=stacked)
        self._pool, self._make_timeline = pool, make_timeline
        self._lessons: Mapping[int, Any] | None = None
        self._outcomes: Outcomes | None = None
        self._news = threading.Condition()
        self._closing = False
        self._thread: threading.Thread | None = None
        if not inline:
            self._thread = threading.Thread(target=self._work, name="learner", daemon=True)
            self._thread.start()

    @property
    def busy(self) -> bool:
        """Whether it is learning, or has learned what was not delivered yet."""
        with self._news:
            return self._lessons is not None or self._outcomes is not None

    def teach(self, lessons: Mapping[int, Any], epoch: int) -> None:
        """Have it learn from what was played up to this epoch; not while it is busy."""
        with self._news:
            if self._lessons is not None or self._outcomes is not None:
                raise RuntimeError("the learner has not delivered what it learned before")
            for number in lessons:  # nobody else uses the twins now
                self.twins[number].start_epoch_action(epoch)
            if self._thread is None:
                self._outcomes = self._learn(lessons)
                return
            self._lessons = lessons
            self._news.notify_all()

    def deliver(self, *, wait: bool = False) -> Outcomes:
        """Give the agents their new weights if these are ready, or when they are.

        What became of each agent that learned; nothing if nothing is ready.
        """
        with self._news:
            while wait and self._lessons is not None and self._outcomes is None:
                self._news.wait()
            outcomes, self._outcomes = self._outcomes, None
        for number in outcomes or {}:
            self._models[number].adopt(self.twins[number])
        return outcomes or {}

    def wait(self) -> Outcomes:
        """Wait until it has learned; what became of each agent, which stays to be delivered."""
        with self._news:
            while self._lessons is not None and self._outcomes is None:
                self._news.wait()
            return self._outcomes or {}

    def go_on_from(self, outcomes: Outcomes) -> None:
        """Stack the twins anew, which have been loaded, with this to be delivered."""
        with self._news:
            self._stacks = AgentStacks(self.twins, stacked=self._stacked)
            self._outcomes = outcomes or None

    def _work(self) -> None:
        timeline = self._make_timeline("learner")
        try:
            self._follow(timeline)
        finally:
            timeline.close()

    def _follow(self, timeline: TimelineLike) -> None:
        while True:
            with self._news:
                while self._lessons is None and not self._closing:
                    self._news.wait()
                if self._lessons is None:
                    return
                lessons = self._lessons
            with timeline.span("learn"):
                outcomes = self._learn(lessons)
            with self._news:
                self._lessons, self._outcomes = None, outcomes
                self._news.notify_all()

    def _learn(self, lessons: Mapping[int, Any]) -> Outcomes:
        """What became of each agent: who waits for it must not wait for ever."""
        try:
            return self._stacks.learn(lessons, self._pool)
        except Exception as error:
            return {number: Failure.of(error) for number in lessons}

    def close(self) -> None:
        """Finish the last lesson and end the thread; `deliver` still works after it."""
        with self._news:
            self._closing = True
            self._news.notify_all()
        if self._thread is not None:
            self._thread.join()
