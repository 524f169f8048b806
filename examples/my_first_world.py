"""A world of your own in one file: berries that grow back, and thorns.

Run it with `python examples/my_first_world.py`; docs/worlds.md walks through it.
"""

from __future__ import annotations

from dataclasses import dataclass

from keisei.core.threads import one_thread
from keisei.core.world_models import model_maker
from keisei.gridworld.action_spec import ActionSpec
from keisei.gridworld.agent import Agent, MovingAgent
from keisei.gridworld.cells import Cells
from keisei.gridworld.entity import Empty, Entity, Wall
from keisei.gridworld.environment import Environment, Observe
from keisei.gridworld.game import EpochResult
from keisei.gridworld.model import ModelMaker, RandomModel
from keisei.gridworld.observation_spec import ObservationSpec
from keisei.gridworld.world import World

# 1. What there is. A class is a kind of thing.


class Berry(Entity):
    """Walking onto it brings 1, and removes it."""

    value, passable, glyph, colour = 1.0, True, "*", (200, 40, 80)


class Thorns(Entity):
    """Walking against them costs 1; they stay."""

    value, passable, glyph, colour = -1.0, False, "w", (60, 110, 50)


class Grass(Empty):
    """What a cell holds when nothing else is there."""

    @classmethod
    def transition(cls, world: World, where: Cells) -> None:
        """Once a turn: `where` is all grass of all copies, and some of it bears a berry."""
        world.place(Berry, world.chance(where, world.rules.berry_chance))


# 2. Who acts. A MovingAgent knows how to walk and gets the value of what it walks to.


class Gatherer(MovingAgent):
    """Walks about and eats berries."""


# 3. The game: who plays, and how the world looks when an epoch begins.


@dataclass(frozen=True, kw_only=True)
class BerryRules:
    """What can be changed without touching the code."""

    size: int = 10
    thorns: int = 10
    berry_chance: float = 0.01


class BerryPatch(Environment):
    """Two gatherers in a small garden."""

    Rules = BerryRules

    def __init__(
        self,
        make_model: ModelMaker,
        rules: BerryRules | None = None,
        *,
        copies: int = 1,
        seed: int = 0,
        observe: Observe = "in_turn",
    ) -> None:
        self.rules = rules = rules or BerryRules()
        kinds = [Grass, Wall, Berry, Thorns, Gatherer]
        world = World(rules.size, rules.size, kinds, copies=copies, seed=seed, rules=rules)
        super().__init__(world, make_model, max_turns=50, observe=observe, seed=seed)

    def setup_agents(self) -> list[Agent]:
        """Each gatherer sees 5 x 5 cells, has four actions and a model of its own."""
        sight = ObservationSpec(self.world, self.world.kinds, window=5, outside=Wall)
        actions = ActionSpec(["up", "down", "left", "right"])
        return [Gatherer(sight, actions, self.new_model(sight, len(actions))) for _ in range(2)]

    def populate_environment(self) -> None:
        """A wall around the garden, thorns in some places, the gatherers anywhere else."""
        self.world.place(Wall, self.world.border())
        for spot in self.world.pick(self.world.cells(Grass), self.rules.thorns):
            self.world.place(Thorns, spot)
        self.scatter_agents(self.world.cells(Grass))


# 4. Play, first at random, then learning: 64 copies of the world at once.


def report(result: EpochResult) -> None:
    """One line every ten epochs: what each gatherer got, the mean over the copies."""
    if result.epoch % 10 == 0:
        first, second = result.rewards
        print(f"  epoch {result.epoch:3}: {first:6.2f} {second:6.2f}")


def main(epochs: int = 30) -> None:
    """Random gatherers, then gatherers that learn by PPO."""
    print("random:")
    BerryPatch(RandomModel, copies=64).run_experiment(11, log=report)
    print("learning:")
    with one_thread():  # networks as small as these are faster so
        BerryPatch(model_maker("ppo", {}), copies=64).run_experiment(epochs + 1, log=report)


if __name__ == "__main__":
    main()
