"""Treasurehunt: collect gems and food, leave the bones.

A field of 21 x 21 cells with walls around it. Every turn each empty cell becomes, with probability
.005, a gem (+10), food (+5) or a bone (-10), one as likely as the other. Two agents see the 5 x 5
cells around them and walk up, down, left or right. An agent gets the value of the cell it walks
to; a wall stops it and costs 1, another agent stops it. An epoch has 100 turns.
"""

from __future__ import annotations

from dataclasses import dataclass

from keisei.gridworld.action_spec import ActionSpec
from keisei.gridworld.agent import Agent, MovingAgent
from keisei.gridworld.cells import Cells
from keisei.gridworld.entity import Empty, Entity, Wall
from keisei.gridworld.environment import Environment, Observe
from keisei.gridworld.model import ModelMaker
from keisei.gridworld.observation_spec import ObservationSpec
from keisei.gridworld.world import World


@dataclass(frozen=True, kw_only=True)
class TreasurehuntRules:
    """What can be changed about the game."""

    height: int = 21
    width: int = 21
    agents: int = 2
    window: int = 5
    max_turns: int = 100
    spawn_chance: float = 0.005


class Gem(Entity):
    """The best there is."""

    value, passable, glyph, colour = 10.0, True, "◆", (60, 170, 220)


class Food(Entity):
    """Good too."""

    value, passable, glyph, colour = 5.0, True, "●", (90, 180, 80)


class Bone(Entity):
    """Better left alone."""

    value, passable, glyph, colour = -10.0, True, "†", (240, 240, 240)


class Field(Empty):
    """Bare ground, on which things appear."""

    @classmethod
    def transition(cls, world: World, where: Cells) -> None:
        """Now and then something appears."""
        sprouting = world.chance(where, world.rules.spawn_chance)
        world.place(world.any_of([Gem, Food, Bone], sprouting), sprouting)


class HedgeWall(Wall):
    """The border; it hurts a little."""

    value = -1.0


class Hunter(MovingAgent):
    """Walks about and takes what it finds."""


class Treasurehunt(Environment):
    """The game; see the top of this file."""

    Rules = TreasurehuntRules
    KINDS = (Field, HedgeWall, Gem, Food, Bone, Hunter)

    def __init__(
        self,
        make_model: ModelMaker,
        rules: TreasurehuntRules | None = None,
        *,
        copies: int = 1,
        seed: int = 0,
        first_copy: int = 0,
        observe: Observe = "in_turn",
    ) -> None:
        self.rules = rules = rules or TreasurehuntRules()
        world = World(
            rules.height,
            rules.width,
            self.KINDS,
            copies=copies,
            seed=seed,
            first_copy=first_copy,
            rules=rules,
        )
        super().__init__(world, make_model, max_turns=rules.max_turns, observe=observe, seed=seed)

    def setup_agents(self) -> list[Agent]:
        """All hunters see and do the same things; each learns by itself."""
        actions = ActionSpec(["up", "down", "left", "right"])
        spec = ObservationSpec(self.world, self.KINDS, window=self.rules.window, outside=HedgeWall)
        return [
            Hunter(spec, actions, self.new_model(spec, len(actions)))
            for _ in range(self.rules.agents)
        ]

    def populate_environment(self) -> None:
        """Walls around an empty field, hunters anywhere on it."""
        self.world.place(HedgeWall, self.world.border())
        self.scatter_agents(self.world.cells(Field))
