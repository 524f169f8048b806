"""`ExperienceBuffer`: the steps of one rollout, compact and preallocated.

T steps of B games. Arrays are [T, B, ...]; the legal moves of all steps share one pool, because
their number varies from 1 to 593 and averages far below.

| array | type | bytes a step | |
|---|---|---|---|
| positions | int8 [100] | 100 | compact position, see `shogi.batch` |
| legal_pool | uint16 | 2 for each legal move | all legal actions, one list after another |
| legal_starts | int32 | 4 | where a step's moves begin in the pool |
| legal_counts | uint16 | 2 | how many they are |
| actions | uint16 | 2 | what was played |
| log_probs | float32 | 4 | its log-probability |
| values | float32 | 4 | the network's value for the mover |
| rewards | float32 | 4 | result of the game for the mover, 0 while it goes on |
| ends | bool | 1 | the game ended with this step (truncated or not) |
| truncations | bool | 1 | it was cut by the move limit |
| cut_values | float32 | 4 | value of a cut game's last position for its mover |
| trains | bool | 1 | the learner played this step |
| versions | int64 | 8 | version of the weights that played |
| advantages, returns | float32 | 8 | set by `compute_advantages_and_returns` |

143 bytes a step and 2 for each of its legal moves, and 4 a game for `lengths`: how many of its T
steps are filled. They differ where workers with fewer steps were merged; behind a game's length
nothing trains. The pool has room for the 593 legal moves that a position can have at most: in games
of players that hoard pieces the average of a rollout passes 200.

The arrays may lie in memory that was made elsewhere, say between processes: `layout` lists them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from keisei.core.advantages import negamax_advantages
from keisei.core.legal_pool import append_legal
from keisei.shogi.batch import POSITION_BYTES
from keisei.shogi.position import MAX_LEGAL_MOVES

_STEP_ARRAYS: dict[str, tuple[type[np.generic], tuple[int, ...]]] = {
    "positions": (np.int8, (POSITION_BYTES,)),
    "legal_starts": (np.int32, ()),
    "legal_counts": (np.uint16, ()),
    "actions": (np.uint16, ()),
    "log_probs": (np.float32, ()),
    "values": (np.float32, ()),
    "rewards": (np.float32, ()),
    "ends": (np.bool_, ()),
    "truncations": (np.bool_, ()),
    "cut_values": (np.float32, ()),
    "trains": (np.bool_, ()),
    "versions": (np.int64, ()),
}
_COMPUTED = ("advantages", "returns")
_GIVEN = [name for name in _STEP_ARRAYS if not name.startswith("legal_")]


class BufferOverflowError(RuntimeError):
    """More steps, or more legal moves, than the buffer was made for."""


class ExperienceBuffer:
    """T steps of B games, filled one step of all games at a time or a worker's batch at a time.

    Over given `arrays` it begins empty by its counters, but what lies there is not touched.
    """

    positions: NDArray[np.int8]
    legal_starts: NDArray[np.int32]
    legal_counts: NDArray[np.uint16]
    actions: NDArray[np.uint16]
    log_probs: NDArray[np.float32]
    values: NDArray[np.float32]
    rewards: NDArray[np.float32]
    ends: NDArray[np.bool_]
    truncations: NDArray[np.bool_]
    cut_values: NDArray[np.float32]
    trains: NDArray[np.bool_]
    versions: NDArray[np.int64]
    legal_pool: NDArray[np.uint16]
    advantages: NDArray[np.float32]
    returns: NDArray[np.float32]
    lengths: NDArray[np.int32]

    def __init__(
        self,
        steps: int,
        games: int,
        *,
        legal_moves: int = MAX_LEGAL_MOVES,
        arrays: Mapping[str, NDArray[Any]] | None = None,
    ) -> None:
        self.steps, self.games = steps, games
        for name, kind, shape in self.layout(steps, games, legal_moves):
            setattr(self, name, np.zeros(shape, kind) if arrays is None else arrays[name])
        self.filled = 0
        self.legal_used = 0

    @staticmethod
    def layout(
        steps: int, games: int, legal_moves: int = MAX_LEGAL_MOVES
    ) -> list[tuple[str, np.dtype[Any], tuple[int, ...]]]:
        """(name, type, shape) of every array of such a buffer, as `arrays` must hold them."""
        per_step = [
            (name, np.dtype(kind), (steps, games, *shape))
            for name, (kind, shape) in _STEP_ARRAYS.items()
        ]
        return [
            *per_step,
            *((name, np.dtype(np.float32), (steps, games)) for name in _COMPUTED),
            ("legal_pool", np.dtype(np.uint16), (steps * games * legal_moves,)),
            ("lengths", np.dtype(np.int32), (games,)),
        ]

    def __len__(self) -> int:
        """Steps stored, over all games."""
        return int(self.lengths.sum())

    def clear(self) -> None:
        """Forget everything; the memory stays."""
        self.filled = 0
        self.legal_used = 0
        self.lengths[:] = 0
        self.trains[:] = False  # or a column that is never filled would train again

    def add_batch(
        self, *, legal: NDArray[np.uint16], legal_counts: NDArray[Any], **step: Any
    ) -> None:
        """Store one step of all B games.

        legal: [B, 593] uint16 with legal_counts [B]; the other arrays by name, [B, ...].
        """
        if self.filled == self.steps:
            raise BufferOverflowError(f"the buffer holds {self.steps} steps and is full")
        if (self.lengths != self.filled).any():
            raise ValueError("a step of all games does not fit behind games of different lengths")
        missing = [name for name in _GIVEN if name not in step]
        if missing or len(step) != len(_GIVEN):
            unknown = [name for name in step if name not in _GIVEN]
            raise TypeError(f"a step needs {_GIVEN}; missing {missing}, unknown {unknown}")
        row = self.filled
        used = append_legal(
            self.legal_pool, self.legal_used, legal, legal_counts, self.legal_starts[row]
        )
        if used < 0:
            raise BufferOverflowError(
                f"the pool of {len(self.legal_pool)} legal moves is full: positions had more on "
                f"average than the {len(self.legal_pool) // self.legal_starts.size} it was made for"
            )
        self.legal_counts[row] = legal_counts
        for name, array in step.items():
            getattr(self, name)[row] = array
        self.legal_used = used
        self.filled += 1
        self.lengths[:] = self.filled

    def add(self, *, legal: Sequence[int] | NDArray[Any], **step: Any) -> None:
        """Store one step of the only game of this buffer; `legal` lists its legal actions."""
        if self.games != 1:
            raise ValueError(f"add is for a buffer of one game, and this one has {self.games}")
        moves = np.asarray(legal, np.uint16)[np.newaxis]
        count = np.array([moves.shape[1]])
        self.add_batch(legal=moves, legal_counts=count, **{k: [v] for k, v in step.items()})

    def compute_advantages_and_returns(
        self,
        last_values: NDArray[np.float32],
        *,
        gamma: float,
        gae_lambda: float,
        cut_games: Literal["draw", "bootstrap"],
    ) -> None:
        """Negamax GAE over the filled steps; see `advantages`.

        last_values: [B] value of the position after a game's last step, for its mover.
        """
        negamax_advantages(
            self.rewards[: self.filled],
            self.values[: self.filled],
            self.ends[: self.filled],
            self.truncations[: self.filled],
            self.cut_values[: self.filled],
            self.trains[: self.filled],
            self.lengths,
            np.asarray(last_values, np.float32),
            gamma,
            gae_lambda,
            cut_games == "bootstrap",
            self.advantages[: self.filled],
            self.returns[: self.filled],
        )

    def get_serializable_batch(self) -> dict[str, NDArray[Any]]:
        """The filled part as C-contiguous arrays by name, laid out as the module's table says."""
        batch = {name: getattr(self, name)[: self.filled] for name in _STEP_ARRAYS}
        pool = self.legal_pool[: self.legal_used]
        return {**batch, "legal_pool": pool, "lengths": self.lengths}

    def merge_worker_buffers(self, batches: Sequence[Mapping[str, NDArray[Any]]]) -> None:
        """Fill this empty buffer with the batches of workers, their games side by side.

        The games of all batches (of `get_serializable_batch`) together must be B: a game is never
        cut at the border of two workers. Batches may have different numbers of steps.
        """
        steps = sorted({len(batch["actions"]) for batch in batches})
        games = sum(batch["actions"].shape[1] for batch in batches)
        if self.filled or games != self.games or steps[-1] > self.steps:
            raise BufferOverflowError(
                f"{len(batches)} batches of {steps} steps and {games} games in all do not "
                f"fill an empty buffer of {self.steps} steps and {self.games} games"
            )
        self._require_room_for(sum(len(batch["legal_pool"]) for batch in batches))
        column = 0
        for batch in batches:
            self.place(batch, column)
            column += batch["actions"].shape[1]

    def place(self, batch: Mapping[str, NDArray[Any]], column: int) -> None:
        """Copy a worker's batch [t, g, ...] into the g empty columns from `column` on."""
        steps, games = batch["actions"].shape
        columns = slice(column, column + games)
        if steps > self.steps or columns.stop > self.games or self.lengths[columns].any():
            raise BufferOverflowError(
                f"{steps} steps of {games} games do not fit into columns {column} to "
                f"{columns.stop - 1}: the buffer has {self.steps} steps of {self.games} games, and "
                "a column is filled once"
            )
        self._require_room_for(len(batch["legal_pool"]))
        for name in _STEP_ARRAYS:
            getattr(self, name)[:steps, columns] = batch[name]
        self.trains[steps:, columns] = False
        self.legal_starts[:steps, columns] += self.legal_used
        used = self.legal_used + len(batch["legal_pool"])
        self.legal_pool[self.legal_used : used] = batch["legal_pool"]
        self.lengths[columns] = batch["lengths"]
        self.legal_used, self.filled = used, max(self.filled, steps)

    def _require_room_for(self, legal_moves: int) -> None:
        if self.legal_used + legal_moves > len(self.legal_pool):
            raise BufferOverflowError(
                f"the pool holds {len(self.legal_pool)} legal moves; {self.legal_used} are there "
                f"and {legal_moves} more do not fit"
            )
