"""`ParallelEnvironment`: agents that act together, learn together, and learn while they act.

Nothing is shared: every agent keeps its own network, memory, optimizer and random numbers. The
speed comes from doing the same work at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keisei.gridworld.agent import Agent
from keisei.gridworld.agent_stacks import AgentStacks, Outcome, Outcomes
from keisei.gridworld.async_learner import AsyncLearner
from keisei.gridworld.environment import Environment
from keisei.gridworld.errors import WorldError
from keisei.gridworld.game import EpochResult
from keisei.gridworld.model import States
from keisei.gridworld.parallel_settings import ParallelSettings
from keisei.gridworld.spans import NoTimeline, TimelineLike, TimelineMaker
from keisei.gridworld.stack import Failure, Figures, LearningModel
from keisei.prefixed_names import below

_LOG = logging.getLogger(__name__)
_LONGEST_REST = 64
"""Epochs that an agent whose training fails again and again rests at most."""


class ParallelEnvironment(Environment):
    """What a game becomes with `in_parallel`; `parallel` says what is done at the same time.

    on_news: told, with the traceback, when the training of an agent fails.
    """

    def __init__(
        self,
        *arguments: Any,
        parallel: ParallelSettings | None = None,
        on_news: Callable[[str], None] = _LOG.warning,
        **settings: Any,
    ) -> None:
        self.parallel = parallel or ParallelSettings()
        together = self.parallel.wants("parallel_actions")
        if together and settings.setdefault("observe", "together") != "together":
            raise WorldError(
                "parallel_actions needs observe: together, where all look before any acts."
            )
        self._timeline: TimelineLike = NoTimeline("environment")
        self._make_timeline: TimelineMaker = NoTimeline
        super().__init__(*arguments, **settings)
        self.on_news = on_news
        self.failures = [0 for _ in self.agents]
        """[N] how often in a row the training of each agent has failed."""
        self._rests_until = [0 for _ in self.agents]
        self._pool = self._make_pool()
        self._learner: AsyncLearner | None = None
        self._figures: list[dict[str, float]] = [{} for _ in self.agents]
        self._learned_epoch = [0 for _ in self.agents]
        self._taught_epoch = 0
        self._owed_epochs = self._owed_steps = 0
        self.collected_steps = self.learned_steps = 0
        """Agent-steps that were collected for a learner beside, and that it learned from."""
        self._make_stacks()

    def _make_pool(self) -> ThreadPoolExecutor | None:
        parallel = self.parallel
        threads = parallel.threads if parallel.wants("parallel_training") else 1
        return ThreadPoolExecutor(threads, "training") if threads > 1 else None

    def _make_stacks(self) -> None:
        """Stack the models as they are now: to be called when they have been loaded."""
        models = {agent.number: agent.model for agent in self.agents}
        switches = ("parallel_actions", "parallel_training")
        self._stacks = AgentStacks(models, stacked=any(map(self.parallel.wants, switches)))

    def __enter__(self) -> ParallelEnvironment:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Finish the last lesson, give the agents what they learned, and end all threads."""
        self._end_learner()
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def _end_learner(self) -> None:
        learner, self._learner = self._learner, None
        if learner is not None:
            learner.close()
            self._take_over(learner.deliver())

    def trace_with(self, timeline: TimelineLike, make_timeline: TimelineMaker) -> None:
        """Write to this timeline, which is not closed here, and one of the learner's thread."""
        self._timeline, self._make_timeline = timeline, make_timeline

    # Acting

    def decide(self, states: list[States]) -> list[NDArray[np.int64]]:
        """What each agent wants to do: in one pass for all that can act and are alike."""
        idle = np.zeros(self.world.copies, np.int64)
        asked = [agent for agent in self.agents if self.active[agent.number].any()]
        together = {}
        if self.parallel.wants("parallel_actions"):
            together = {a.number: states[a.number] for a in asked if _asks_its_model(a)}
        actions = self._stacks.take_actions(together)
        for agent in asked:
            if agent.number not in actions:
                actions[agent.number] = agent.get_action(states[agent.number])
        return [actions.get(agent.number, idle) for agent in self.agents]

    def begin_turn(self) -> None:
        """As in any game; weights that have become ready are taken up first."""
        if self._learner is not None and not self.parallel.repeatable:
            self._take_over(self._learner.deliver())
        super().begin_turn()

    # Learning

    def train(self, train_steps: int) -> list[dict[str, float]]:
        """Have the agents that are due learn, here or beside; the newest figures of each."""
        if not self.parallel.enabled:
            return super().train(train_steps)
        if self.parallel.async_learning:
            self._teach_beside(train_steps)
        else:
            with self._timeline.span("learn"):
                lessons, stacked = self._draw_lessons(train_steps), self.parallel.parallel_training
                self._taught_epoch = self.epoch
                self._take_over(self._stacks.learn(lessons, self._pool, stacked=stacked))
            self._train_others(train_steps)
        return [
            {**figures, "staleness": float(self._staleness(number))} if figures else {}
            for number, figures in enumerate(self._figures)
        ]

    def _staleness(self, number: int) -> int:
        """How many epochs old what the agent's weights have learned from is."""
        return self.epoch - self._learned_epoch[number]

    def _draw_lessons(self, train_steps: int) -> dict[int, Any]:
        """What the agents that are due learn from."""
        lessons = {}
        for agent in self.agents:
            model, number = agent.model, agent.number
            if not isinstance(model, LearningModel):
                continue
            try:
                lesson = model.draw_lesson(train_steps)
            except Exception as error:
                if not self._rests(number):
                    self._rest(number, Failure.of(error), self.epoch + 1)
                continue
            if lesson is not None and not self._rests(number):
                lessons[number] = lesson
        return lessons

    def _rests(self, number: int) -> bool:
        """Whether an agent is left alone because its training has failed."""
        return self.epoch < self._rests_until[number]

    def _teach_beside(self, train_steps: int) -> None:
        """Hand over the next lessons, if it is time and the learner has done the last ones."""
        learner = self._get_learner()
        self._train_others(train_steps)
        self._take_over(learner.deliver(wait=self.parallel.repeatable))
        self._owed_epochs += 1
        self._owed_steps += self.steps
        self.collected_steps += self.steps
        if self._owed_epochs >= self.parallel.train_interval and not learner.busy:
            self._teach(learner, train_steps)
        elif self._owed_epochs >= self.parallel.backlog:
            self._draw_lessons(train_steps)
            self._owed_epochs = self._owed_steps = 0

    def _teach(self, learner: AsyncLearner, train_steps: int) -> None:
        """Hand over all that was collected since the last lesson."""
        with self._timeline.span("snapshot"):
            lessons = self._draw_lessons(train_steps * self._owed_epochs)
        self._taught_epoch = self.epoch
        if lessons:
            learner.teach(lessons, self.epoch)
            self.learned_steps += self._owed_steps
        self._owed_epochs = self._owed_steps = 0

    def finish_lessons(self, train_steps: int = 1) -> None:
        """Wait until all that was collected is learned, and give the agents what they learned."""
        learner = self._learner
        if learner is None:
            return
        self._take_over(learner.deliver(wait=True))
        if self._owed_epochs:
            self._teach(learner, train_steps)
            self._take_over(learner.deliver(wait=True))

    def _get_learner(self) -> AsyncLearner:
        if self._learner is None:
            learning = {
                agent.number: agent.model
                for agent in self.agents
                if isinstance(agent.model, LearningModel)
            }
            self._learner = AsyncLearner(
                learning,
                stacked=self.parallel.parallel_training,
                pool=self._pool,
                inline=self.parallel.debug_serial,
                make_timeline=self._make_timeline,
            )
        return self._learner

    def _train_others(self, train_steps: int) -> None:
        """Train the models whose learning cannot be taken apart, one after the other."""
        for agent in self.agents:
            number = agent.number
            if isinstance(agent.model, LearningModel) or self._rests(number):
                continue
            figures: Figures = {}
            try:
                for _ in range(train_steps):
                    figures = agent.model.train_step() or figures
            except Exception as error:
                self._rest(number, Failure.of(error), self.epoch + 1)
                continue
            if figures:
                self._note_lesson(number, figures, self.epoch)

    def _take_over(self, outcomes: Outcomes) -> None:
        """Note what became of each agent's lesson."""
        for number, outcome in outcomes.items():
            if isinstance(outcome, Failure):
                self._rest(number, outcome, max(self._taught_epoch + 1, self.epoch))
            else:
                self._note_lesson(number, outcome, self._taught_epoch)

    def _note_lesson(self, number: int, figures: Figures, epoch: int) -> None:
        """Note that an agent has learned from what was played up to this epoch."""
        self.failures[number] = 0
        self._figures[number] = figures
        self._learned_epoch[number] = epoch

    def _rest(self, number: int, failure: Failure, from_epoch: int) -> None:
        """Leave an agent's training alone for a while, twice as long each time in a row."""
        self.failures[number] += 1
        rest = min(2 ** (self.failures[number] - 1), _LONGEST_REST)
        self._rests_until[number] = from_epoch + rest
        self.on_news(
            f"The training of agent {number} failed ({failure.reason}): it keeps its weights and "
            f"rests, {rest} epoch{'s' * (rest > 1)} long.\n{failure.traceback}".rstrip()
        )

    def run_experiment_parallel(
        self,
        epochs: int,
        *,
        train_steps: int = 1,
        log: Callable[[EpochResult], None] | None = None,
        watch: Callable[[Any], None] | None = None,
    ) -> list[EpochResult]:
        """Run so many epochs more, and finish the last lesson before it returns."""
        results = self.run_experiment(epochs, train_steps=train_steps, log=log, watch=watch)
        self.finish_lessons(train_steps)
        return results

    # Going on later

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """As of any game; the learner's weights too, when it has done the lesson it is at."""
        arrays, values = super().state()
        values["failures"], values["rests_until"] = list(self.failures), list(self._rests_until)
        values["learned_epoch"] = list(self._learned_epoch)
        values["taught_epoch"], values["figures"] = self._taught_epoch, list(self._figures)
        values["owed"] = [self._owed_epochs, self._owed_steps]
        values["counted"] = [self.collected_steps, self.learned_steps]
        if self._learner is not None:
            learned = self._learner.wait()
            values["learned"] = {str(n): _as_json(outcome) for n, outcome in learned.items()}
            for number, twin in self._learner.twins.items():
                its_arrays, its_values = twin.state()
                arrays |= {f"twin{number}.{name}": array for name, array in its_arrays.items()}
                values.setdefault("twins", {})[str(number)] = its_values
        return arrays, values

    def load_state(self, arrays: Mapping[str, NDArray[Any]], values: Mapping[str, Any]) -> None:
        """Go on from what `state` gave, in a game set up alike."""
        super().load_state(arrays, values)
        if self._learner is not None:  # what it is at belongs to another run
            self._learner.close()
            self._learner = None
        self._make_stacks()
        if "failures" in values:  # else it is the state of a plain game
            self._load_lessons(arrays, values)

    def _load_lessons(self, arrays: Mapping[str, NDArray[Any]], values: Mapping[str, Any]) -> None:
        """Go on where the learning was."""
        self.failures, self._rests_until = list(values["failures"]), list(values["rests_until"])
        self._learned_epoch = list(values["learned_epoch"])
        self._taught_epoch, self._figures = values["taught_epoch"], list(values["figures"])
        self._owed_epochs, self._owed_steps = values["owed"]
        self.collected_steps, self.learned_steps = values["counted"]
        if "twins" not in values:
            return
        learner = self._get_learner()
        for number, twin in learner.twins.items():
            twin.load_state(below(f"twin{number}.", arrays), values["twins"][str(number)])
        learner.go_on_from({int(n): _from_json(value) for n, value in values["learned"].items()})
        if not self.parallel.wants("async_learning"):
            self._end_learner()


def in_parallel(game: type[Environment]) -> type[ParallelEnvironment]:
    """The same game as a `ParallelEnvironment`, with `parallel` among its arguments."""
    return type(f"Parallel{game.__name__}", (ParallelEnvironment, game), {})


def _as_json(outcome: Outcome) -> Any:
    return list(outcome) if isinstance(outcome, Failure) else outcome


def _from_json(value: Any) -> Outcome:
    return Failure(*value) if isinstance(value, list) else value


def _asks_its_model(agent: Agent) -> bool:
    """Whether what it does is what its model says, no more and no less."""
    return type(agent).get_action is Agent.get_action
