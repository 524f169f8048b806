"""How often an agent tries a random action: epsilon, which falls from epoch to epoch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class GeometricDecay:
    """Epsilon loses the share `decay` of itself with every epoch, down to `floor`."""

    start: float
    decay: float
    floor: float = 0.0

    def __call__(self, epoch: int) -> float:
        """Epsilon in this epoch, the first of which is 0."""
        return float(max(self.start * (1 - self.decay) ** epoch, self.floor))


@dataclass(frozen=True, kw_only=True)
class LinearDecay:
    """Epsilon loses `decay` with every epoch, down to `floor`."""

    start: float
    decay: float
    floor: float = 0.0

    def __call__(self, epoch: int) -> float:
        """Epsilon in this epoch, the first of which is 0."""
        return max(self.start - self.decay * epoch, self.floor)


SCHEDULES: dict[str, Callable[..., Callable[[int], float]]] = {
    "geometric": GeometricDecay,
    "linear": LinearDecay,
}
