"""Iowa: four decks of cards, of which the two that look better are worse.

After the Iowa Gambling Task of Bechara and others (1994). A field of 20 x 20 cells with walls
around it. Every turn each empty cell becomes a deck with probability .01, one of A, B, C and D as
likely as the other. An agent that walks onto a deck takes it, and gets what the card on top says,
which is drawn at that moment:

| deck | gets | or, with probability | gets | on average |
|---|---|---|---|---|
| A | 1.1 | .5 | -1.4 | -.15 |
| B | 1.1 | .1 | -11.4 | -.15 |
| C | .6 | .5 | .1 | .35 |
| D | .6 | .1 | -1.9 | .35 |

Two agents see the 5 x 5 cells around them and walk up, down, left or right; a wall stops them and
costs 1, another agent stops them. An epoch has 100 turns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from keisei.gridworld.action_spec import ActionSpec
from keisei.gridworld.agent import Agent, MovingAgent
from keisei.gridworld.cells import Cells
from keisei.gridworld.entity import Empty, Entity, Wall
from keisei.gridworld.environment import Environment, Observe
from keisei.gridworld.model import ModelMaker
from keisei.gridworld.observation_spec import ObservationSpec
from keisei.gridworld.world import World


@dataclass(frozen=True, kw_only=True)
class IowaRules:
    """What can be changed about the game."""

    height: int = 20
    width: int = 20
    agents: int = 2
    window: int = 5
    max_turns: int = 100
    spawn_chance: float = 0.01


class Deck(Entity):
    """What the decks have in common: `value` is what a good card gives."""

    passable = True
    loss: ClassVar[float]
    """How much less a bad card gives."""
    loss_chance: ClassVar[float]


class DeckA(Deck):
    """Small losses, often; they outweigh the gains."""

    value, loss, loss_chance = 1.1, 2.5, 0.5
    glyph, colour = "A", (200, 60, 60)


class DeckB(Deck):
    """A large loss, seldom; it outweighs the gains."""

    value, loss, loss_chance = 1.1, 12.5, 0.1
    glyph, colour = "B", (210, 130, 50)


class DeckC(Deck):
    """Small losses, often; the gains outweigh them."""

    value, loss, loss_chance = 0.6, 0.5, 0.5
    glyph, colour = "C", (70, 160, 90)


class DeckD(Deck):
    """A larger loss, seldom; the gains outweigh it."""

    value, loss, loss_chance = 0.6, 2.5, 0.1
    glyph, colour = "D", (50, 130, 180)


DECKS: tuple[type[Deck], ...] = (DeckA, DeckB, DeckC, DeckD)
LOSSES = np.array([deck.loss for deck in DECKS], np.float32)
LOSS_CHANCES = np.array([deck.loss_chance for deck in DECKS])


class Table(Empty):
    """Where decks appear."""

    @classmethod
    def transition(cls, world: World, where: Cells) -> None:
        """Now and then there is a new deck."""
        dealt = world.chance(where, world.rules.spawn_chance)
        world.place(world.any_of(DECKS, dealt), dealt)


class TableEdge(Wall):
    """The border; it hurts a little."""

    value = -1.0


class Gambler(MovingAgent):
    """Walks about and takes decks."""

    def reset(self) -> None:
        """Count from 0 again."""
        self.taken = np.zeros(len(DECKS), np.int64)
        """How often it took each deck in this epoch, in all copies together."""

    def act(self, world: World, action: NDArray[np.int64]) -> NDArray[np.float32]:
        """Walk; [B] the value of what is there, less the loss of a bad card."""
        deck = self._deck_ahead(world, action)
        rewards = self.walk(world, action)
        copies = np.flatnonzero(deck >= 0)
        deck = deck[copies]
        bad = world.draw_for(copies) < LOSS_CHANCES[deck]
        rewards[copies] -= np.where(bad, LOSSES[deck], 0)
        self.taken += np.bincount(deck, minlength=len(DECKS))
        return rewards

    def _deck_ahead(self, world: World, action: NDArray[np.int64]) -> NDArray[np.int64]:
        """[B] the place in DECKS of what the action leads to; negative if it is no deck."""
        rows, columns = self.target(world, action)  # on the map: walls surround the field
        kinds = world.map[np.arange(world.copies), rows, columns, self.layer]
        return np.asarray(kinds.astype(np.int64) - Iowa.KINDS.index(DeckA))


class Iowa(Environment):
    """The game; see the top of this file."""

    Rules = IowaRules
    KINDS = (Table, TableEdge, Gambler, *DECKS)  # the decks last, see Gambler

    def __init__(
        self,
        make_model: ModelMaker,
        rules: IowaRules | None = None,
        *,
        copies: int = 1,
        seed: int = 0,
        first_copy: int = 0,
        observe: Observe = "in_turn",
    ) -> None:
        self.rules = rules = rules or IowaRules()
        world = World(
            rules.height,
            rules.width,
            self.KINDS,
            copies=copies,
            seed=seed,
            first_copy=first_copy,
            rules=rules,
        )
        self.gamblers: list[Gambler] = []
        super().__init__(world, make_model, max_turns=rules.max_turns, observe=observe, seed=seed)

    def setup_agents(self) -> list[Agent]:
        """All gamblers see and do the same things; each learns by itself."""
        actions = ActionSpec(["up", "down", "left", "right"])
        spec = ObservationSpec(self.world, self.KINDS, window=self.rules.window, outside=TableEdge)
        self.gamblers = [
            Gambler(spec, actions, self.new_model(spec, len(actions)))
            for _ in range(self.rules.agents)
        ]
        return list(self.gamblers)

    def populate_environment(self) -> None:
        """Walls around an empty field, gamblers anywhere on it."""
        self.world.place(TableEdge, self.world.border())
        self.scatter_agents(self.world.cells(Table))

    def counts(self) -> dict[str, float]:
        """How often each deck was taken in a copy."""
        taken = sum((gambler.taken for gambler in self.gamblers), np.zeros(len(DECKS)))
        means = taken / self.world.copies
        return {deck.__name__: float(mean) for deck, mean in zip(DECKS, means, strict=True)}
