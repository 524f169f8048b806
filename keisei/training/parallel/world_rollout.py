"""`WorldRollout`: an epoch of some copies of a world, as a worker hands it over.

| array | type | |
|---|---|---|
| header | int64 [6] | who wrote it, which epoch, and how much of the rest is used |
| rewards | float64 [N, b] | what each agent got |
| lengths | int64 [N] | how many turns each agent's memory holds |
| agent0.states, … | [T, b, ...] | the turns in that agent's memory, one array for each of its own |
| notes | uint8 | JSON: turns, agent-steps and counts |
| state | uint8 | what the next epoch of these copies goes on from |

b is the number of copies of the largest shard; those of a smaller one stand in the first columns.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from keisei.core.turn_parts import TurnArrays
from keisei.training.parallel.shared_memory import ArraySpec
from keisei.training.parallel.slots import TornRolloutError

_EPOCH, _BEGUN, _COMMITTED, _COPIES, _NOTES_USED, _STATE_USED, _HEADER = range(7)
_NOTES_BYTES = 16384


class EpochNotes(NamedTuple):
    """What an epoch of some copies was, besides turns and rewards."""

    turns: int
    steps: int
    counts: dict[str, float]


class WorldRolloutLayout:
    """Where everything stands in the memory of one epoch of at most `copies` copies.

    memories: what the memory of each agent would hand over, empty: [0, copies, ...] by name.
    """

    def __init__(
        self, memories: Sequence[TurnArrays], *, turns: int, copies: int, state_bytes: int
    ) -> None:
        self.agents = len(memories)
        specs = [
            ArraySpec("header", np.int64, (_HEADER,)),
            ArraySpec("rewards", np.float64, (self.agents, copies)),
            ArraySpec("lengths", np.int64, (self.agents,)),
            ArraySpec("notes", np.uint8, (_NOTES_BYTES,)),
            ArraySpec("state", np.uint8, (state_bytes,)),
        ]
        for number, arrays in enumerate(memories):
            for name, array in arrays.items():
                shape = (turns, copies, *array.shape[2:])
                specs.append(ArraySpec(f"agent{number}.{name}", array.dtype, shape))
        self.specs = specs

    def private(self) -> WorldRollout:
        """A rollout in memory of this process."""
        return self.over({name: np.zeros(shape, kind) for name, kind, shape in self.specs})

    def over(self, arrays: Mapping[str, NDArray[Any]]) -> WorldRollout:
        """The rollout in these arrays."""
        return WorldRollout(arrays, self.agents)


class WorldRollout:
    """One epoch over given arrays, in shared memory or not."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]], agents: int) -> None:
        self._arrays, self._header = arrays, arrays["header"]
        self._memories: list[dict[str, NDArray[Any]]] = [{} for _ in range(agents)]
        for name, array in arrays.items():
            owner, dot, rest = name.partition(".")
            if dot:
                self._memories[int(owner.removeprefix("agent"))][rest] = array

    def begin(self, epoch: int, number: int) -> None:
        """Mark it as being written: rollout `number` of a worker's incarnation."""
        self._header[[_EPOCH, _BEGUN, _COMMITTED]] = epoch, number, -1

    def put_turns(self, agent: int, arrays: TurnArrays) -> None:
        """Write what an agent's memory hands over; nothing if it keeps nothing."""
        for name, array in arrays.items():
            self._memories[agent][name][: len(array), : array.shape[1]] = array
            self._arrays["lengths"][agent] = len(array)

    def finish(self, rewards: NDArray[np.float64], notes: EpochNotes, state: bytes) -> None:
        """Add what belongs to the turns; from now on it is whole. rewards: [N, copies]."""
        copies = rewards.shape[1]
        self._arrays["rewards"][:, :copies] = rewards
        self._header[_COPIES] = copies
        self._header[_NOTES_USED] = self._put("notes", json.dumps(notes).encode())
        self._header[_STATE_USED] = self._put("state", state)
        self._header[_COMMITTED] = self._header[_BEGUN]

    def _put(self, name: str, data: bytes) -> int:
        room = self._arrays[name]
        if len(data) > len(room):
            raise ValueError(
                f"The {name} of the epoch take {len(data)} bytes where {len(room)} were expected: "
                "between epochs a game's state keeps its size, and counts are a few numbers."
            )
        room[: len(data)] = np.frombuffer(data, np.uint8)
        return len(data)

    def check(self, epoch: int, number: int) -> None:
        """That this is rollout `number` of that worker, whole; then it can be read."""
        found = self._header[[_EPOCH, _BEGUN, _COMMITTED]].tolist()
        if found != [epoch, number, number]:
            raise TornRolloutError(f"rollout {number} of epoch {epoch} is marked {found}")

    @property
    def number(self) -> int:
        """Which epoch of the game it is."""
        return int(self._header[_BEGUN])

    def turns_of(self, agent: int) -> dict[str, NDArray[Any]]:
        """[T, copies, ...] by name: what the agent's memory handed over; views."""
        length, copies = int(self._arrays["lengths"][agent]), int(self._header[_COPIES])
        return {name: array[:length, :copies] for name, array in self._memories[agent].items()}

    @property
    def rewards(self) -> NDArray[np.float64]:
        """[N, copies] what each agent got; a view."""
        rewards: NDArray[np.float64] = self._arrays["rewards"][:, : self._header[_COPIES]]
        return rewards

    @property
    def notes(self) -> EpochNotes:
        """What the epoch was."""
        return EpochNotes(*json.loads(self._used("notes", _NOTES_USED).tobytes()))

    def copy_of_state(self) -> dict[str, NDArray[Any]]:
        """What the next epoch of these copies goes on from."""
        return {"state": self._used("state", _STATE_USED).copy()}

    def _used(self, name: str, size: int) -> NDArray[Any]:
        return self._arrays[name][: self._header[size]]

    def to_bytes(self) -> bytes:
        """Every array, for a pipe."""
        return b"".join(array.tobytes() for array in self._arrays.values())

    def load_bytes(self, data: bytes) -> None:
        """Take over what `to_bytes` of another process gave."""
        expected = sum(array.nbytes for array in self._arrays.values())
        if len(data) != expected:
            raise TornRolloutError(f"{len(data)} bytes are not a rollout of {expected}")
        offset = 0
        for array in self._arrays.values():
            part = np.frombuffer(data, array.dtype, array.size, offset)
            array[...] = part.reshape(array.shape)
            offset += array.nbytes
