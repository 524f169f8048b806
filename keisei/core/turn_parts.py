"""Turns of some copies, handed from one memory to another of the same agent.

Who plays only some of the copies of a world hands over what its agents' memories hold; the memory
that the agent learns from takes the parts of all copies side by side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from numpy.typing import NDArray

from keisei.gridworld.model import Memory

TurnArrays = Mapping[str, NDArray[Any]]
"""[T, b, ...] by name: T turns of b copies, the oldest first."""


@runtime_checkable
class MergingMemory(Memory, Protocol):
    """A memory whose turns can be handed over."""

    def clear(self) -> None:
        """Forget what is stored."""

    def stored_turns(self) -> dict[str, NDArray[Any]]:
        """What is stored, [T, B, ...] by name, the oldest first; to be read before it changes."""

    def add_turns(self, parts: Sequence[TurnArrays]) -> None:
        """Store turns of all copies, given as parts whose copies follow each other.

        Where a part has fewer turns than others nobody acts in its copies meanwhile.
        """


def most_turns(parts: Sequence[TurnArrays]) -> int:
    """How many turns the longest of the parts has."""
    return max(len(part["actions"]) for part in parts)


def place_parts(name: str, parts: Sequence[TurnArrays], target: NDArray[Any]) -> None:
    """Copy an array of the parts into `target` [T, B, ...], side by side.

    Behind a shorter part: nobody acts, and what comes next does not follow it.
    """
    column = 0
    for part in parts:
        array = part[name]
        columns = slice(column, column + array.shape[1])
        target[: len(array), columns] = array
        target[len(array) :, columns] = name == "starts"
        column = columns.stop
