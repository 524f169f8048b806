"""`AsyncLearner`: learns beside the collection, in threads of its own, on twins of the models.

The collection hands over a copy of what to learn from and goes on. When the learner is done, the
weights of each twin wait for the agent that they belong to.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from keisei.gridworld.agent_stacks import AgentStacks, Job, Outcome, Outcomes
from keisei.gridworld.parallel_pool import LessonPool, Recipe
from keisei.gridworld.parallel_threads import LessonThreads, done
from keisei.gridworld.spans import NoTimeline, TimelineMaker
from keisei.gridworld.stack import DrawsAtRandom, Failure, Figures, LearningModel
from keisei.prefixed_names import below


class AsyncLearner:
    """One lesson of every agent at a time.

    `models` are those that act: only `deliver` touches them, in the thread that calls it. Lessons
    that take longer than `timeout` seconds are abandoned; their agents go on from the twins as they
    were before. With `inline` there is no thread and no timeout: `teach` learns before it returns.
    Models with a recipe that compute by themselves learn in the `lesson_pool`, if there is one.
    """

    def __init__(
        self,
        models: Mapping[int, LearningModel],
        *,
        stacked: bool,
        threads: int = 1,
        timeout: float | None = None,
        inline: bool = False,
        make_timeline: TimelineMaker = NoTimeline,
        lesson_pool: LessonPool | None = None,
        recipes: Mapping[int, Recipe] | None = None,
    ) -> None:
        self._models = dict(models)
        self.twins = {number: _own_twin(model) for number, model in models.items()}
        self._stacked, self._lesson_pool = stacked, lesson_pool
        self._recipes = dict(recipes or {})
        self._outcomes: Outcomes | None = None
        self.lesson_seconds: float | None = None
        """How long the last lesson took; None without threads, or if a job was abandoned."""
        self._threads = None
        if not inline:
            self._threads = LessonThreads(threads, timeout=timeout, make_timeline=make_timeline)
        self._keeps_spares = timeout is not None and not inline
        self._spares: dict[int, LearningModel] = {}
        self._stack()

    def _stack(self) -> None:
        """Stack the twins as they are now, and have a spare of each if one may be needed."""
        self._stacks = AgentStacks(self.twins, stacked=self._stacked, alone=self._learn_alone)
        if self._keeps_spares:
            for number in self.twins.keys() - self._spares.keys():
                self._spares[number] = self.twins[number].twin()

    @property
    def ready(self) -> bool:
        """Whether it has learned what was not delivered yet."""
        self._fetch()
        return self._outcomes is not None

    @property
    def busy(self) -> bool:
        """Whether it is learning, or has learned what was not delivered yet."""
        return self.ready or (self._threads is not None and self._threads.under_way)

    def teach(self, lessons: Mapping[int, Any], epoch: int) -> None:
        """Have it learn from what was played up to this epoch; not while it is busy."""
        if self.busy:
            raise RuntimeError("the learner has not delivered what it learned before")
        for number in lessons:  # nobody else uses the twins now
            self.twins[number].start_epoch_action(epoch)
        try:
            jobs = [self._undoable(job) for job in self._stacks.jobs(lessons)]
        except Exception as error:  # who waits for them must not wait for ever
            self._outcomes = dict.fromkeys(lessons, Failure.of(error))
            return
        if self._threads is not None:
            self._threads.start(jobs)
        else:
            self._outcomes = {n: outcome for job in jobs for n, outcome in done(job).items()}

    def deliver(self, *, wait: bool = False) -> Outcomes:
        """Give the agents their new weights if these are ready, or when they are.

        What became of each agent that learned; nothing if nothing is ready.
        """
        self._fetch(wait=wait)
        outcomes, self._outcomes = self._outcomes or {}, None
        for number, outcome in outcomes.items():
            if not isinstance(outcome, Failure):
                self._models[number].adopt(self.twins[number])
        return outcomes

    def wait(self) -> Outcomes:
        """Wait until it has learned; what became of each agent, which stays to be delivered."""
        self._fetch(wait=True)
        return self._outcomes or {}

    def wait_a_while(self, seconds: float) -> None:
        """Wait until it has learned, but no longer than so many seconds."""
        if self._threads is not None:
            self._threads.wait_a_while(seconds)

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """What the twins go on from, when the lesson under way is done, and what became of it."""
        learned = self.wait()
        arrays: dict[str, NDArray[Any]] = {}
        values: dict[str, Any] = {"learned": {str(n): _as_json(o) for n, o in learned.items()}}
        values["twins"] = {}
        for number, twin in self.twins.items():
            its_arrays, values["twins"][str(number)] = twin.state()
            arrays |= {f"twin{number}.{name}": array for name, array in its_arrays.items()}
        return arrays, values

    def load_state(self, arrays: Mapping[str, NDArray[Any]], values: Mapping[str, Any]) -> None:
        """Go on from what `state` gave, with what became of the lesson to be delivered."""
        for number, twin in self.twins.items():
            twin.load_state(below(f"twin{number}.", arrays), values["twins"][str(number)])
        self._stack()
        self._outcomes = {int(n): _from_json(v) for n, v in values["learned"].items()} or None

    def change_agents(
        self,
        models: Mapping[int, LearningModel],
        numbers_before: Mapping[int, int],
        recipes: Mapping[int, Recipe],
    ) -> None:
        """Teach these agents from now on; not while it is busy.

        numbers_before: of those that keep their twins, by their numbers now.
        """
        if self.busy:
            raise RuntimeError("the learner has not delivered what it learned before")
        twins, spares = self.twins, self._spares
        kept = {n: numbers_before[n] for n in models if numbers_before.get(n) in twins}
        self.twins = {
            n: twins[kept[n]] if n in kept else _own_twin(model) for n, model in models.items()
        }
        self._spares = {n: spares[before] for n, before in kept.items() if before in spares}
        self._models, self._recipes = dict(models), dict(recipes)
        self._stack()

    def close(self) -> None:
        """Finish the last lesson and end the threads; all goes on working after it."""
        if self._threads is not None:
            self._threads.close()

    def _fetch(self, *, wait: bool = False) -> None:
        """Take what the threads have learned; those they were abandoned with get their spares."""
        if self._threads is None or self._outcomes is not None:
            return
        finished = self._threads.fetch(wait=wait)
        if finished is None:
            return
        for number in finished.abandoned:
            self.twins[number] = self._spares.pop(number)
        if finished.abandoned:
            self._stack()
        self._outcomes = finished.outcomes
        self.lesson_seconds = None if finished.abandoned else self._threads.round_seconds

    def _undoable(self, job: Job) -> Job:
        """The same; before it the spares become what the twins are."""
        pairs = [(self._spares[n], self.twins[n]) for n in job.numbers if self._keeps_spares]
        if not pairs:
            return job

        def learn() -> Outcomes:
            for spare, twin in pairs:
                spare.load_state(*twin.state())
            return job.learn()

        return Job(job.numbers, learn)

    def _learn_alone(self, number: int, twin: LearningModel, lesson: Any) -> Figures:
        if self._lesson_pool is None or number not in self._recipes:
            return twin.learn(lesson)
        return self._lesson_pool.learn(self._recipes[number], twin, lesson)


def _own_twin(model: LearningModel) -> LearningModel:
    """A twin that draws other random numbers than the model, made from where the model's are."""
    twin = model.twin()
    if isinstance(model, DrawsAtRandom) and isinstance(twin, DrawsAtRandom):
        where = hashlib.blake2b(model.generator.get_state().numpy(), digest_size=7)
        twin.generator.manual_seed(int.from_bytes(where.digest()))
    return twin


def _as_json(outcome: Outcome) -> Any:
    return list(outcome) if isinstance(outcome, Failure) else outcome


def _from_json(value: Any) -> Outcome:
    return Failure(*value) if isinstance(value, list) else value
