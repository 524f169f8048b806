"""`ActionSpec`: the names of an agent's actions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from keisei.gridworld.errors import WorldError

UP, RIGHT, DOWN, LEFT = range(4)
STAY = -1
_HEADINGS = {"up": UP, "right": RIGHT, "down": DOWN, "left": LEFT}


class ActionSpec:
    """Actions by name; an action's number is its place in the list.

    Those called up, right, down and left have that direction as their heading.
    """

    def __init__(self, names: Sequence[str]) -> None:
        if not names or len(set(names)) != len(names):
            raise WorldError(
                f"Actions need different names, at least one: {list(names)} are not that."
            )
        self.names = list(names)
        self.headings: NDArray[np.int64] = np.array(
            [_HEADINGS.get(name, STAY) for name in names], np.int64
        )
        """[A] the direction of each action, STAY if it has none."""

    def __len__(self) -> int:
        return len(self.names)

    def number(self, name: str) -> int:
        """The number of an action."""
        if name not in self.names:
            raise WorldError(f"There is no action {name!r} among {self.names}.")
        return self.names.index(name)
