"""Cleanup: apples grow only while somebody cleans the river, and cleaning earns nothing.

A field of 21 x 31 cells with walls around it: a river above, with an arm that reaches down, sand
in the middle, an orchard below. Ten citizens start on the sand and can walk everywhere inside.

- The river is half polluted when an epoch begins. Every turn each clean cell of it becomes polluted
  with probability .009.
- Every turn each apple tree bears an apple with probability .002 x (1 - pollution / .5), where
  pollution is the polluted share of the river, measured on the map every turn. From .5 on nothing
  grows. So it falls in a line as in the game of Hughes and others, Inequity aversion improves
  cooperation (2018): a mere threshold would pay for no more cleaning than keeps just below it,
  while here every cell cleaned helps everybody a little.
- A citizen eats the apple in the cell where it stands after its action, and gets 1; 20 apples are
  there from the start.
- Beams cover 3 x 3 cells in front of the citizen. "clean" turns pollution into river; it earns
  nothing. "zap" costs everybody standing in the beam 1, taken off the reward of their next action.
  A beam is seen until the citizen that fired it acts again, so that all others see it once.
- Citizens see the 11 x 11 cells around them, and know their row and column. Walls and other
  citizens stop them. An epoch has 100 turns.

The dilemma: a citizen in the river eats nothing, and without one there is soon nothing to eat.
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
from keisei.gridworld.examples.cleanup_beams import GROUND, NO_BEAM, PEOPLE, BeamKinds, fire
from keisei.gridworld.model import Model, ModelMaker
from keisei.gridworld.observation_spec import ObservationSpec
from keisei.gridworld.world import World


@dataclass(frozen=True, kw_only=True)
class CleanupRules:
    """What can be changed about the game."""

    height: int = 21
    width: int = 31
    agents: int = 10
    window: int = 11
    max_turns: int = 100
    beam_length: int = 3
    beam_radius: int = 1
    """How far a beam reaches to either side."""
    pollution_chance: float = 0.009
    initial_pollution: float = 0.5
    apple_chance: float = 0.002
    """Of a tree, while the river is clean."""
    pollution_threshold: float = 0.5
    """The polluted share of the river from which on nothing grows."""
    initial_apples: int = 20
    zap_cost: float = 1.0


class River(Entity):
    """Clean water."""

    glyph, colour = "~", (110, 170, 220)

    @classmethod
    def transition(cls, world: World, where: Cells) -> None:
        """It gets dirty."""
        world.place(Pollution, world.chance(where, world.rules.pollution_chance))


class Pollution(Entity):
    """Dirty water."""

    glyph, colour = "%", (110, 100, 60)


class AppleTree(Entity):
    """A tree without an apple."""

    glyph, colour = "t", (120, 180, 90)

    @classmethod
    def transition(cls, world: World, where: Cells) -> None:
        """It bears an apple now and then, less so the dirtier the river of its copy is."""
        rules = world.rules
        growth = np.clip(1 - pollution(world) / rules.pollution_threshold, 0, 1)
        at_best = world.chance(where, rules.apple_chance)
        world.place(Apple, at_best[world.draw(at_best) < growth[at_best.copies]])


class Apple(Entity):
    """What it is all about."""

    value, glyph, colour = 1.0, "a", (220, 50, 50)


class CleanBeam(Entity):
    """Cleans the river."""

    glyph, colour = "*", (240, 240, 160)


class ZapBeam(Entity):
    """Hurts."""

    glyph, colour = "x", (250, 150, 30)


def pollution(world: World) -> NDArray[np.float64]:
    """[B] the polluted share of the river."""
    dirty, clean = world.count(Pollution, layer=GROUND), world.count(River, layer=GROUND)
    return np.asarray(dirty / np.maximum(dirty + clean, 1))


class Citizen(MovingAgent):
    """Walks, eats, cleans and zaps."""

    layer = PEOPLE

    def __init__(
        self,
        observation_spec: ObservationSpec,
        action_spec: ActionSpec,
        model: Model,
        world: World,
        hits: NDArray[np.int64],
    ) -> None:
        super().__init__(observation_spec, action_spec, model)
        self.hits = hits
        """[N, B] zaps that will be paid with the next action; the citizens have it in common."""
        self.burning = np.zeros(world.copies, np.bool_)
        """[B] whether the beam it fired last is still there."""
        self.apples = self.cleaned = 0
        """What it has eaten and cleaned in this epoch, in all copies together."""
        beams = {"clean": CleanBeam, "zap": ZapBeam}
        self._beam_of_action = np.array(
            [world.number_of(beams[n]) if n in beams else NO_BEAM for n in action_spec.names]
        )
        self._kinds = BeamKinds(
            *world.numbers_of([Wall, River, Pollution, CleanBeam, ZapBeam]).tolist()
        )

    def reset(self) -> None:
        """Forget beams, hits and counts."""
        self.burning[...] = False
        self.hits[self.number] = 0
        self.apples = self.cleaned = 0

    def act(self, world: World, action: NDArray[np.int64]) -> NDArray[np.float32]:
        """Fire or walk, then eat; [B] apples less zaps."""
        self._fire(world, self._beam_of_action[action])
        rewards = self.walk(world, action)
        rewards -= self.hits[self.number] * np.float32(world.rules.zap_cost)
        self.hits[self.number] = 0
        self._eat(world, rewards)
        return rewards

    def _fire(self, world: World, beams: NDArray[np.int64]) -> None:
        """beams: [B] the kind of beam to fire, or NO_BEAM."""
        places, rules = world.agents, world.rules
        self.cleaned += fire(
            world.map,
            self.number,
            places.rows,
            places.columns,
            places.facing,
            beams,
            self.burning,
            rules.beam_length,
            rules.beam_radius,
            self._kinds,
            self.hits,
        )

    def _eat(self, world: World, rewards: NDArray[np.float32]) -> None:
        """Eat the apples it stands on; rewards: [B], added to."""
        ground = self.cells(world).on_layer(GROUND)
        apples = world.holds(ground, Apple)
        world.place(AppleTree, ground[apples])
        rewards[apples] += Apple.value
        self.apples += int(np.count_nonzero(apples))


def own_place(world: World, citizen: Agent) -> NDArray[np.float32]:
    """[B, 2] its row and column, from 0 to 1."""
    places, number = world.agents, citizen.number
    place = np.empty((world.copies, 2), np.float32)
    place[:, 0] = places.rows[number] / (world.height - 1)
    place[:, 1] = places.columns[number] / (world.width - 1)
    return place


class Cleanup(Environment):
    """The game; see the top of this file."""

    Rules = CleanupRules
    KINDS = (Empty, Wall, River, Pollution, AppleTree, Apple, CleanBeam, ZapBeam, Citizen)
    LAYERS = 3

    def __init__(
        self,
        make_model: ModelMaker,
        rules: CleanupRules | None = None,
        *,
        copies: int = 1,
        seed: int = 0,
        first_copy: int = 0,
        observe: Observe = "in_turn",
    ) -> None:
        self.rules = rules = rules or CleanupRules()
        world = World(
            rules.height,
            rules.width,
            self.KINDS,
            layers=self.LAYERS,
            copies=copies,
            seed=seed,
            first_copy=first_copy,
            rules=rules,
        )
        self.citizens: list[Citizen] = []
        self._pollution_so_far = 0.0
        super().__init__(world, make_model, max_turns=rules.max_turns, observe=observe, seed=seed)

    def setup_agents(self) -> list[Agent]:
        """All citizens see and do the same things; each learns by itself."""
        world = self.world
        actions = ActionSpec(["up", "down", "left", "right", "clean", "zap"])
        spec = ObservationSpec(
            world,
            self.KINDS[1:],  # nothing is best shown by nothing, on three layers
            window=self.rules.window,
            outside=Wall,
            features=own_place,
            feature_count=2,
        )
        hits = np.zeros((self.rules.agents, world.copies), np.int64)
        self.citizens = [
            Citizen(spec, actions, self.new_model(spec, len(actions)), world, hits)
            for _ in range(self.rules.agents)
        ]
        return list(self.citizens)

    def populate_environment(self) -> None:
        """Walls, the river, the orchard; some apples and pollution, citizens on the sand."""
        world, rules = self.world, self.rules
        self._pollution_so_far = 0.0
        world.place(Wall, world.border(layer=PEOPLE))
        self._dig_river()
        self._plant_orchard()
        river = world.cells(River)
        dirty = round(len(river) // world.copies * rules.initial_pollution)
        self._put_some(Pollution, river, dirty)
        self._put_some(Apple, world.cells(AppleTree), rules.initial_apples)
        ground = world.inside(layer=GROUND)
        self.scatter_agents(ground[world.holds(ground, Empty)].on_layer(PEOPLE))

    def _put_some(self, kind: type[Entity], where: Cells, number: int) -> None:
        """Put so many of a kind somewhere there, in every copy."""
        for spot in self.world.pick(where, number):
            self.world.place(kind, spot)

    def _dig_river(self) -> None:
        """The upper third, and an arm two cells wide through half of the middle."""
        world, third = self.world, self.rules.height // 3
        arm = self.rules.width // 3
        ground = world.inside(layer=GROUND)
        rows, columns = ground.rows, ground.columns
        in_arm = (rows < 2 * third - 1) & ((columns == arm) | (columns == arm + 1))
        world.place(River, ground[(rows < third) | in_arm])

    def _plant_orchard(self) -> None:
        """The lower third."""
        ground = self.world.inside(layer=GROUND)
        height = self.rules.height
        self.world.place(AppleTree, ground[ground.rows > height - 1 - height // 3])

    def begin_turn(self) -> None:
        """As in any game, and note how dirty the river is."""
        super().begin_turn()
        self._pollution_so_far += float(pollution(self.world).mean())

    def counts(self) -> dict[str, float]:
        """Apples eaten and cells cleaned in a copy, and the mean pollution of the turns."""
        copies = self.world.copies
        return {
            "apples": sum(citizen.apples for citizen in self.citizens) / copies,
            "cleaned": sum(citizen.cleaned for citizen in self.citizens) / copies,
            "pollution": self._pollution_so_far / max(self.world.turn, 1),
        }
