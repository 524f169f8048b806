"""`Buffer`: one agent's last turns in all copies of its world, to learn from again and again.

A ring of T turns of B copies, allocated once. A state is the last F observations of an episode side
by side, the newest last, zeros before its first. A transition is n turns long, or shorter where its
episode ended.

| array | type | |
|---|---|---|
| states | `state_dtype` [T, B, S] | flat observations |
| actions | int64 [T, B] | what was done |
| rewards | float32 [T, B] | what it brought |
| dones | bool [T, B] | the episode ended with this turn |
| active | bool [T, B] | the agent acted; elsewhere nothing was stored |
| starts | bool [T, B] | the turn does not follow the one before, see `replay_kernels` |
"""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from keisei.core.replay_kernels import gather_transitions, pick_complete, stack_current
from keisei.core.turn_parts import TurnArrays, most_turns, place_parts

_FORMAT = "keisei-replay-1"
_TURN_ARRAYS = ("states", "actions", "rewards", "dones", "active", "starts")
_CANDIDATES_A_SAMPLE = 4
"""Draws for each transition wanted; as a rule nearly all turns are complete, and one would do."""


class NothingToSampleError(LookupError):
    """No transition in the buffer is complete yet."""


class Batch(NamedTuple):
    """N transitions; a target is returns + (1 - dones) * discounts * value of next_states."""

    states: NDArray[np.float32]
    """[N, F * S]"""
    actions: NDArray[np.int64]
    returns: NDArray[np.float32]
    """[N] discounted sum of the rewards of the k turns, k = n or up to the episode's end."""
    next_states: NDArray[np.float32]
    """[N, F * S] the state k turns later; zeros where the episode has ended."""
    dones: NDArray[np.float32]
    """[N] 1 where the episode ended within the k turns."""
    discounts: NDArray[np.float32]
    """[N] gamma ** k"""


