"""What a slot holds: the part of a rollout that pipes, slots and supervision need to know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

from numpy.typing import NDArray

from keisei.training.parallel.shared_memory import ArraySpec


class TornRolloutError(RuntimeError):
    """A rollout that was not written to its end, or by another worker than was thought."""


class SlotRollout(Protocol):
    """What one worker hands over at once."""

    def check(self, epoch: int, number: int) -> None:
        """That this is rollout `number` of that worker, whole; else `TornRolloutError`."""

    def copy_of_state(self) -> dict[str, NDArray[Any]]:
        """What the worker's replacement would go on from."""

    def to_bytes(self) -> bytes:
        """For a pipe."""

    def load_bytes(self, data: bytes) -> None:
        """Take over what `to_bytes` of another process gave."""


R = TypeVar("R", bound=SlotRollout)
R_co = TypeVar("R_co", bound=SlotRollout, covariant=True)


class SlotLayout(Protocol[R_co]):
    """Where everything stands in the memory of one rollout."""

    @property
    def specs(self) -> Sequence[ArraySpec]:
        """Its arrays."""

    def private(self) -> R_co:
        """A rollout in memory of this process."""

    def over(self, arrays: Mapping[str, NDArray[Any]]) -> R_co:
        """The rollout in these arrays."""
