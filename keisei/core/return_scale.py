"""`ReturnScale`: how large the returns of a game are, so that learning need not know the game.

One game pays 10 for a gem, another 0.1 for an apple. Rewards are divided by the running standard
deviation of the discounted return so far, as in Engstrom et al., Implementation Matters (2020). On
treasurehunt that brought 355 where fixed divisors of 10 and 20 brought 368 and 356 (9 seconds of
PPO, two seeds each): little is lost by not knowing the divisor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SMALLEST_DEVIATION = 1e-4
"""Rewards that are always the same need no scale; theirs would be infinite."""


class ReturnScale:
    """Running mean and variance of the returns seen, merged batch by batch (Chan et al., 1979)."""

    def __init__(self) -> None:
        self._count, self._mean, self._squares = 0, 0.0, 0.0

    def see(self, returns: NDArray[np.float32]) -> None:
        """Count the returns [N] of a rollout in."""
        if len(returns) == 0 or not np.isfinite(returns).all():  # one NaN would stay for good
            return
        count, mean = len(returns), float(returns.mean(dtype=np.float64))
        total, distance = self._count + count, mean - self._mean
        self._squares += float(returns.var(dtype=np.float64)) * count
        self._squares += distance**2 * self._count * count / total
        self._mean += distance * count / total
        self._count = total

    @property
    def divisor(self) -> float:
        """What rewards are divided by; 1 while nothing is known."""
        deviation = math.sqrt(self._squares / self._count) if self._count else 0.0
        return deviation if deviation > _SMALLEST_DEVIATION else 1.0

    def state(self) -> dict[str, Any]:
        """What the scale goes on from, as JSON."""
        return {"count": self._count, "mean": self._mean, "squares": self._squares}

    def load_state(self, values: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""
        self._count, self._mean = values["count"], values["mean"]
        self._squares = values["squares"]
