"""`JointRollouts`: the rollout memories of N models, to which a turn of all is added at once.

Each memory keeps its own arrays, which are rows of common ones: as `stack_parameters` does with
weights. Nobody reads another's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keisei.core.rollout_memory import RolloutMemory
from keisei.gridworld.joint_turn import Turn

Said = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]


class JointRollouts:
    """Memories of one shape; they can be used one by one at any time."""

    def __init__(self, memories: Sequence[RolloutMemory]) -> None:
        self._memories = list(memories)
        self._common: dict[str, NDArray[Any]] = {}
        """[N, T, B, ...] and, of what goes on between turns, [N, B, ...]."""
        self._said: Said | None = None

    def expect(self, numbers: Sequence[int], said: Said) -> None:
        """Announce what the policies of these said: states, log-probabilities, values [N, B, ...].

        See `RolloutMemory.expect`.
        """
        for place, number in enumerate(numbers):
            self._memories[number].expect(said[0][place], said[1][place], said[2][place])
        self._said = said if len(numbers) == len(self._memories) else None

    def add(self, turn: Turn) -> None:
        """Store a turn of all models, [N, B, ...], and what was announced of it."""
        said, self._said = self._said, None
        rows = {memory.turns for memory in self._memories}
        if said is None or len(rows) > 1 or not all(m.expects for m in self._memories):
            self._add_one_by_one(turn)
            return
        row = rows.pop()
        self._join(row)
        common = self._common
        common["states"][:, row], common["log_probs"][:, row], common["values"][:, row] = said
        common["actions"][:, row], common["rewards"][:, row] = turn.actions, turn.rewards
        common["dones"][:, row], common["active"][:, row] = turn.dones, turn.active
        self._go_on(row, said[0], turn)
        counts = np.add.reduce(turn.active, axis=1, dtype=np.int64).tolist()
        for memory, count in zip(self._memories, counts, strict=True):
            memory.count_turn(count)

    def _go_on(self, row: int, states: NDArray[np.float32], turn: Turn) -> None:
        """Note where episodes begin, and the frames that the next states are made of."""
        fresh, earlier = self._common["fresh"], self._common["earlier"]
        inactive = np.logical_not(turn.active)
        np.logical_or(fresh, inactive, out=self._common["starts"][:, row])
        np.logical_or(turn.dones, inactive, out=fresh)
        if earlier.shape[2]:
            earlier[:] = states[..., -earlier.shape[2] :]
            earlier[fresh] = 0

    def _add_one_by_one(self, turn: Turn) -> None:
        for memory, *its_turn in zip(self._memories, *turn, strict=True):
            memory.add(*its_turn)

    def _join(self, row: int) -> None:
        """Have the memories' arrays be rows of common ones, with room for this row."""
        if self._common and row < self._common["actions"].shape[1]:
            states = self._common["states"]
            if all(memory.states.base is states for memory in self._memories):
                return
        room = max(row + 1, *(len(memory.actions) for memory in self._memories))
        for memory in self._memories:
            while len(memory.actions) < room:
                memory.grow()
        parts = [memory.arrays() for memory in self._memories]
        self._common = {name: np.stack([part[name] for part in parts]) for name in parts[0]}
        for number, memory in enumerate(self._memories):
            memory.lie_in({name: common[number] for name, common in self._common.items()})
