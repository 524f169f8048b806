"""Legal moves as bits: one for each of the 2,187 policy planes, 274 bytes a position.

Legal moves of one position never share a plane, so that a plane and the position say the move.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from keisei.compiled.kernels import kernel
from keisei.shogi.policy_output_mapper import NUM_PLANES, PolicyOutputMapper

OUTPUTS = NUM_PLANES * 81
MASK_BYTES = -(-OUTPUTS // 8)
_PLANES = PolicyOutputMapper.plane_indices


@kernel(entry=True, parallel=True)
def pack_masks(legal, counts, masks):
    """Set masks [B, 274] uint8 from the first counts [B] of the actions legal [B, 593].

    Bit p % 8 of byte p // 8 stands for plane p.
    """
    for row in prange(len(counts)):
        masks[row] = 0
        for index in range(counts[row]):
            plane = _PLANES[legal[row, index]]
            masks[row, plane >> 3] |= np.uint8(1 << (plane & 7))


@kernel(entry=True, parallel=True)
def actions_of_planes(legal, counts, planes, actions):
    """Set actions [B] int64 to the legal moves of planes [B]; -1 where no legal move has it."""
    for row in prange(len(counts)):
        actions[row] = -1
        for index in range(counts[row]):
            if _PLANES[legal[row, index]] == planes[row]:
                actions[row] = legal[row, index]
