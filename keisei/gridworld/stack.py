"""`Stack`: models of one architecture that compute at once, each with its own weights.

Who can be stacked says so by a `stack_key`; models whose keys are equal go into one stack.
"""

from __future__ import annotations

import traceback
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from keisei.gridworld.model import AllActions, AllStates, Memory, Model, States

if TYPE_CHECKING:
    from keisei.gridworld.joint_turn import Turn

Figures = dict[str, float]


class Failure(NamedTuple):
    """Learning that went wrong; the weights before it are kept."""

    reason: str
    traceback: str

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """What an exception says."""
        return cls(f"{type(error).__name__}: {error}", "".join(traceback.format_exception(error)))


@runtime_checkable
class LearningModel(Model, Protocol):
    """A model whose learning can be taken apart: what to learn from, learning, taking it over."""

    @property
    def memory(self) -> Memory:
        """Its own memory."""

    def draw_lesson(self, train_steps: int) -> Any:
        """A copy of what so many train steps learn from; None if there is nothing."""

    def learn(self, lesson: Any) -> Figures:
        """Learn from a lesson, of its own or of its twin; if that fails, keep the weights."""

    def twin(self) -> LearningModel:
        """A model of the same kind with weights and moments of its own, equal to these."""

    def adopt(self, other: Any) -> None:
        """Take over the weights of a twin."""

    def stack_key(self) -> Hashable:
        """Equal for models that can be stacked; None for one that cannot."""

    def stack(self, models: Sequence[Any]) -> Stack:
        """These models, of which this is one, as a stack."""


@runtime_checkable
class LendsLessons(Protocol):
    """A model whose lessons are copies that take time, and are gone when they were drawn."""

    def lend_lesson(self, train_steps: int) -> Any:
        """What `draw_lesson` would give, but no copy: good until the memory's next turn."""


@runtime_checkable
class DrawsAtRandom(Protocol):
    """A model with random numbers of its own."""

    @property
    def generator(self) -> Any:
        """A `torch.Generator`."""


class Stack(Protocol):
    """N models that compute together; they are numbered from 0 in the order they were given."""

    def take_actions(self, states: Mapping[int, States]) -> dict[int, NDArray[np.int64]]:
        """What `take_action` of each of these models would give."""

    def take_all_actions(self, states: AllStates) -> AllActions:
        """The same of all models, whose states are given in their order."""

    def remember(self, turn: Turn) -> None:
        """What `memory.add` of each model would do, of one turn of all of them."""

    def shares(self, lessons: Mapping[int, Any], *, workers: int = 1) -> list[dict[int, Any]]:
        """The lessons, in parts that `learn` is fastest with, at least so many if it can be.

        Threads may take different parts.
        """

    def learn(self, lessons: Mapping[int, Any]) -> dict[int, Figures | Failure]:
        """What `learn` of each of these models would do; of one of the `shares`."""
