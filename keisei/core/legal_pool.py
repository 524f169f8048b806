"""Lists of legal moves, packed one after the other into a pool."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from keisei.compiled.kernels import kernel

_WIDTH_STEP = 64


def padded_width(counts: NDArray[Any]) -> int:
    """Room for the longest of the lists, in steps of 64.

    Arrays of a few sizes that come again leave the heap whole; of every size, it grew by 10 MB in
    ten minutes.
    """
    return -(-max(int(counts.max()), 1) // _WIDTH_STEP) * _WIDTH_STEP


@kernel(entry=True)
def append_legal(pool, used, legal, counts, starts):
    """Copy the first counts[i] moves of each row of `legal` to the pool behind `used`.

    starts: [B] int32, set to where each row begins. Returns the new `used`, or -1 (and changes
    nothing that counts) when the pool is too small.
    """
    total = used
    for row in range(len(counts)):
        total += counts[row]
    if total > len(pool):
        return -1
    for row in range(len(counts)):
        starts[row] = used
        for index in range(counts[row]):
            pool[used + index] = legal[row, index]
        used += counts[row]
    return used


@kernel(entry=True)
def padded_legal(pool, starts, counts, padded):
    """The lists of some steps as rows of `padded` [N, L] int16; what is behind a list stays."""
    for row in range(len(starts)):
        for index in range(counts[row]):
            padded[row, index] = pool[starts[row] + index]
