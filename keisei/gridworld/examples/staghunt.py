"""Staghunt: catch hares alone, or a stag together.

A field of 15 x 15 cells with walls around it, four hunters. Every turn each empty cell becomes a
hare with probability .002 and a stag with probability .001. A hunter that walks onto a hare
catches it and gets 1. A stag does not give way: a hunter that walks against it strikes it, and it
falls if another hunter stands next to it, not counting diagonals. The striker and all hunters next
to the stag get 5 each: the striker at once, the others with their next action. A strike alone
costs nothing but the turn. Walls and other hunters stop one, too.

So a stag is worth more to everybody, but only to those who trust that somebody else comes: Skyrms,
The Stag Hunt and the Evolution of Social Structure (2004). Hunters see the 7 x 7 cells around them
and walk up, down, left or right. An epoch has 100 turns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keisei.gridworld.action_spec import ActionSpec
from keisei.gridworld.agent import Agent, MovingAgent
from keisei.gridworld.cells import Cells
from keisei.gridworld.entity import Empty, Entity, Wall
from keisei.gridworld.environment import Environment, Observe
from keisei.gridworld.model import Model, ModelMaker
from keisei.gridworld.observation_spec import ObservationSpec
from keisei.gridworld.world import World


@dataclass(frozen=True, kw_only=True)
class StaghuntRules:
    """What can be changed about the game."""

    height: int = 15
    width: int = 15
    agents: int = 4
    window: int = 7
    max_turns: int = 100
    hare_chance: float = 0.002
    stag_chance: float = 0.001
    stag_share: float = 5.0
    """What each hunter of a fallen stag gets."""


class Hare(Entity):
    """Enough for one, and one is enough to catch it."""

    value, passable, glyph, colour = 1.0, True, "h", (190, 150, 100)


class Stag(Entity):
    """Plenty for all, and too much for one."""

    glyph, colour = "S", (130, 70, 30)


class Grass(Empty):
    """Where animals come from."""

    @classmethod
    def transition(cls, world: World, where: Cells) -> None:
        """Now and then a hare comes, and more seldom a stag; where both would, the stag."""
        world.place(Hare, world.chance(where, world.rules.hare_chance))
        world.place(Stag, world.chance(where, world.rules.stag_chance))


class Hunter(MovingAgent):
    """Walks about, catches hares and strikes stags."""

    def __init__(
        self,
        observation_spec: ObservationSpec,
        action_spec: ActionSpec,
        model: Model,
        shares_owed: NDArray[np.float32],
    ) -> None:
        super().__init__(observation_spec, action_spec, model)
        self.shares_owed = shares_owed
        """[N, B] what each will get with its next action; the hunters have it in common."""
        self.hares = self.stags = 0
        """How many it caught, or struck down, in this epoch, in all copies together."""

    def reset(self) -> None:
        """Nothing is owed, nothing is caught."""
        self.shares_owed[self.number] = 0.0
        self.hares = self.stags = 0

    def act(self, world: World, action: NDArray[np.int64]) -> NDArray[np.float32]:
        """Walk or strike; [B] what that brings, and the shares of stags others struck down."""
        rows, columns = self.target(world, action)  # on the map: walls surround the field
        struck = world.map[np.arange(world.copies), rows, columns, self.layer]
        rewards = self.walk(world, action)
        self.hares += int(np.count_nonzero(rewards))
        rewards += self.shares_owed[self.number]
        self.shares_owed[self.number] = 0.0
        copies = np.flatnonzero(struck == world.number_of(Stag))
        rewards[copies] += self._strike(world, copies, rows[copies], columns[copies])
        return rewards

    def _strike(
        self,
        world: World,
        copies: NDArray[np.int64],
        rows: NDArray[np.int64],
        columns: NDArray[np.int64],
    ) -> NDArray[np.float32]:
        """Strike the stags at these places, one a copy; [n] what the striker gets."""
        others = self._others_next_to(world, copies, rows, columns)
        falls = others.any(axis=0)
        share = np.float32(world.rules.stag_share)
        self.shares_owed[:, copies] += others * share
        world.remove(world.cells_at(rows[falls], columns[falls], copies=copies[falls]))
        self.stags += int(np.count_nonzero(falls))
        return np.where(falls, share, np.float32(0))

    def _others_next_to(
        self,
        world: World,
        copies: NDArray[np.int64],
        rows: NDArray[np.int64],
        columns: NDArray[np.int64],
    ) -> NDArray[np.bool_]:
        """[N, n] which other hunters stand next to these places, one a copy."""
        places = world.agents
        away = np.abs(places.rows[:, copies] - rows) + np.abs(places.columns[:, copies] - columns)
        next_to = np.asarray(away == 1) & places.present[:, copies]
        next_to[self.number] = False
        return next_to


class Staghunt(Environment):
    """The game; see the top of this file."""

    Rules = StaghuntRules
    KINDS = (Grass, Wall, Hare, Stag, Hunter)

    def __init__(
        self,
        make_model: ModelMaker,
        rules: StaghuntRules | None = None,
        *,
        copies: int = 1,
        seed: int = 0,
        first_copy: int = 0,
        observe: Observe = "in_turn",
    ) -> None:
        self.rules = rules = rules or StaghuntRules()
        world = World(
            rules.height,
            rules.width,
            self.KINDS,
            copies=copies,
            seed=seed,
            first_copy=first_copy,
            rules=rules,
        )
        self.hunters: list[Hunter] = []
        super().__init__(world, make_model, max_turns=rules.max_turns, observe=observe, seed=seed)

    def setup_agents(self) -> list[Agent]:
        """All hunters see and do the same things; each learns by itself."""
        actions = ActionSpec(["up", "down", "left", "right"])
        spec = ObservationSpec(self.world, self.KINDS, window=self.rules.window, outside=Wall)
        shares_owed = np.zeros((self.rules.agents, self.world.copies), np.float32)
        self.hunters = [
            Hunter(spec, actions, self.new_model(spec, len(actions)), shares_owed)
            for _ in range(self.rules.agents)
        ]
        return list(self.hunters)

    def populate_environment(self) -> None:
        """Walls around an empty field, hunters anywhere on it."""
        self.world.place(Wall, self.world.border())
        self.scatter_agents(self.world.cells(Grass))

    def counts(self) -> dict[str, float]:
        """Hares and stags caught in a copy."""
        hares = sum(hunter.hares for hunter in self.hunters)
        stags = sum(hunter.stags for hunter in self.hunters)
        return {"hares": hares / self.world.copies, "stags": stags / self.world.copies}
