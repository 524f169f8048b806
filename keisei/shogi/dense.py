"""Dense masks and planes of a batch, kept up to date by writing only what changed.

For callers who want plain arrays (environment wrappers, other libraries): 28 kB a game, of which a
move changes a few hundred bytes. Learning uses the compact positions and `features` instead.
"""

from __future__ import annotations

import numpy as np
from numba import prange
from numpy.typing import NDArray

from keisei.compiled.kernels import kernel
from keisei.shogi.batch import COLOUR, IN_CHECK, OWN_HAND, PLY_HIGH, PLY_LOW, REPETITIONS
from keisei.shogi.pieces import PIECES_IN_A_SET
from keisei.shogi.position import MAX_LEGAL_MOVES, NUM_ACTIONS
from keisei.shogi.vector_shogi import VectorShogi

PLANES = 46
"""The planes of feature set `core46`, see `features`."""
_FULL_HAND = np.array([*PIECES_IN_A_SET[1:8], *PIECES_IN_A_SET[1:8]], np.float32)
# NumPy numbers: see the directions in `bitboard`.
_HAND_PLANES = np.int64(28)
_COLOUR_PLANE, _PLY_PLANE, _REPETITION_PLANE, _CHECK_PLANE = map(np.int64, range(42, 46))
_PLANE_OF = np.array([*range(27, 13, -1), _PLY_PLANE, *range(14)], np.int64)
"""The plane of pieces -14 to 14."""
_LONGEST_PLY = np.float32(512)


@kernel
def _write_mask(row, legal, count, shown_legal, shown_counts, mask):
    for index in range(shown_counts[row]):
        mask[row, shown_legal[row, index]] = False
    for index in range(count):
        action = legal[row, index]
        mask[row, action] = True
        shown_legal[row, index] = action
    shown_counts[row] = count


@kernel
def _fill(planes, row, plane, value):
    for square in range(81):
        planes[row, plane, square] = value


@kernel
def _write_planes(row, positions, shown, planes):
    """planes: [B, 46, 81] float32; shown: the compact positions they show now."""
    # No test for empty squares: they write to the ply plane, which is filled afterwards anyway.
    # The tests would be mispredicted too often, as every move turns the whole board round.
    for square in range(81):
        planes[row, _PLANE_OF[shown[row, square] + 14], square] = 0.0
        planes[row, _PLANE_OF[positions[row, square] + 14], square] = 1.0
    for kind in range(14):
        count = positions[row, OWN_HAND + kind]
        if count != shown[row, OWN_HAND + kind]:
            _fill(planes, row, _HAND_PLANES + kind, np.float32(count) / _FULL_HAND[kind])
    _fill(planes, row, _COLOUR_PLANE, np.float32(positions[row, COLOUR]))
    low, high = np.int64(positions[row, PLY_LOW]), np.int64(positions[row, PLY_HIGH])
    ply = np.float32((low & 255) | ((high & 255) << 8))
    _fill(planes, row, _PLY_PLANE, min(ply / _LONGEST_PLY, np.float32(1)))
    if positions[row, REPETITIONS] != shown[row, REPETITIONS]:
        repetitions = np.float32(positions[row, REPETITIONS])
        _fill(planes, row, _REPETITION_PLANE, repetitions / np.float32(3))
    if positions[row, IN_CHECK] != shown[row, IN_CHECK]:
        _fill(planes, row, _CHECK_PLANE, np.float32(positions[row, IN_CHECK]))
    for byte in range(positions.shape[1]):
        shown[row, byte] = positions[row, byte]


@kernel(entry=True)
def _update_range(first, last, outputs, shown, shown_legal, shown_counts, mask, planes):
    for row in range(first, last):
        _write_mask(row, outputs.legal, outputs.legal_counts[row], shown_legal, shown_counts, mask)
        _write_planes(row, outputs.positions, shown, planes)


@kernel(entry=True, parallel=True)
def _update_in_parallel(parts, outputs, shown, shown_legal, shown_counts, mask, planes):
    rows = len(outputs.ply)
    for part in prange(parts):
        first, last = part * rows // parts, (part + 1) * rows // parts
        _update_range(first, last, outputs, shown, shown_legal, shown_counts, mask, planes)


class DenseView:
    """The legal mask and `core46` planes of a `VectorShogi`; call `update` after each step."""

    mask: NDArray[np.bool_]
    """[B, 13527]."""
    planes: NDArray[np.float32]
    """[B, 46, 9, 9]."""

    def __init__(self, games: VectorShogi) -> None:
        self._games = games
        rows = games.num_games
        self.mask = np.zeros((rows, NUM_ACTIONS), np.bool_)
        self.planes = np.zeros((rows, PLANES, 9, 9), np.float32)
        self._shown = (
            np.zeros_like(games.positions),
            np.zeros((rows, MAX_LEGAL_MOVES), np.uint16),
            np.zeros(rows, np.int32),
        )
        self.update()

    def update(self) -> None:
        """Bring `mask` and `planes` up to date with the games."""
        games = self._games
        arrays = (
            games.outputs,
            *self._shown,
            self.mask,
            self.planes.reshape(games.num_games, PLANES, 81),
        )
        if games.threads == 1:
            _update_range(0, games.num_games, *arrays)
        else:
            games.use_threads()
            _update_in_parallel(games.threads, *arrays)
