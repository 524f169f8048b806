"""`Rollout`: what a worker hands over, laid out in memory that is made once.

Besides the steps (`ExperienceBuffer`) it holds the values behind them, what happened, and the games
as they stand after the last step: whoever replaces the worker goes on from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keisei.config_schema import Config
from keisei.core.experience_buffer import ExperienceBuffer
from keisei.prefixed_names import below
from keisei.training.parallel import rollout_statistics
from keisei.training.parallel.packed_games import (
    PackedGames,
    copy_of_games,
    pack_games,
    packed_layout,
    used_part,
)
from keisei.training.parallel.rollout_statistics import RolloutStatistics
from keisei.training.parallel.self_play import GamesState
from keisei.training.parallel.shared_memory import ArraySpec
from keisei.training.parallel.slots import TornRolloutError

_EPOCH, _BEGUN, _COMMITTED, _FILLED, _LEGAL_USED, _HEADER = range(6)
"""Who wrote it, the rollout's number written before and again after its data, and its size."""


class RolloutLayout:
    """Where everything stands in the memory of one rollout of `games` games."""

    def __init__(self, config: Config, games: int) -> None:
        self.games = games
        self.steps = config.training.parallel.rollout_length or config.training.rollout_length
        specs = [
            ArraySpec("header", np.dtype(np.int64), (_HEADER,)),
            ArraySpec("last_values", np.dtype(np.float32), (games,)),
            ArraySpec("statistics", np.dtype(np.float64), (rollout_statistics.SIZE,)),
        ]
        for name, kind, shape in ExperienceBuffer.layout(self.steps, games):
            specs.append(ArraySpec(f"buffer.{name}", kind, shape))
        for name, kind, shape in packed_layout(config, games):
            specs.append(ArraySpec(f"state.{name}", kind, shape))
        self.specs = specs

    def private(self) -> Rollout:
        """A rollout in memory of this process."""
        return Rollout({name: np.zeros(shape, kind) for name, kind, shape in self.specs}, self)

    def over(self, arrays: Mapping[str, NDArray[Any]]) -> Rollout:
        """The rollout in these arrays."""
        return Rollout(arrays, self)


class Rollout:
    """One rollout over given arrays, in shared memory or not."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]], layout: RolloutLayout) -> None:
        self._arrays = arrays
        self._header = arrays["header"]
        self.buffer = ExperienceBuffer(layout.steps, layout.games, arrays=below("buffer.", arrays))
        self._state = below("state.", arrays)

    def begin(self, epoch: int, number: int) -> None:
        """Empty it for rollout `number` of a worker."""
        self._header[[_EPOCH, _BEGUN, _COMMITTED]] = epoch, number, -1
        self.buffer.clear()

    def finish(
        self,
        last_values: NDArray[np.float32],
        statistics: RolloutStatistics,
        state: GamesState,
    ) -> None:
        """Add what belongs to the steps; from now on it is whole."""
        self._arrays["last_values"][:] = last_values
        self._arrays["statistics"][:] = statistics.as_array()
        pack_games(state, self._state)
        self._header[[_FILLED, _LEGAL_USED]] = self.buffer.filled, self.buffer.legal_used
        self._header[_COMMITTED] = self._header[_BEGUN]

    def check(self, epoch: int, number: int) -> None:
        """That this is rollout `number` of that worker, whole; then it can be read."""
        found = self._header[[_EPOCH, _BEGUN, _COMMITTED]].tolist()
        if found != [epoch, number, number]:
            raise TornRolloutError(f"rollout {number} of epoch {epoch} is marked {found}")
        self.buffer.filled, self.buffer.legal_used = self._header[[_FILLED, _LEGAL_USED]].tolist()

    @property
    def last_values(self) -> NDArray[np.float32]:
        """[B] values of the positions behind the last step."""
        return self._arrays["last_values"]

    @property
    def statistics(self) -> RolloutStatistics:
        """What happened."""
        return RolloutStatistics.from_array(self._arrays["statistics"])

    def copy_of_state(self) -> PackedGames:
        """The games after the last step."""
        return copy_of_games(self._state)

    def to_bytes(self) -> bytes:
        """The used part, for a pipe: the header, then every array in the order of the layout."""
        used = (self._used(name, array) for name, array in self._arrays.items())
        return b"".join(array.tobytes() for array in used)

    def load_bytes(self, data: bytes) -> None:
        """Take over what `to_bytes` of another process gave."""
        offset = 0
        for name, array in self._arrays.items():
            if name != "header":
                self.buffer.filled, self.buffer.legal_used = self._header[
                    [_FILLED, _LEGAL_USED]
                ].tolist()
            part = self._used(name, array)
            end = offset + part.nbytes
            if end > len(data):
                raise TornRolloutError(f"{len(data)} bytes are not a whole rollout")
            part[...] = np.frombuffer(data[offset:end], part.dtype).reshape(part.shape)
            offset = end
        if offset != len(data):
            raise TornRolloutError(f"{len(data)} bytes are not a rollout of {offset}")

    def _used(self, name: str, array: NDArray[Any]) -> NDArray[Any]:
        if name == "buffer.legal_pool":
            return array[: self.buffer.legal_used]
        if name.startswith("state."):
            return used_part(name.removeprefix("state."), self._state)
        is_step = name.startswith("buffer.") and array.ndim >= 2
        return array[: self.buffer.filled] if is_step else array
