"""`AgentStacks`: the models of many agents, grouped so that those alike compute at once."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from keisei.gridworld.joint_turn import Turn
from keisei.gridworld.model import AllActions, AllStates, Model, States
from keisei.gridworld.quick_switching import QUICK_SWITCHING
from keisei.gridworld.stack import Failure, Figures, LearningModel, Stack

_LOG = logging.getLogger(__name__)
THREADS_TO_FEED = 2
"""Parts that the lessons of a stack are cut into at least.

The same for any number of threads, so that this number changes no bit of what is learned.
"""
Outcome = Figures | Failure
Outcomes = dict[int, Outcome]
Alone = Callable[[int, Any, Any], Figures]
"""How an agent that computes by itself learns: by its number, its model and its lesson."""


class Job(NamedTuple):
    """What one thread does at once: the lessons of some agents."""

    numbers: tuple[int, ...]
    learn: Callable[[], Outcomes]


def learn_here(number: int, model: Any, lesson: Any) -> Figures:
    """In the thread that asks."""
    figures: Figures = model.learn(lesson)
    return figures


class AgentStacks:
    """Models by the numbers of their agents; each stack holds those of one architecture.

    Agents whose models cannot be stacked, or that are alone of their kind, compute by themselves;
    all do if not `stacked`. alone: how such agents learn.
    """

    def __init__(
        self, models: Mapping[int, Model], *, stacked: bool = True, alone: Alone = learn_here
    ) -> None:
        self._models, self._alone = dict(models), alone
        self._stacks: list[tuple[Stack, list[int]]] = []
        for numbers in _groups(models) if stacked else []:
            first: Any = models[numbers[0]]
            self._stacks.append((first.stack([models[number] for number in numbers]), numbers))
        self._stacked = {number for _, numbers in self._stacks for number in numbers}
        self._single = [number for number in models if number not in self._stacked]
        self._of_all = self._stacks[0][0] if self._is_one_of_all() else None

    def _is_one_of_all(self) -> bool:
        """Whether there is one stack, which holds all models by their numbers."""
        return [numbers for _, numbers in self._stacks] == [list(range(len(self._models)))]

    def take_actions(self, states: Mapping[int, States]) -> dict[int, NDArray[np.int64]]:
        """What each of these agents wants to do; one pass for each stack."""
        actions: dict[int, NDArray[np.int64]] = {}
        for stack, numbers in self._stacks:
            within = {row: states[n] for row, n in enumerate(numbers) if n in states}
            if within:
                chosen = stack.take_actions(within)
                actions |= {numbers[row]: chosen[row] for row in chosen}
        for number in self._single:
            if number in states:
                actions[number] = self._models[number].take_action(states[number])
        return actions

    def take_all_actions(self, states: AllStates) -> AllActions:
        """What all agents want to do, who are numbered from 0."""
        if self._of_all is not None:
            return self._of_all.take_all_actions(states)
        actions = self.take_actions(dict(enumerate(states)))
        return [actions[number] for number in range(len(actions))]

    def remember(self, turn: Turn) -> None:
        """Have all agents remember one turn, each what it did itself; one call for each stack."""
        if self._of_all is not None:
            self._of_all.remember(turn)
            return
        for stack, numbers in self._stacks:
            stack.remember(turn.of(numbers))
        for number in self._single:
            its_turn: list[Any] = [part[number] for part in turn]
            self._models[number].memory.add(*its_turn)

    def learn(
        self, lessons: Mapping[int, Any], pool: Executor | None = None, *, stacked: bool = True
    ) -> Outcomes:
        """Have these agents learn, here and in the pool's threads; what became of each.

        stacked: those in a stack learn together, else one by one.
        """
        waiting = deque(self.jobs(lessons, stacked=stacked))

        def work() -> Outcomes:
            """Do what nobody else does, until there is nothing left."""
            outcomes: Outcomes = {}
            while True:
                try:
                    job = waiting.popleft()
                except IndexError:
                    return outcomes
                outcomes |= job.learn()

        if pool is None or len(waiting) < 2:
            return work()
        with QUICK_SWITCHING:
            # This thread does not wait for others to wake up: with small networks that is a third
            # of the time.
            others = [pool.submit(work) for _ in range(len(waiting) - 1)]
            outcomes = work()
            for other in others:
                outcomes |= other.result()
        return outcomes

    def jobs(self, lessons: Mapping[int, Any], *, stacked: bool = True) -> list[Job]:
        """What has to be done for these agents to learn; threads may take different jobs."""
        together = {n: lessons[n] for n in lessons if stacked and n in self._stacked}
        alone = {n: lessons[n] for n in lessons if n not in together}
        return [*self._stacked_jobs(together), *self._single_jobs(alone)]

    def _stacked_jobs(self, lessons: Mapping[int, Any]) -> list[Job]:
        jobs = []
        for stack, numbers in self._stacks:
            within = {row: lessons[n] for row, n in enumerate(numbers) if n in lessons}
            for share in stack.shares(within, workers=THREADS_TO_FEED):
                if len(share) == 1:
                    jobs += self._single_jobs({numbers[row]: share[row] for row in share})
                else:
                    jobs.append(self._stacked_job(stack, numbers, share))
        return jobs

    def _stacked_job(self, stack: Stack, numbers: Sequence[int], share: Mapping[int, Any]) -> Job:
        """Those of a share learn together; if that fails, each by itself: one is to blame."""

        def learn() -> Outcomes:
            try:
                return {numbers[row]: outcome for row, outcome in stack.learn(share).items()}
            except Exception:
                _LOG.warning("learning together failed; each by itself instead", exc_info=True)
                alone = self._single_jobs({numbers[row]: share[row] for row in share})
                return {number: outcome for job in alone for number, outcome in job.learn().items()}

        return Job(tuple(numbers[row] for row in share), learn)

    def _single_jobs(self, lessons: Mapping[int, Any]) -> list[Job]:
        return [self._single_job(number, lesson) for number, lesson in lessons.items()]

    def _single_job(self, number: int, lesson: Any) -> Job:
        model = self._models[number]

        def learn() -> Outcomes:
            try:
                return {number: self._alone(number, model, lesson)}
            except Exception as error:  # one agent's fault is not another's
                return {number: Failure.of(error)}

        return Job((number,), learn)


def _groups(models: Mapping[int, Model]) -> list[list[int]]:
    """The agents of each architecture that has more than one."""
    by_key: dict[Any, list[int]] = {}
    for number, model in models.items():
        key = model.stack_key() if isinstance(model, LearningModel) else None
        if key is not None:
            by_key.setdefault(key, []).append(number)
    return [numbers for numbers in by_key.values() if len(numbers) > 1]