class Buffer:
    """A ring of `capacity` turns of `copies` copies, with its own random generator for samples."""

    states: NDArray[Any]
    actions: NDArray[np.int64]
    rewards: NDArray[np.float32]
    dones: NDArray[np.bool_]
    active: NDArray[np.bool_]
    starts: NDArray[np.bool_]

    def __init__(
        self,
        capacity: int,
        observation_shape: tuple[int, ...],
        *,
        copies: int = 1,
        n_frames: int = 1,
        n_step: int = 1,
        gamma: float = 0.99,
        seed: int = 0,
        state_dtype: DTypeLike = np.float32,
    ) -> None:
        if min(copies, n_frames, n_step) < 1 or capacity < n_frames + n_step:
            raise ValueError(
                f"a buffer of {capacity} turns of {copies} copies cannot hold one transition of "
                f"{n_frames} frames and {n_step} steps: it needs {n_frames + n_step} turns"
            )
        self.capacity, self.observation_shape = capacity, tuple(observation_shape)
        self.copies, self.n_frames, self.n_step, self.gamma = copies, n_frames, n_step, gamma
        self.states = np.zeros((capacity, copies, prod(observation_shape)), state_dtype)
        self.actions = np.zeros((capacity, copies), np.int64)
        self.rewards = np.zeros((capacity, copies), np.float32)
        self.dones, self.active, self.starts = (
            np.zeros((capacity, copies), np.bool_) for _ in range(3)
        )
        self._random = np.random.default_rng(seed)
        self._fresh = np.ones(copies, np.bool_)  # an episode begins with the copy's next turn
        self.clear()

    def clear(self) -> None:
        """Forget everything; the memory stays, and the random generator goes on."""
        self._next_row = self._filled = self._stored = 0
        self.start_episodes()

    def start_episodes(self) -> None:
        """Begin an episode with the next turn of every copy, whether the last one ended or not."""
        self._fresh[:] = True

    def __len__(self) -> int:
        """Turns of an agent in a copy that are stored: the active ones, complete or not."""
        return self._stored

    @property
    def _oldest(self) -> int:
        return (self._next_row - self._filled) % self.capacity

    def add(
        self,
        states: NDArray[Any],
        actions: NDArray[np.int64],
        rewards: NDArray[np.float32],
        dones: NDArray[np.bool_],
        active: NDArray[np.bool_],
    ) -> None:
        """Store one turn of B copies, each array [B, ...]; the oldest turn makes room for it."""
        row = self._next_row
        if self._filled == self.capacity:
            self._stored -= int(np.count_nonzero(self.active[row]))
        self.states[row] = states.reshape(self.copies, -1)
        self.actions[row], self.rewards[row] = actions, rewards
        self.dones[row], self.active[row] = dones, active
        inactive = np.logical_not(active)
        np.logical_or(self._fresh, inactive, out=self.starts[row])
        self._stored += int(np.count_nonzero(active))
        np.logical_or(dones, inactive, out=self._fresh)
        self._next_row = (row + 1) % self.capacity
        self._filled = min(self._filled + 1, self.capacity)

    def stored_turns(self) -> dict[str, NDArray[Any]]:
        """What is stored, [T, B, ...] by name, the oldest first; views unless the ring is full."""
        if self._oldest == 0:
            return {name: getattr(self, name)[: self._filled] for name in _TURN_ARRAYS}
        return {name: np.roll(getattr(self, name), -self._oldest, axis=0) for name in _TURN_ARRAYS}

    def add_turns(self, parts: Sequence[TurnArrays]) -> None:
        """Store turns of all copies, at most `capacity`, given as parts; the oldest make room."""
        count, first = most_turns(parts), self._next_row
        for name in _TURN_ARRAYS:
            ring = getattr(self, name)
            rows = np.empty((count, *ring.shape[1:]), ring.dtype)
            place_parts(name, parts, rows)
            before_the_end = min(count, self.capacity - first)
            ring[first : first + before_the_end] = rows[:before_the_end]
            ring[: count - before_the_end] = rows[before_the_end:]
        self._next_row = (first + count) % self.capacity
        self._filled = min(self._filled + count, self.capacity)
        self._stored = int(np.count_nonzero(self.active[: self._filled]))
        self.start_episodes()

    def current_state(self, states: NDArray[Any]) -> NDArray[np.float32]:
        """[B, F * S] the states that the new observations `states` [B, ...] make."""
        flat = np.ascontiguousarray(states.reshape(self.copies, -1), np.float32)
        if self.n_frames == 1:
            return flat
        stacked = np.empty((self.copies, self.n_frames, flat.shape[1]), np.float32)
        stack_current(
            self.states, self.starts, self._fresh, self._oldest, self._filled, flat, stacked
        )
        return stacked.reshape(self.copies, -1)

    def sample(self, batch_size: int) -> Batch:
        """Draw transitions, each complete one with the same probability, with replacement.

        Complete are those of which every frame is still stored, and the n turns that follow or
        those up to the episode's end. Raises `NothingToSampleError` if there is none.
        """
        places = self._complete_places(batch_size)
        shape = (batch_size, self.n_frames, self.states.shape[2])
        batch = Batch(
            states=np.empty(shape, np.float32),
            actions=np.empty(batch_size, np.int64),
            returns=np.empty(batch_size, np.float32),
            next_states=np.empty(shape, np.float32),
            dones=np.empty(batch_size, np.float32),
            discounts=np.empty(batch_size, np.float32),
        )
        turns = (self.states, self.actions, self.rewards, self.dones, self.starts)
        gather_transitions(*turns, self._oldest, places, self.gamma, *batch, self.n_step)
        return batch._replace(
            states=batch.states.reshape(batch_size, -1),
            next_states=batch.next_states.reshape(batch_size, -1),
        )

    def _complete_places(self, batch_size: int) -> NDArray[np.int64]:
        """[N] places of complete transitions, drawn evenly.

        Whether a turn is complete is asked only of the turns drawn. Where too few were, which says
        nothing of which they are, all are listed and the draw is made among those.
        """
        everywhere = self._filled * self.copies
        if everywhere == 0:
            raise NothingToSampleError("the buffer is empty: no turn has been added")
        chosen = np.empty(batch_size, np.int64)
        drawn = self._random.integers(0, everywhere, _CANDIDATES_A_SAMPLE * batch_size)
        if self._pick_complete(drawn, chosen) == batch_size:
            return chosen
        complete = np.empty(everywhere, np.int64)
        complete = complete[: self._pick_complete(np.arange(everywhere), complete)]
        if len(complete) == 0:
            raise NothingToSampleError(
                f"none of the {len(self)} turns stored is complete: {self.n_step} more must "
                "follow it, or its episode must end"
            )
        return complete[self._random.integers(0, len(complete), batch_size)]

    def _pick_complete(self, candidates: NDArray[np.int64], chosen: NDArray[np.int64]) -> int:
        ring = (self.active, self.dones, self.starts, self._oldest, self._filled)
        return int(pick_complete(*ring, self.n_frames, self.n_step, candidates, chosen))

    def _settings(self) -> dict[str, Any]:
        return {
            "capacity": self.capacity,
            "observation_shape": list(self.observation_shape),
            "copies": self.copies,
            "n_frames": self.n_frames,
            "n_step": self.n_step,
            "gamma": self.gamma,
            "state_dtype": self.states.dtype.str,
        }

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Copies of all that the buffer goes on from: arrays by name, and JSON."""
        arrays = {name: getattr(self, name)[: self._filled].copy() for name in _TURN_ARRAYS}
        arrays["fresh"] = self._fresh.copy()
        values = {
            "settings": self._settings(),
            "next_row": self._next_row,
            "random": self._random.bit_generator.state,
        }
        return arrays, values

    def load_state(self, arrays: Mapping[str, NDArray[Any]], values: Mapping[str, Any]) -> None:
        """Go on from a copy of what `state` gave; ValueError if it is of another kind of buffer."""
        mine, theirs = self._settings(), values["settings"]
        different = [name for name in mine if mine[name] != theirs.get(name)]
        if different:
            name = different[0]
            raise ValueError(f"the buffer has {name} {mine[name]}, what is loaded {theirs[name]}")
        filled = len(arrays["actions"])
        for name in _TURN_ARRAYS:
            getattr(self, name)[:filled] = arrays[name]
        self._fresh[:] = arrays["fresh"]
        self._next_row, self._filled = int(values["next_row"]), filled
        self._stored = int(np.count_nonzero(self.active[:filled]))
        self._random.bit_generator.state = values["random"]

    def snapshot(self) -> Self:
        """A copy of its own, to sample from while this one goes on."""
        copy = type(self)(**self._settings())
        copy.load_state(*self.state())
        return copy

    def save(self, path: Path | str) -> None:
        """Write the buffer to one file (npz); what was there stays whole until it is replaced."""
        arrays, values = self.state()
        text = json.dumps({"format": _FORMAT, **values}).encode()
        partial = Path(f"{path}.partial")
        with partial.open("wb") as file:
            arrays["values"] = np.frombuffer(text, np.uint8)
            np.savez_compressed(file, allow_pickle=False, **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """The buffer that `save` wrote; ValueError if the file is damaged or another kind."""
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in (*_TURN_ARRAYS, "fresh", "values")}
            values = json.loads(arrays.pop("values").tobytes())
            if values["format"] != _FORMAT:
                raise ValueError(f"its format is {values['format']!r}, not {_FORMAT!r}")
            buffer = cls(**values["settings"])
            buffer.load_state(arrays, values)
        except (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise ValueError(f"{path} is damaged or not a replay buffer: {error}") from error
        return buffer
