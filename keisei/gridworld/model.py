"""What an agent decides with: the `Model` protocol, and models that do not learn.

A model belongs to one agent. It sees that agent's observations in all B copies of the world at
once, and nothing of any other agent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

States = NDArray[np.float32]
"""[B, ...] what an agent observes in each copy of the world."""
AllStates = Sequence[States] | NDArray[np.float32]
"""[N] what each agent observes, [B, ...]; one array [N, B, ...] where they observe together."""
AllActions = Sequence[NDArray[np.int64]] | NDArray[np.int64]
"""[N] what each agent wants to do, [B]; one array [N, B] where they decide together."""


class Memory(Protocol):
    """Where a model keeps what its agent has lived through."""

    def add(
        self,
        states: States,
        actions: NDArray[np.int64],
        rewards: NDArray[np.float32],
        dones: NDArray[np.bool_],
        active: NDArray[np.bool_],
    ) -> None:
        """Store one turn of B copies, each array [B, ...].

        dones: the episode ended with this turn. active: copies in which the agent acted; in the
        others its episode had ended before, and there is nothing to store.
        """

    def __len__(self) -> int:
        """How many turns of an agent in a copy are stored."""


class Model(Protocol):
    """What an agent decides with, and may learn with."""

    @property
    def memory(self) -> Memory:
        """Its own memory."""

    def take_action(self, states: States) -> NDArray[np.int64]:
        """[B] the action chosen for each of `states` [B, ...]."""

    def train_step(self) -> dict[str, float]:
        """Learn from the memory once; figures such as the loss, none if there was nothing to do."""

    def start_epoch_action(self, epoch: int) -> None:
        """Called before each epoch, which is numbered from 0; the worlds have been reset."""

    def end_epoch_action(self, epoch: int) -> None:
        """Called after each epoch, before training."""

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """All that the model goes on from, between two epochs: arrays by name, and JSON."""

    def load_state(self, arrays: Mapping[str, NDArray[Any]], values: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""


class ModelMaker(Protocol):
    """Makes the model of each agent; games call it in `setup_agents`."""

    def __call__(
        self, observation_shape: tuple[int, ...], actions: int, *, copies: int, seed: int
    ) -> Model:
        """A model for observations of this shape and action numbers below `actions`."""


class NoMemory:
    """The memory of a model that does not learn."""

    def add(
        self,
        states: States,
        actions: NDArray[np.int64],
        rewards: NDArray[np.float32],
        dones: NDArray[np.bool_],
        active: NDArray[np.bool_],
    ) -> None:
        """Forget it."""

    def __len__(self) -> int:
        return 0


class FixedModel:
    """The parts of a model that does not learn; what is left to write is `take_action`."""

    def __init__(self) -> None:
        self.memory = NoMemory()

    def train_step(self) -> dict[str, float]:
        """Nothing to learn."""
        return {}

    def start_epoch_action(self, epoch: int) -> None:
        """Nothing to prepare."""

    def end_epoch_action(self, epoch: int) -> None:
        """Nothing to finish."""

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Nothing to keep."""
        return {}, {}

    def load_state(self, arrays: Mapping[str, NDArray[Any]], values: Mapping[str, Any]) -> None:
        """Nothing was kept."""


class RandomModel(FixedModel):
    """Takes every action with the same probability."""

    def __init__(
        self, observation_shape: tuple[int, ...], actions: int, *, copies: int, seed: int
    ) -> None:
        super().__init__()
        self._actions = actions
        self._random = np.random.default_rng(seed)

    def take_action(self, states: States) -> NDArray[np.int64]:
        """[B] random actions."""
        return self._random.integers(0, self._actions, len(states))

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Where the random stream is."""
        return {}, {"random": self._random.bit_generator.state}

    def load_state(self, arrays: Mapping[str, NDArray[Any]], values: Mapping[str, Any]) -> None:
        """Go on with the same random stream."""
        self._random.bit_generator.state = values["random"]


class ScriptedModel(FixedModel):
    """Follows a rule that you write: a function from observations [B, ...] to actions [B]."""

    def __init__(self, rule: Callable[[States], NDArray[np.int64]]) -> None:
        super().__init__()
        self._rule = rule

    def take_action(self, states: States) -> NDArray[np.int64]:
        """[B] what the rule says."""
        return np.asarray(self._rule(states), np.int64)


class HumanPlayer(FixedModel):
    """Asks a person for each action, by its number or by its name.

    `ask` gets a question and gives the answer, as `input` does; `show` is called before it, to
    print the world for instance.
    """

    def __init__(
        self,
        names: list[str],
        *,
        ask: Callable[[str], str] = input,
        show: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__()
        self._names, self._ask, self._show = names, ask, show

    def take_action(self, states: States) -> NDArray[np.int64]:
        """[B] the person's answer for each copy, which is one as a rule."""
        return np.array([self._one_action() for _ in states], np.int64)

    def _one_action(self) -> int:
        self._show()
        choices = ", ".join(f"{number} {name}" for number, name in enumerate(self._names))
        while True:
            answer = self._ask(f"action ({choices}): ").strip().lower()
            if answer in self._names:
                return self._names.index(answer)
            if answer.isdecimal() and int(answer) < len(self._names):
                return int(answer)
