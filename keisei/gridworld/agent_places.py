"""`AgentPlaces`: where each agent stands in each copy of a world, and which way it looks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from keisei.gridworld.action_spec import DOWN

NOBODY = -1


class AgentPlaces:
    """Arrays [N, B] over agents and copies."""

    def __init__(self, agents: int, copies: int) -> None:
        self.rows: NDArray[np.int64] = np.zeros((agents, copies), np.int64)
        self.columns: NDArray[np.int64] = np.zeros((agents, copies), np.int64)
        self.facing: NDArray[np.int64] = np.full((agents, copies), DOWN)
        self.present: NDArray[np.bool_] = np.zeros((agents, copies), np.bool_)
        """Whether the agent is on the map."""
        self.layers: NDArray[np.int64] = np.zeros(agents, np.int64)
        """[N] the layer each agent lives on."""

    def __len__(self) -> int:
        return len(self.layers)

    def clear(self) -> None:
        """Take everybody off the map."""
        self.present[...] = False
        self.facing[...] = DOWN
        self.rows[...], self.columns[...] = 0, 0  # an absent agent still looks from somewhere

    def at(
        self,
        copies: NDArray[np.int64],
        rows: NDArray[np.int64],
        columns: NDArray[np.int64],
        layer: int = 0,
    ) -> NDArray[np.int64]:
        """[n] the number of the agent at each place, or NOBODY."""
        here = (
            (self.rows[:, copies] == rows)
            & (self.columns[:, copies] == columns)
            & self.present[:, copies]
            & (self.layers == layer)[:, np.newaxis]
        )
        if not len(here):
            return np.full(len(copies), NOBODY)
        return np.where(here.any(axis=0), here.argmax(axis=0), NOBODY)
