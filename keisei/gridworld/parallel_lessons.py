"""`ParallelLessons`: who learns when, here or beside the collection, and what becomes of it.

What goes wrong with the learning of one agent is told, and noticed by no other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any, NamedTuple

from numpy.typing import NDArray

from keisei.gridworld.agent_stacks import AgentStacks, Outcomes
from keisei.gridworld.async_learner import AsyncLearner
from keisei.gridworld.model import Model
from keisei.gridworld.parallel_pace import FULL_SPEED, EpochPace, Pace
from keisei.gridworld.parallel_pauses import Pauses
from keisei.gridworld.parallel_pool import LessonPool, Recipe
from keisei.gridworld.parallel_records import LearningRecord, most_experienced
from keisei.gridworld.parallel_settings import ParallelSettings
from keisei.gridworld.spans import NoTimeline, TimelineMaker
from keisei.gridworld.stack import Failure, Figures, LearningModel, LendsLessons

_OF_A_SNAPSHOT = 0.75
"""How long the longest wait before a turn is: new weights may have to be taken up after it."""


class _Lesson(NamedTuple):
    """What an agent learns from, and how much it lived through for it."""

    lesson: Any
    steps: int
    epochs: int


class ParallelLessons:
    """The learning of N agents, whose models are in the order of their numbers.

    recipes: of models that a process of the `lesson_pool` can make. tell: told, with the traceback,
    when the training of an agent fails.
    """

    def __init__(
        self,
        models: Sequence[Model],
        parallel: ParallelSettings,
        *,
        tell: Callable[[str], None],
        recipes: Mapping[int, Recipe],
        lesson_pool: LessonPool | None,
    ) -> None:
        self.parallel, self._tell = parallel, tell
        self._take_models(models)
        self._recipes, self._lesson_pool = dict(recipes), lesson_pool
        self.records = [LearningRecord() for _ in models]
        self.pauses = Pauses()
        self.make_timeline: TimelineMaker = NoTimeline
        self.learner: AsyncLearner | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._taught_epoch = 0
        self._pace = Pace(parallel.train_interval)
        self._epoch_pace, self._epoch_began = FULL_SPEED, 0.0
        self.collected_steps = self.learned_steps = 0
        """Agent-steps that were collected for a learner beside, and that it learned from."""
        self.make_stacks()

    def _take_models(self, models: Sequence[Model]) -> None:
        """Note which of them learn so that it can be taken apart: asking takes 20 µs a model."""
        self.models = list(models)
        self._learning = {n: m for n, m in enumerate(models) if isinstance(m, LearningModel)}
        self._lending = {n: m for n, m in self._learning.items() if isinstance(m, LendsLessons)}

    def make_stacks(self) -> None:
        """Stack the models as they are now: to be called when they have been loaded."""
        switches = ("parallel_actions", "parallel_training")
        self.stacks = AgentStacks(
            dict(enumerate(self.models)), stacked=any(map(self.parallel.wants, switches))
        )

    def close(self, epoch: int) -> None:
        """Finish the last lesson, and end all threads and processes; all can go on after it."""
        if self.learner is not None:
            self.learner.close()
            self._note(self.learner.deliver(), epoch)
        if self._threads is not None:
            self._threads.shutdown()
            self._threads = None
        if self._lesson_pool is not None:
            self._lesson_pool.close()

    # A round of training

    def train(self, epoch: int, train_steps: int, steps: Sequence[int]) -> list[Figures]:
        """Have the agents that are due learn, here or beside; the newest figures of each.

        steps: [N] the agent-steps of this epoch.
        """
        if self.parallel.async_learning:
            self._train_undivided(epoch, train_steps)
            self._teach_beside(epoch, train_steps, steps)
        else:
            with self.pauses.timeline.span("learn"):
                self._learn_here(epoch, train_steps)
            self._train_undivided(epoch, train_steps)
        return [record.told(epoch) for record in self.records]

    def _learn_here(self, epoch: int, train_steps: int) -> None:
        """Have all learn and wait for it; with a lesson pool, on the twins of the learner."""
        for number in self._learning:
            self.records[number].owed_epochs = 1
        here = self._lesson_pool is None
        lessons = self._draw(epoch, train_steps, self._learning, lent=here)
        self._taught_epoch = epoch
        if here:
            together = self.parallel.parallel_training
            outcomes = self.stacks.learn(lessons, self._get_threads(), stacked=together)
            self._note(outcomes, epoch)
        else:
            learner = self.get_learner()
            learner.teach(lessons, epoch)
            self._note(learner.deliver(wait=True), epoch)

    def _teach_beside(self, epoch: int, train_steps: int, steps: Sequence[int]) -> None:
        """Hand over the next lessons, if it is time and the learner has done the last ones."""
        learner = self.get_learner()
        for number in self._learning:
            self.records[number].lived(steps[number])
        self.collected_steps += sum(steps)
        due = self._owing(self.parallel.train_interval)
        with self.pauses.pause():
            if self.parallel.repeatable and self.parallel.max_agents_per_lesson is None:
                # While the learner is still busy: who learns does not depend on who has learned.
                lessons = self._snapshot(epoch, train_steps, due)
                self._take_over(epoch, wait=True)
                self._hand_over(lessons, epoch)
            else:
                self._take_over(epoch, wait=self.parallel.repeatable)
                if due and not learner.busy:
                    self._teach(epoch, train_steps, due)
            self._draw(epoch, train_steps, self._owing(self.parallel.backlog), lent=True)

    def _teach(self, epoch: int, train_steps: int, due: Iterable[int]) -> None:
        """Hand over all that those of them with most new experience have lived through."""
        self._hand_over(self._snapshot(epoch, train_steps, due), epoch)

    def _snapshot(self, epoch: int, train_steps: int, due: Iterable[int]) -> dict[int, _Lesson]:
        """What those of them learn from that do not rest and have most new experience."""
        with self.pauses.span("snapshot"):
            resting = [number for number in due if self.records[number].rests(epoch)]
            awake = [number for number in due if number not in resting]
            chosen = most_experienced(self.records, awake, self.parallel.max_agents_per_lesson)
            records = [self.records[number] for number in chosen]
            owed = {n: (r.owed_steps, r.owed_epochs) for n, r in zip(chosen, records, strict=True)}
            lessons = self._draw(epoch, train_steps, sorted([*chosen, *resting]))
        self._pace.longest_wait = _OF_A_SNAPSHOT * self.pauses.last["snapshot"]
        return {number: _Lesson(lesson, *owed[number]) for number, lesson in lessons.items()}

    def _hand_over(self, lessons: Mapping[int, _Lesson], epoch: int) -> None:
        """Have these agents learn beside, but for those that rest by now."""
        awake = {n: lesson for n, lesson in lessons.items() if not self.records[n].rests(epoch)}
        for number, lesson in awake.items():
            self.records[number].new_steps = 0
            self.learned_steps += lesson.steps
        if awake:
            self._taught_epoch = epoch
            self._pace.taught(max(lesson.epochs for lesson in awake.values()))
            self.get_learner().teach({n: lesson.lesson for n, lesson in awake.items()}, epoch)

    def _owing(self, epochs: int) -> list[int]:
        """Who has lived through so many epochs since its last lesson."""
        return [n for n in self._learning if self.records[n].owed_epochs >= epochs]

    def _draw(
        self, epoch: int, train_steps: int, numbers: Iterable[int], *, lent: bool = False
    ) -> dict[int, Any]:
        """What these agents learn from; nothing of those that rest, who forget it.

        lent: they may not be copies, and are learned from before the next turn, if at all.
        """
        lessons = {}
        for number in numbers:
            record = self.records[number]
            steps = train_steps * record.owed_epochs
            record.settle()
            try:
                if lent and number in self._lending:
                    lesson = self._lending[number].lend_lesson(steps)
                else:
                    lesson = self._learning[number].draw_lesson(steps)
            except Exception as error:
                if not record.rests(epoch):
                    self._rest(number, Failure.of(error), epoch + 1)
                continue
            if lesson is not None and not record.rests(epoch):
                lessons[number] = lesson
        return lessons

    def _train_undivided(self, epoch: int, train_steps: int) -> None:
        """Train the models whose learning cannot be taken apart, one after the other."""
        for number, (model, record) in enumerate(zip(self.models, self.records, strict=True)):
            if number in self._learning or record.rests(epoch):
                continue
            figures: Figures = {}
            try:
                for _ in range(train_steps):
                    figures = model.train_step() or figures
            except Exception as error:
                self._rest(number, Failure.of(error), epoch + 1)
                continue
            if figures:
                record.learned(figures, epoch)

    # What becomes of it

    def next_pace(self) -> EpochPace:
        """How slowly the next epoch is played, that the learner beside keeps up with it."""
        if not self.parallel.paced:
            return FULL_SPEED
        owed = max((self.records[number].owed_epochs for number in self._learning), default=0)
        return self._pace.of_epoch(owed, busy=self.get_learner().busy)

    def begin_epoch(self) -> None:
        """An epoch is played from now on."""
        self._epoch_pace, self._epoch_began = self.next_pace(), time.perf_counter()

    def begin_turn(self, epoch: int, share: float) -> None:
        """Give the agents what was learned beside, if it is ready; wait a little if it is not.

        share: of the epoch's turns, those that have been taken.
        """
        learner = self.learner
        if learner is None or self.parallel.repeatable or not learner.busy:
            return
        seconds = self._epoch_pace.wait_before(share, time.perf_counter() - self._epoch_began)
        if seconds or learner.ready:
            with self.pauses.pause():
                self._wait_a_while(seconds)
                self._take_over(epoch)

    def _wait_a_while(self, seconds: float) -> None:
        """Give a learner that is not ready some time, as the pace has it."""
        learner = self.get_learner()
        if seconds and learner.busy and not learner.ready:
            with self.pauses.span("pace"):
                learner.wait_a_while(seconds)

    def take_over_at_end(self, epoch: int) -> None:
        """Give the agents what was learned beside, at the end of an epoch: waited for if so set."""
        with self.pauses.pause():
            self._take_over(epoch, wait=self.parallel.repeatable)

    def _take_over(self, epoch: int, *, wait: bool = False) -> None:
        learner = self.get_learner()
        if wait and learner.busy and not learner.ready:
            with self.pauses.span("wait"):
                learner.wait()
        if learner.ready:
            if learner.lesson_seconds is not None:
                self._pace.learned(learner.lesson_seconds)
            with self.pauses.span("publish"):
                outcomes = learner.deliver()
            self._note(outcomes, epoch)

    def finish(self, epoch: int, train_steps: int) -> None:
        """Wait until all that was collected is learned, and give the agents what they learned."""
        if self.learner is None:
            return
        self._note(self.learner.deliver(wait=True), epoch)
        while owing := self._owing(1):
            self._teach(epoch, train_steps, owing)
            self._note(self.learner.deliver(wait=True), epoch)

    def _note(self, outcomes: Outcomes, epoch: int) -> None:
        """Note what became of each agent's lesson."""
        for number, outcome in outcomes.items():
            if isinstance(outcome, Failure):
                self._rest(number, outcome, max(self._taught_epoch + 1, epoch))
            else:
                self.records[number].learned(outcome, self._taught_epoch)

    def _rest(self, number: int, failure: Failure, from_epoch: int) -> None:
        """Leave an agent's training alone for a while, twice as long each time in a row."""
        rest = self.records[number].failed(from_epoch)
        self._tell(
            f"The training of agent {number} failed ({failure.reason}): it keeps its weights and "
            f"rests, {rest} epoch{'s' * (rest > 1)} long.\n{failure.traceback}".rstrip()
        )

    # Who learns

    def get_learner(self) -> AsyncLearner:
        """The learner on twins, made when it is first needed."""
        if self.learner is None:
            threads = self.parallel.threads if self.parallel.parallel_training else 1
            if self._lesson_pool is not None:
                threads = max(threads, self._lesson_pool.processes)
            self.learner = AsyncLearner(
                self._learning,
                stacked=self.parallel.parallel_training,
                threads=threads,
                timeout=self.parallel.lesson_timeout,
                inline=self.parallel.debug_serial,
                make_timeline=self.make_timeline,
                lesson_pool=self._lesson_pool,
                recipes=self._recipes,
            )
        return self.learner

    def _get_threads(self) -> ThreadPoolExecutor | None:
        parallel = self.parallel
        threads = parallel.threads if parallel.wants("parallel_training") else 1
        if threads > 1 and self._threads is None:
            self._threads = ThreadPoolExecutor(threads - 1, "training")  # and this one
        return self._threads

    def change_agents(
        self,
        models: Sequence[Model],
        numbers_before: Mapping[int, int],
        recipes: Mapping[int, Recipe],
        epoch: int,
    ) -> None:
        """Go on with these models; numbers_before: of those that were there, by their numbers now.

        A lesson under way is finished first: it is of other numbers.
        """
        if self.learner is not None:
            self._note(self.learner.deliver(wait=True), epoch)
        records = self.records
        self._take_models(models)
        self._recipes = dict(recipes)
        self.records = [
            records[numbers_before[n]]
            if n in numbers_before
            else LearningRecord(learned_epoch=epoch)
            for n in range(len(models))
        ]
        if self.learner is not None:
            self.learner.change_agents(self._learning, numbers_before, recipes)
        self.make_stacks()

    # Going on later

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """The twins too, when the learner has done the lesson it is at."""
        arrays: dict[str, NDArray[Any]] = {}
        values: dict[str, Any] = {
            "lessons": [asdict(record) for record in self.records],
            "taught_epoch": self._taught_epoch,
            "counted": [self.collected_steps, self.learned_steps],
        }
        if self.learner is not None:
            arrays, its_values = self.learner.state()
            values |= its_values
        return arrays, values

    def load_state(
        self, arrays: Mapping[str, NDArray[Any]], values: Mapping[str, Any], epoch: int
    ) -> None:
        """Go on where the learning was; the models have been loaded."""
        if self.learner is not None:  # what it is at belongs to another run
            self.learner.close()
            self.learner = None
        self.make_stacks()
        if "lessons" not in values:  # it is the state of a plain game
            return
        self.records = [LearningRecord(**record) for record in values["lessons"]]
        self._taught_epoch = values["taught_epoch"]
        self.collected_steps, self.learned_steps = values["counted"]
        if "twins" not in values:
            return
        learner = self.get_learner()
        learner.load_state(arrays, values)
        if not self.parallel.wants("async_learning") and self._lesson_pool is None:
            self._note(learner.deliver(), epoch)
            self.learner = None
