"""What happened in a rollout, as figures that can be added up and sent as numbers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import NDArray

from keisei.shogi.judging import Reason

_NAMES = [reason.name.lower() for reason in Reason]


@dataclass
class RolloutStatistics:
    """What happened in one rollout, or in several together."""

    steps: int = 0
    trained_steps: int = 0
    stale_steps: int = 0
    """Steps that do not train because weights too old played them."""
    games: int = 0
    black_wins: int = 0
    white_wins: int = 0
    draws: int = 0
    cut: int = 0
    plies: int = 0
    """Length of all finished games together."""
    legal_moves: int = 0
    pool_games: int = 0
    """Finished games against a past self."""
    pool_wins: int = 0
    pool_draws: int = 0
    games_seconds: float = 0.0
    inference_seconds: float = 0.0
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, other: RolloutStatistics) -> None:
        """Count what happened there as well."""
        for name in _NUMBERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.reasons.update(other.reasons)

    def as_array(self) -> NDArray[np.float64]:
        """[SIZE] numbers, exact up to 2**53."""
        numbers = [getattr(self, name) for name in _NUMBERS]
        return np.array(numbers + [self.reasons[name] for name in _NAMES], np.float64)

    @classmethod
    def from_array(cls, array: NDArray[np.float64]) -> RolloutStatistics:
        """What `as_array` gave."""
        numbers = dict(zip(_NUMBERS, array.tolist(), strict=False))
        counts = zip(_NAMES, array[len(_NUMBERS) :].tolist(), strict=True)
        statistics = cls(reasons=Counter({name: int(count) for name, count in counts if count}))
        for name, number in numbers.items():
            setattr(statistics, name, _TYPES[name](number))
        return statistics


_TYPES = {
    entry.name: float if entry.name.endswith("_seconds") else int
    for entry in fields(RolloutStatistics)
    if entry.name != "reasons"
}
_NUMBERS = list(_TYPES)
SIZE = len(_NUMBERS) + len(_NAMES)
