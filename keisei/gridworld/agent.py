"""`Agent` and `MovingAgent`: who observes, decides and acts, in all copies of the world at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from keisei.gridworld.action_spec import ActionSpec
from keisei.gridworld.cells import Cells
from keisei.gridworld.entity import Entity
from keisei.gridworld.errors import WorldError
from keisei.gridworld.map_kernels import COLUMN_STEPS, ROW_STEPS, walk
from keisei.gridworld.model import Model, States
from keisei.gridworld.observation_spec import ObservationSpec
from keisei.gridworld.world import World

UNNUMBERED = -1


class Agent(Entity):
    """One agent, with a model of its own; its class is the kind that stands for it on the map.

    Arrays over copies [B]: of an agent that has left a copy or is done there, they say nothing.
    """

    glyph = "@"
    colour = (40, 90, 200)
    layer = 0
    """The layer it lives on."""

    def __init__(
        self, observation_spec: ObservationSpec, action_spec: ActionSpec, model: Model
    ) -> None:
        self.observation_spec, self.action_spec, self.model = observation_spec, action_spec, model
        self.number = UNNUMBERED
        """Its place in the environment's list, which sets it."""

    def pov(self, world: World) -> States:
        """[B, ...] what it observes now."""
        return self.observation_spec.observe(world, self)

    def get_action(self, state: States) -> NDArray[np.int64]:
        """[B] what it wants to do, given what it observed."""
        return self.model.take_action(state)

    def act(self, world: World, action: NDArray[np.int64]) -> NDArray[np.float32]:
        """Do it; [B] what it gets for that."""
        raise NotImplementedError

    def is_done(self, world: World) -> NDArray[np.bool_] | bool:
        """[B] whether its episode is over before the epoch's last turn; asked after it acted."""
        return False

    def add_memory(
        self,
        state: States,
        action: NDArray[np.int64],
        reward: NDArray[np.float32],
        done: NDArray[np.bool_],
        active: NDArray[np.bool_],
    ) -> None:
        """Remember one turn; see `model.Memory`."""
        self.model.memory.add(state, action, reward, done, active)

    def reset(self) -> None:
        """Forget what belongs to one epoch; called when the world has been emptied."""

    # Where it is

    def put(self, world: World, where: Cells) -> None:
        """Put it on the map, into one free cell of every copy, or of some copies."""
        places, number = world.agents, self._numbered()
        targets = world.look(where)
        taken = ~world.passable[targets]
        if taken.any():
            first = int(taken.argmax())
            raise WorldError(
                f"Agent {number} is put into a {world.kinds[targets[first]].__name__} at row "
                f"{where.rows[first]}, column {where.columns[first]}: it needs a passable cell."
            )
        copies = where.copies
        if (where.layers != self.layer).any() or len(np.unique(copies)) != len(copies):
            raise WorldError(
                f"Agent {number} is put into at most one cell of each copy, on its layer "
                f"{self.layer}."
            )
        self.leave(world, copies)
        places.rows[number, copies] = where.rows
        places.columns[number, copies] = where.columns
        places.present[number, copies] = True
        world.place(type(self), where)

    def leave(self, world: World, copies: NDArray[np.int64] | NDArray[np.bool_]) -> None:
        """Take it off the map, in these copies."""
        places, number = world.agents, self._numbered()
        chosen = np.zeros(world.copies, np.bool_)
        chosen[copies] = True
        chosen &= places.present[number]
        world.remove(self.cells(world)[chosen])
        places.present[number, chosen] = False

    def _numbered(self) -> int:
        if self.number == UNNUMBERED:
            raise WorldError(
                f"This {type(self).__name__} belongs to no environment yet: setup_agents must "
                "give it back before it is put anywhere."
            )
        return self.number

    def cells(self, world: World) -> Cells:
        """The cell it stands in, or last stood in, of every copy."""
        places = world.agents
        rows, columns = places.rows[self.number], places.columns[self.number]
        copy = np.arange(world.copies)
        flat = ((copy * world.height + rows) * world.width + columns) * world.layers + self.layer
        return Cells(flat, world.map.shape)

    def look_like(self, world: World, kind: type[Entity], copies: NDArray[np.bool_]) -> None:
        """Appear as another kind in these copies [B], until it is put somewhere again."""
        if kind.passable:
            raise WorldError(
                f"An agent cannot look like a {kind.__name__}, which is passable: others would "
                "walk over it."
            )
        world.place(kind, self.cells(world)[copies & world.agents.present[self.number]])


class MovingAgent(Agent):
    """An agent that walks: the actions called up, right, down and left take it there.

    It turns to where it goes. What is not passable stops it, and so does the edge of the map.
    """

    def act(self, world: World, action: NDArray[np.int64]) -> NDArray[np.float32]:
        """Walk; [B] the value of what was in the cell it walked to, or against."""
        return self.walk(world, action)

    def walk(self, world: World, action: NDArray[np.int64]) -> NDArray[np.float32]:
        """Walk where the action has a direction; [B] the value of what was there, else 0."""
        places, number = world.agents, self.number
        rewards = np.empty(world.copies, np.float32)
        walk(
            world.map,
            self.layer,
            places.rows[number],
            places.columns[number],
            places.facing[number],
            places.present[number],
            self.action_spec.headings[action],
            world.passable,
            world.values,
            rewards,
        )
        return rewards

    def target(
        self, world: World, action: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """[B] rows and columns that the action leads to; they may lie beyond the map."""
        heading = self.action_spec.headings[action]
        moves = heading >= 0
        places, number = world.agents, self.number
        return (
            places.rows[number] + np.where(moves, ROW_STEPS[heading], 0),
            places.columns[number] + np.where(moves, COLUMN_STEPS[heading], 0),
        )

    def ahead(
        self, world: World, forward: Sequence[int], sideways: Sequence[int], *, layer: int = 0
    ) -> Cells:
        """The cells at these offsets [n] ahead of it and to its right, in every copy.

        What lies beyond the map is left out, and so are copies that it has left.
        """
        places, number = world.agents, self.number
        copies = np.flatnonzero(places.present[number])[:, np.newaxis]
        ahead = places.facing[number][copies]
        right = (ahead + 1) % len(ROW_STEPS)
        rows = ROW_STEPS[ahead] * np.array(forward) + ROW_STEPS[right] * np.array(sideways)
        columns = COLUMN_STEPS[ahead] * np.array(forward) + COLUMN_STEPS[right] * np.array(sideways)
        rows, columns = rows + places.rows[number][copies], columns + places.columns[number][copies]
        return world.cells_at(rows, columns, layer=layer, copies=copies)
