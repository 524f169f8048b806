"""`JointRollouts`: the rollout memories of N models, to which a turn of all is added at once.

Each memory keeps its own arrays, which are rows of common ones: as `stack_parameters` does with
weights. Nobody reads another's. That goes for its counts too, so that a turn of all is counted at
once: Python's work for a turn does not grow with the number of memories.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keisei.core.rollout_memory import EXPECTS, LEFT, TURNS, RolloutMemory
from keisei.gridworld.joint_turn import Turn
from keisei.gridworld.model import AllStates

Said = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]


class JointRollouts:
    """Memories of one shape; they can be used one by one at any time."""

    def __init__(self, memories: Sequence[RolloutMemory]) -> None:
        self._memories = list(memories)
        self._all = list(range(len(self._memories)))
        self._common: dict[str, NDArray[Any]] = {}
        """[N, T, B, ...]; of what goes on between turns [N, B, ...]; `counts` [N, 3]."""

    def current_states(self, states: AllStates) -> NDArray[np.float32]:
        """[N, B, F * S] what `current_state` of each memory makes of `states`, [N] of [B, ...]."""
        together = states if isinstance(states, np.ndarray) else np.stack(states)
        flat = together.reshape(*together.shape[:2], -1)
        flat = np.ascontiguousarray(flat, np.float32)
        self._join()
        earlier: NDArray[np.float32] = self._common["earlier"]
        return np.concatenate([earlier, flat], axis=2) if earlier.shape[2] else flat

    def expect(self, numbers: Sequence[int], said: Said) -> None:
        """Announce what the policies of these said: states, log-probabilities, values [N, B, ...].

        See `RolloutMemory.expect`.
        """
        row = self._common_row() if numbers == self._all else None
        common = self._common
        if row is None or said[1].shape != common["fresh"].shape:
            for number, *its_part in zip(numbers, *said, strict=True):
                self._memories[number].expect(*its_part)
            return
        common["states"][:, row], common["log_probs"][:, row], common["values"][:, row] = said
        common["counts"][:, EXPECTS] = 1

    def add(self, turn: Turn) -> None:
        """Store a turn of all models, [N, B, ...], and what was announced of it."""
        row, common = self._common_row(), self._common
        if row is None or not common["counts"][0, EXPECTS]:
            for memory, *its_turn in zip(self._memories, *turn, strict=True):
                memory.add(*its_turn)
            return
        common["actions"][:, row], common["rewards"][:, row] = turn.actions, turn.rewards
        common["dones"][:, row], common["active"][:, row] = turn.dones, turn.active
        self._go_on(row, turn)
        if row == 0:
            for memory in self._memories:
                memory.note_version()
        common["counts"][:] = row + 1, 0, 0

    def _go_on(self, row: int, turn: Turn) -> None:
        """Note where episodes begin, and the frames that the next states are made of."""
        fresh, earlier = self._common["fresh"], self._common["earlier"]
        inactive = np.logical_not(turn.active)
        np.logical_or(fresh, inactive, out=self._common["starts"][:, row])
        np.logical_or(turn.dones, inactive, out=fresh)
        if earlier.shape[2]:
            earlier[:] = self._common["states"][:, row, :, -earlier.shape[2] :]
            earlier[fresh] = 0

    def _common_row(self) -> int | None:
        """The row of the next turn, in arrays with room for it; None if memories are not alike."""
        self._join()
        counts = self._common["counts"]
        row = int(counts[0, TURNS])
        if not (counts == counts[0]).all():
            return None
        if row == self._common["actions"].shape[1]:
            for memory in self._memories:
                memory.grow()
            self._join()
        return row

    def _join(self) -> None:
        """Have the memories' arrays be rows of common ones, if they are not."""
        if self._common and not self._common["counts"][:, LEFT].any():
            return
        room = max(len(memory.actions) for memory in self._memories)
        for memory in self._memories:
            while len(memory.actions) < room:
                memory.grow()
        parts = [memory.arrays() for memory in self._memories]
        self._common = {name: np.stack([part[name] for part in parts]) for name in parts[0]}
        for number, memory in enumerate(self._memories):
            memory.lie_in({name: common[number] for name, common in self._common.items()})
