"""`ParallelEnvironment`: agents that act together, learn together, and learn while they act.

Nothing is shared: every agent keeps its own network, memory, optimizer and random numbers. The
speed comes from doing the same work at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keisei.gridworld.agent import UNNUMBERED, Agent
from keisei.gridworld.cells import Cells
from keisei.gridworld.environment import Environment
from keisei.gridworld.errors import WorldError
from keisei.gridworld.game import EpochResult
from keisei.gridworld.joint_turn import JointTurn
from keisei.gridworld.model import AllActions, AllStates, Model
from keisei.gridworld.parallel_lessons import ParallelLessons
from keisei.gridworld.parallel_pace import EpochPace
from keisei.gridworld.parallel_pauses import Pauses
from keisei.gridworld.parallel_pool import LessonPool, Recipe
from keisei.gridworld.parallel_settings import ParallelSettings
from keisei.gridworld.spans import TimelineLike, TimelineMaker

_LOG = logging.getLogger(__name__)


class ParallelEnvironment(Environment):
    """What a game becomes with `in_parallel`; `parallel` says what is done at the same time.

    on_news: told, with the traceback, when the training of an agent fails. lesson_pool: processes
    in which models that cannot be stacked learn, and which `close` ends.
    """

    def __init__(
        self,
        *arguments: Any,
        parallel: ParallelSettings | None = None,
        on_news: Callable[[str], None] = _LOG.warning,
        lesson_pool: LessonPool | None = None,
        **settings: Any,
    ) -> None:
        self.parallel = parallel or ParallelSettings()
        together = self.parallel.wants("parallel_actions")
        if together and settings.setdefault("observe", "together") != "together":
            raise WorldError(
                "parallel_actions needs observe: together, where all look before any acts."
            )
        self._made: list[tuple[Model, Recipe]] = []
        super().__init__(*arguments, **settings)
        self._joint = JointTurn(self)
        self.on_news = on_news
        self._agent_steps = np.zeros(len(self.agents), np.int64)
        self._turns_before = self.max_turns  # of the last epoch
        self.lessons = ParallelLessons(
            [agent.model for agent in self.agents],
            self.parallel,
            tell=self._tell,
            recipes=self._recipes(),
            lesson_pool=lesson_pool,
        )

    def _tell(self, text: str) -> None:
        self.on_news(text)  # as it is now: a run sets another

    def new_model(self, spec: Any, actions: int) -> Model:
        """As in any game; how it was made is kept, for a process to make another."""
        model = super().new_model(spec, actions)
        seed = self._models_made  # any: what it goes on from is loaded
        recipe = partial(
            self._make_model, tuple(spec.shape), actions, copies=self.world.copies, seed=seed
        )
        self._made.append((model, recipe))
        return model

    def _recipes(self) -> dict[int, Recipe]:
        """By the numbers of the agents."""
        return {
            agent.number: recipe
            for agent in self.agents
            for model, recipe in self._made
            if model is agent.model
        }

    def __enter__(self) -> ParallelEnvironment:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Finish the last lesson, give the agents what they learned, and end all threads.

        Lessons that hang are waited for as long as `lesson_timeout` says, each. More epochs can be
        run: twins and their moments are kept.
        """
        self.lessons.close(self.epoch)

    def trace_with(self, timeline: TimelineLike, make_timeline: TimelineMaker) -> None:
        """Write to this timeline, which is not closed here, and one of each learner's thread."""
        self.lessons.pauses.timeline, self.lessons.make_timeline = timeline, make_timeline

    # What there is to know

    @property
    def failures(self) -> list[int]:
        """[N] how often in a row the training of each agent has failed."""
        return [record.failures for record in self.lessons.records]

    @property
    def collected_steps(self) -> int:
        """Agent-steps that were collected for a learner beside."""
        return self.lessons.collected_steps

    @property
    def learned_steps(self) -> int:
        """Agent-steps that a learner beside has learned from."""
        return self.lessons.learned_steps

    @property
    def pauses(self) -> Pauses:
        """How long the collection stood still for the learner beside it."""
        return self.lessons.pauses

    def counts(self) -> dict[str, float]:
        """As of any game; with a learner beside also how long it held up the collection."""
        return {**super().counts(), **self.pauses.figures()}

    # Acting

    def play_epoch(self, watch: Callable[[Any], None] | None = None) -> None:
        """As in any game. A learner beside is made before there are memories to copy."""
        if self.parallel.wants("async_learning"):
            self.lessons.get_learner()
            self.lessons.begin_epoch()
        super().play_epoch(watch)
        self._turns_before = max(self.turns(), 1)

    def reset(self) -> None:
        """Set the world up anew, and the agents in it."""
        super().reset()
        self._agent_steps = np.zeros(len(self.agents), np.int64)

    def look(self) -> AllStates:
        """What each agent observes now: in one call for those that look alike."""
        return self._joint.look() if self.parallel.wants("parallel_actions") else super().look()

    def decide(self, states: AllStates) -> AllActions:
        """What each agent wants to do: in one pass for all that can act and are alike."""
        if not self.parallel.wants("parallel_actions"):
            return super().decide(states)
        goes_on: NDArray[np.bool_] = np.asarray(self.active.any(axis=1))
        stacks, asking = self.lessons.stacks, self._joint.asking
        if len(asking) == len(self.agents) and goes_on.all():
            return stacks.take_all_actions(states)
        actions = stacks.take_actions({n: states[n] for n in asking if goes_on[n]})
        for agent in self.agents:
            if goes_on[agent.number] and agent.number not in actions:
                actions[agent.number] = agent.get_action(states[agent.number])
        idle = np.zeros(self.world.copies, np.int64)
        return [actions.get(agent.number, idle) for agent in self.agents]

    def carry_out(self, states: AllStates, actions: AllActions) -> None:
        """Have all agents act, in their order: in one call where all that they do is to walk."""
        if self.parallel.wants("parallel_actions") and self._joint.can_walk():
            self.lessons.stacks.remember(self._joint.walk(states, actions))
        else:
            super().carry_out(states, actions)

    def begin_turn(self) -> None:
        """As in any game; weights that have become ready are taken up first, or waited for."""
        self.lessons.begin_turn(self.epoch, self.turns() / self._turns_before)
        self._agent_steps += np.add.reduce(self.active, axis=1, dtype=np.int64)
        super().begin_turn()

    # Learning

    def train(self, train_steps: int) -> list[dict[str, float]]:
        """Have the agents that are due learn, here or beside; the newest figures of each."""
        if not self.parallel.enabled:
            return super().train(train_steps)
        return self.lessons.train(self.epoch, train_steps, self._steps_by_agent())

    def _steps_by_agent(self) -> list[int]:
        """[N] of this epoch. Of one that was played elsewhere only the sum is known."""
        if self._agent_steps.sum() == self.steps:
            return [int(steps) for steps in self._agent_steps]
        share, rest = divmod(self.steps, len(self.agents))
        return [share + (number < rest) for number in range(len(self.agents))]

    def take_up_lessons(self) -> None:
        """Give the agents what was learned beside, at the end of an epoch; `train` does it too."""
        self.lessons.take_over_at_end(self.epoch)

    def next_pace(self) -> EpochPace:
        """How slowly the next epoch is to be played where that is done elsewhere."""
        return self.lessons.next_pace()

    def finish_lessons(self, train_steps: int = 1) -> None:
        """Wait until all that was collected is learned, and give the agents what they learned."""
        self.lessons.finish(self.epoch, train_steps)

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

    # Coming and going

    def add_agent(self, agent: Agent, where: Cells | None = None) -> None:
        """Have one more agent, the last in order; between two turns or epochs.

        where: at most one cell of each copy, where it begins at once. Else, and in other copies, it
        begins with the next epoch.
        """
        if agent.number != UNNUMBERED:
            raise WorldError(f"This agent is in a game already, as agent {agent.number}.")
        self._change_agents([*self.agents, agent])
        self.active[agent.number] = False
        agent.reset()
        if where is not None:
            agent.put(self.world, where)
            self.active[agent.number, where.copies] = True
            agent.model.start_epoch_action(self.epoch)

    def remove_agent(self, number: int) -> Agent:
        """Take an agent out of the game, between two turns or epochs; those behind it move up.

        What it was learning is finished first.
        """
        if not 0 <= number < len(self.agents):
            raise WorldError(f"There is no agent {number}: there are 0 to {len(self.agents) - 1}.")
        if len(self.agents) == 1:
            raise WorldError("A game has at least one agent: the last one cannot be removed.")
        agent = self.agents[number]
        agent.leave(self.world, np.arange(self.world.copies))
        self._change_agents([*self.agents[:number], *self.agents[number + 1 :]])
        agent.number = UNNUMBERED
        return agent

    def _change_agents(self, agents: Sequence[Agent]) -> None:
        """Number these agents, with all that is kept of those who were there before."""
        before = {now: a.number for now, a in enumerate(agents) if a.number != UNNUMBERED}
        places, shape = self.world.agents, (len(agents), self.world.copies)
        try:
            self.agents = self._numbered(list(agents))
        except WorldError:
            self.world.agents = places
            for number, agent in enumerate(agents):
                agent.number = before.get(number, UNNUMBERED)
            raise
        now, then = list(before), list(before.values())
        for name in ("rows", "columns", "facing", "present"):
            getattr(self.world.agents, name)[now] = getattr(places, name)[then]
        rewards, active, steps = self.rewards, self.active, self._agent_steps
        self.rewards, self.active = np.zeros(shape), np.zeros(shape, np.bool_)
        self._agent_steps = np.zeros(len(agents), np.int64)
        self.rewards[now], self.active[now], self._agent_steps[now] = (
            rewards[then],
            active[then],
            steps[then],
        )
        self._joint = JointTurn(self)
        models = [agent.model for agent in self.agents]
        self._made = [made for made in self._made if any(made[0] is model for model in models)]
        self.lessons.change_agents(models, before, self._recipes(), self.epoch)

    # Going on later

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """As of any game; the learner's weights too, when it has done the lesson it is at."""
        arrays, values = super().state()
        its_arrays, its_values = self.lessons.state()
        return {**arrays, **its_arrays}, {**values, **its_values}

    def load_state(self, arrays: Mapping[str, NDArray[Any]], values: Mapping[str, Any]) -> None:
        """Go on from what `state` gave, in a game set up alike."""
        super().load_state(arrays, values)
        self.lessons.load_state(arrays, values, self.epoch)


def in_parallel(game: type[Environment]) -> type[ParallelEnvironment]:
    """The same game as a `ParallelEnvironment`, with `parallel` among its arguments."""
    return type(f"Parallel{game.__name__}", (ParallelEnvironment, game), {})
