"""`RolloutMemory`: the turns since the last update, with what the policy said of them.

| array | type | |
|---|---|---|
| states | float32 [T, B, F * S] | the last F observations of the episode, the newest last |
| actions | int64 [T, B] | what was done |
| log_probs | float32 [T, B] | its log-probability |
| values | float32 [T, B] | the network's value of the state |
| rewards | float32 [T, B] | what it brought |
| dones, active, starts | bool [T, B] | as in the replay `Buffer` |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keisei.core.turn_parts import TurnArrays, most_turns, place_parts

_FIRST_TURNS = 128
TURNS, EXPECTS, LEFT = range(3)
"""Of a memory's `counts`: turns that are stored; 1 if one was announced that was not added yet; 1
if the memory has left the arrays that these counts lie among."""


class RolloutMemory:
    """Rows of B copies, as many as there are turns; the memory grows where they do not fit.

    What the policy said of a turn is announced by `expect` before the turn is added; it waits in
    the turn's row.
    """

    states: NDArray[np.float32]
    actions: NDArray[np.int64]
    log_probs: NDArray[np.float32]
    values: NDArray[np.float32]
    rewards: NDArray[np.float32]
    dones: NDArray[np.bool_]
    active: NDArray[np.bool_]
    starts: NDArray[np.bool_]

    def __init__(
        self, observation_shape: tuple[int, ...], *, copies: int, n_frames: int = 1
    ) -> None:
        size = prod(observation_shape)
        self._layout: dict[str, tuple[type[np.generic], tuple[int, ...]]] = {
            "states": (np.float32, (copies, n_frames * size)),
            "actions": (np.int64, (copies,)),
            "log_probs": (np.float32, (copies,)),
            "values": (np.float32, (copies,)),
            "rewards": (np.float32, (copies,)),
            "dones": (np.bool_, (copies,)),
            "active": (np.bool_, (copies,)),
            "starts": (np.bool_, (copies,)),
        }
        for name, (kind, shape) in self._layout.items():
            setattr(self, name, np.zeros((_FIRST_TURNS, *shape), kind))
        self._earlier = np.zeros((copies, (n_frames - 1) * size), np.float32)
        self._fresh = np.ones(copies, np.bool_)  # an episode begins with the copy's next turn
        self._counts = np.zeros(3, np.int64)
        self._size = size
        self.version = self.first_version = 0
        """Of the weights that play now, and of those that played the first turn stored."""

    @property
    def turns(self) -> int:
        """How many are stored."""
        return int(self._counts[TURNS])

    def clear(self) -> None:
        """Forget what is stored; episodes and their frames go on."""
        self._count(0)

    def _count(self, turns: int) -> None:
        """So many turns are stored now, and none is announced."""
        self._counts[TURNS], self._counts[EXPECTS] = turns, 0

    def start_episodes(self) -> None:
        """Begin an episode with the next turn of every copy, whether the last one ended or not."""
        self._fresh[:] = True
        self._earlier[:] = 0

    def __len__(self) -> int:
        """Turns of an agent in a copy that are stored: the active ones."""
        return int(np.count_nonzero(self.active[: self.turns]))

    def current_state(self, states: NDArray[Any]) -> NDArray[np.float32]:
        """[B, F * S] the states that the new observations `states` [B, ...] make."""
        flat = np.ascontiguousarray(states.reshape(len(states), -1), np.float32)
        if self._earlier.shape[1] == 0:
            return flat
        return np.concatenate([self._earlier, flat], axis=1)

    def expect(
        self,
        stacked: NDArray[np.float32],
        log_probs: NDArray[np.float32],
        values: NDArray[np.float32],
    ) -> None:
        """Announce what the policy said of the turn that will be added.

        stacked [B, F * S]: its states of `current_state`; log_probs [B] of the actions chosen.
        Where B is not the number of copies, no turn of them can be added.
        """
        row, fits = self.turns, len(stacked) == len(self._fresh)
        self._counts[EXPECTS] = fits
        if not fits:
            return
        if row == len(self.actions):
            self.grow()
        self.states[row], self.log_probs[row], self.values[row] = stacked, log_probs, values

    def add(
        self,
        states: NDArray[Any],
        actions: NDArray[np.int64],
        rewards: NDArray[np.float32],
        dones: NDArray[np.bool_],
        active: NDArray[np.bool_],
    ) -> None:
        """Store one turn of B copies, each array [B, ...], and what was announced of it."""
        if not self._counts[EXPECTS]:
            raise RuntimeError(
                "a turn was added for which the model was not asked: call take_action before each"
            )
        row = self.turns
        self.actions[row], self.rewards[row] = actions, rewards
        self.dones[row], self.active[row] = dones, active
        inactive = np.logical_not(active)
        np.logical_or(self._fresh, inactive, out=self.starts[row])
        np.logical_or(dones, inactive, out=self._fresh)
        if self._earlier.shape[1]:
            self._earlier[:] = self.states[row, :, self._size :]
            self._earlier[self._fresh] = 0
        if row == 0:
            self.note_version()
        self._count(row + 1)

    def note_version(self) -> None:
        """The first turn stored is played by the weights of now."""
        self.first_version = self.version

    def stored_turns(self) -> dict[str, NDArray[Any]]:
        """What is stored, [T, B, ...] by name, the oldest first; views."""
        return {name: getattr(self, name)[: self.turns] for name in self._layout}

    def add_turns(self, parts: Sequence[TurnArrays]) -> None:
        """Store turns of all copies, given as parts whose copies follow each other."""
        rows = slice(self.turns, self.turns + most_turns(parts))
        if rows.start == 0:
            self.note_version()
        while rows.stop > len(self.actions):
            self.grow()
        for name in self._layout:
            place_parts(name, parts, getattr(self, name)[rows])
        self._count(rows.stop)

    def grow(self) -> None:
        """Make room for twice as many turns."""
        self._counts[LEFT] = 1
        for name in self._layout:
            array = getattr(self, name)
            setattr(self, name, np.concatenate([array, np.zeros_like(array)]))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All there is room for, [T, B, ...] by name; `fresh` and `earlier`, [B, ...]; `counts`."""
        arrays = {name: getattr(self, name) for name in self._layout}
        return {**arrays, "earlier": self._earlier, "fresh": self._fresh, "counts": self._counts}

    def lie_in(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """From now on use these arrays, which hold what those of `arrays` do."""
        for name in self._layout:
            setattr(self, name, arrays[name])
        self._earlier, self._fresh = arrays["earlier"], arrays["fresh"]
        self._counts[LEFT], self._counts = 1, arrays["counts"]
        self._counts[LEFT] = 0

    def state(self) -> dict[str, NDArray[Any]]:
        """Copies of all that the memory goes on from, by name."""
        arrays = {name: array.copy() for name, array in self.stored_turns().items()}
        versions = np.array([self.version, self.first_version])
        return {
            **arrays,
            "earlier": self._earlier.copy(),
            "fresh": self._fresh.copy(),
            "versions": versions,
        }

    def load_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from a copy of what `state` gave."""
        turns = len(arrays["actions"])
        while turns > len(self.actions):
            self.grow()
        for name in self._layout:
            getattr(self, name)[:turns] = arrays[name]
        self._count(turns)
        self._earlier[:], self._fresh[:] = arrays["earlier"], arrays["fresh"]
        if "versions" in arrays:  # a state of before there were any begins to count
            self.version, self.first_version = arrays["versions"].tolist()
