"""Tag: whoever is "it" passes it on by coming next to somebody else.

A field of 11 x 11 cells with walls around it, five players. In every copy one of them, at random,
is it when an epoch begins. Players walk up, down, left or right; walls and other players stop
them. After its move a player that is it passes it on to a player next to it, not counting
diagonals: the first one found below, to the right, above, to the left. Then every player gets 10
for its turn, unless it is it. Players see the 9 x 9 cells around them, with it looking different
from the others, and know whether they are it. An epoch has 20 turns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keisei.gridworld.action_spec import DOWN, LEFT, RIGHT, UP, ActionSpec
from keisei.gridworld.agent import Agent, MovingAgent
from keisei.gridworld.cells import Cells
from keisei.gridworld.entity import Empty, Entity, Wall
from keisei.gridworld.environment import Environment, Observe
from keisei.gridworld.map_kernels import COLUMN_STEPS, ROW_STEPS
from keisei.gridworld.model import ModelMaker
from keisei.gridworld.observation_spec import ObservationSpec
from keisei.gridworld.world import World


@dataclass(frozen=True, kw_only=True)
class TagRules:
    """What can be changed about the game."""

    height: int = 11
    width: int = 11
    agents: int = 5
    window: int = 9
    max_turns: int = 20
    free_reward: float = 10.0
    """Of a turn in which one is not it."""


class It(Entity):
    """How the player looks that is it. The map alone knows who that is."""

    glyph, colour = "!", (220, 60, 50)


class Player(MovingAgent):
    """Plays tag; on the map its own kind stands for a player that is not it."""

    glyph, colour = "o", (40, 90, 200)
    tags = 0
    """How often it has passed it on in this epoch, in all copies together."""

    def reset(self) -> None:
        """Count from 0 again."""
        self.tags = 0

    def is_it(self, world: World) -> NDArray[np.bool_]:
        """[B] whether it is it."""
        return world.holds(self.cells(world), It)

    def act(self, world: World, action: NDArray[np.int64]) -> NDArray[np.float32]:
        """Walk, and tag; [B] a reward for not being it."""
        self.walk(world, action)
        self._pass_it_on(world)
        return np.where(self.is_it(world), 0.0, world.rules.free_reward).astype(np.float32)

    def _pass_it_on(self, world: World) -> None:
        """Where this player is it and another stands next to it, change roles."""
        its = self.cells(world)[self.is_it(world)]
        for heading in (DOWN, RIGHT, UP, LEFT):
            # The walls around the field keep every neighbour on the map.
            step = (ROW_STEPS[heading] * world.width + COLUMN_STEPS[heading]) * world.layers
            neighbours = Cells(its.flat + step, its.shape)
            tagged = world.holds(neighbours, Player)
            world.place(It, neighbours[tagged])
            world.place(Player, its[tagged])
            self.tags += int(np.count_nonzero(tagged))
            its = its[~tagged]


def knows_whether_it(world: World, player: Agent) -> NDArray[np.float32]:
    """[B, 1] 1 where the player is it."""
    return world.holds(player.cells(world), It)[:, np.newaxis].astype(np.float32)


class Tag(Environment):
    """The game; see the top of this file."""

    Rules = TagRules
    KINDS = (Empty, Wall, Player, It)

    def __init__(
        self,
        make_model: ModelMaker,
        rules: TagRules | None = None,
        *,
        copies: int = 1,
        seed: int = 0,
        first_copy: int = 0,
        observe: Observe = "in_turn",
    ) -> None:
        self.rules = rules = rules or TagRules()
        world = World(
            rules.height,
            rules.width,
            self.KINDS,
            copies=copies,
            seed=seed,
            first_copy=first_copy,
            rules=rules,
        )
        self.players: list[Player] = []
        super().__init__(world, make_model, max_turns=rules.max_turns, observe=observe, seed=seed)

    def setup_agents(self) -> list[Agent]:
        """All players see and do the same things; each learns by itself."""
        actions = ActionSpec(["up", "down", "left", "right"])
        spec = ObservationSpec(
            self.world,
            self.KINDS,
            window=self.rules.window,
            outside=Wall,
            features=knows_whether_it,
            feature_count=1,
        )
        self.players = [
            Player(spec, actions, self.new_model(spec, len(actions)))
            for _ in range(self.rules.agents)
        ]
        return list(self.players)

    def populate_environment(self) -> None:
        """Walls around an empty field, players anywhere on it, one of them it."""
        world = self.world
        world.place(Wall, world.border())
        self.scatter_agents(world.cells(Empty))
        first_it = (world.draw_for(np.arange(world.copies)) * len(self.agents)).astype(np.int64)
        for player in self.players:
            player.look_like(world, It, first_it == player.number)

    def counts(self) -> dict[str, float]:
        """How often it was passed on in a copy."""
        return {"tags": sum(player.tags for player in self.players) / self.world.copies}
