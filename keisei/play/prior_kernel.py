"""The priors of leaves on a CPU: one pass over each row's own moves."""

from __future__ import annotations

import numpy as np

from keisei.compiled.kernels import kernel


@kernel(entry=True)
def write_priors(logits, legal, counts, planes, priors):
    """Fill priors [B, L] with the softmax of logits [B, 2187] over each row's legal moves.

    planes: [13527], the policy plane of every action.
    """
    for row in range(len(counts)):
        highest = -np.inf
        for index in range(counts[row]):
            highest = max(highest, logits[row, planes[legal[row, index]]])
        total = 0.0
        for index in range(counts[row]):
            share = np.exp(np.float64(logits[row, planes[legal[row, index]]]) - highest)
            priors[row, index] = share
            total += share
        for index in range(counts[row]):
            priors[row, index] /= total
