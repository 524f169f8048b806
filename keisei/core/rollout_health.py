"""Signs that self-play goes wrong: values that do not come true, openings that are all alike."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from keisei.shogi.batch import PLY_HIGH, PLY_LOW

OPENING_PLY = 12
_BINS = 10


def rollout_health(positions: Tensor, values: Tensor, returns: Tensor) -> dict[str, float]:
    """Figures of N steps that train: positions [N, 100], values and the returns they foretold [N].

    explained_variance: how much of the returns' variance the values foretold; 1 is all, 0 none.
    calibration_error: how far values and returns lie apart, each averaged over the steps with about
    the same value. opening_diversity: how many of the positions at `OPENING_PLY` are different,
    from 0 to 1; left out where no game is there.
    """
    if len(values) == 0:
        return {"explained_variance": 0.0, "calibration_error": 0.0}
    variance, left = (x.var(correction=0) for x in (returns, returns - values))
    explained = torch.where(variance > 0, 1 - left / variance, 0.0)
    bins = ((values.clamp(-1, 1) + 1) * (_BINS / 2)).long().clamp(max=_BINS - 1)
    apart = (returns - values) @ one_hot(bins, _BINS).to(values.dtype)
    figures = torch.stack([explained, apart.abs().sum() / len(values)]).tolist()
    named = dict(zip(("explained_variance", "calibration_error"), figures, strict=True))
    return named | _opening_diversity(positions)


def _opening_diversity(positions: Tensor) -> dict[str, float]:
    low, high = (positions[:, byte].int() & 255 for byte in (PLY_LOW, PLY_HIGH))
    reached = positions[low + 256 * high == OPENING_PLY]
    if len(reached) == 0:
        return {}
    return {"opening_diversity": len(torch.unique(reached, dim=0)) / len(reached)}
