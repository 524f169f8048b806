"""Worlds and games small enough for tests, and models that do what a test wants."""

from dataclasses import dataclass

import numpy as np

from keisei.gridworld.action_spec import ActionSpec
from keisei.gridworld.agent import MovingAgent
from keisei.gridworld.agent_places import AgentPlaces
from keisei.gridworld.entity import Empty, Entity, Wall
from keisei.gridworld.environment import Environment
from keisei.gridworld.model import FixedModel, RandomModel
from keisei.gridworld.observation_spec import ObservationSpec
from keisei.gridworld.world import World

ACTIONS = ("up", "right", "down", "left", "wait")
STEPS = {"up": (-1, 0), "right": (0, 1), "down": (1, 0), "left": (0, -1), "wait": (0, 0)}


class Soil(Empty):
    """Bare ground, on which coins appear if the rules say so."""

    glyph, colour = " ", (10, 20, 30)

    @classmethod
    def transition(cls, world, where):
        if world.rules is not None:
            world.place(Coin, world.chance(where, world.rules.coin_chance))


class Hedge(Wall):
    value = -1.0


class Coin(Entity):
    value, passable, glyph, colour = 3.0, True, "o", (250, 200, 0)


class Thorn(Entity):
    value, passable, glyph, colour = -2.0, True, "x", (200, 0, 0)


class Walker(MovingAgent):
    glyph, colour = "@", (0, 0, 250)


KINDS = (Soil, Hedge, Coin, Thorn, Walker)


def random_world(seed, shape=(3, 4, 5, 2), kinds=KINDS[:-1]):
    """A world of this shape with anything anywhere, but no agents."""
    copies, height, width, layers = shape
    world = World(height, width, KINDS, layers=layers, copies=copies, seed=seed)
    world.map[...] = np.random.default_rng(seed).integers(0, len(kinds), shape)
    return world


def walkers(world, *spots, kind=Walker):
    """Agents without models, put at these rows and columns of every copy; None: not put."""
    world.agents = AgentPlaces(len(spots), world.copies)
    agents = []
    for number, spot in enumerate(spots):
        agent = kind(None, ActionSpec(ACTIONS), None)
        agent.number = number
        world.agents.layers[number] = agent.layer
        if spot is not None:
            agent.put(world, world.cells_at(*spot, layer=agent.layer))
        agents.append(agent)
    return agents


def does(world, agent, *names):
    """[B] what the agent gets for these actions, one for each copy or one for all."""
    numbers = np.array([ACTIONS.index(name) for name in names])
    return agent.act(world, np.broadcast_to(numbers, world.copies))


class Diary:
    """A memory that keeps copies of all it is given."""

    def __init__(self):
        self.turns = []

    def add(self, states, actions, rewards, dones, active):
        self.turns.append(tuple(map(np.array, (states, actions, rewards, dones, active))))

    def __len__(self):
        return len(self.turns)

    def column(self, number):
        """[T, B, ...] the states (0), actions, rewards, dones or active (4)."""
        return np.array([turn[number] for turn in self.turns])


class Doing(FixedModel):
    """Does the same thing all the time, or what a list of arrays [B] says, and keeps a diary."""

    def __init__(self, action):
        super().__init__()
        self.memory, self._action, self.asked = Diary(), action, 0

    def take_action(self, states):
        self.asked += 1
        if isinstance(self._action, str):
            return np.full(len(states), ACTIONS.index(self._action))
        return np.asarray(self._action[self.asked - 1])


def handing_out(*models):
    """A model maker that gives each agent the next of these."""
    remaining = iter(models)
    return lambda shape, actions, *, copies, seed: next(remaining)


@dataclass(frozen=True, kw_only=True)
class MeadowRules:
    height: int = 7
    width: int = 8
    agents: int = 2
    max_turns: int = 12
    coin_chance: float = 0.05
    window: int = 3


STILL = MeadowRules(coin_chance=0.0)


class Meadow(Environment):
    """Walkers who collect coins between hedges."""

    Rules = MeadowRules
    Walker = Walker

    def __init__(
        self, make_model=RandomModel, rules=None, *, copies=1, seed=0, first_copy=0, **others
    ):
        self.rules = rules = rules or MeadowRules()
        world = World(
            rules.height,
            rules.width,
            (*KINDS[:-1], self.Walker),
            copies=copies,
            seed=seed,
            first_copy=first_copy,
            rules=rules,
        )
        super().__init__(world, make_model, max_turns=rules.max_turns, seed=seed, **others)

    def setup_agents(self):
        sight = ObservationSpec(
            self.world, self.world.kinds, window=self.rules.window, outside=Hedge
        )
        actions = ActionSpec(ACTIONS)
        return [
            self.Walker(sight, actions, self.new_model(sight, len(actions)))
            for _ in range(self.rules.agents)
        ]

    def populate_environment(self):
        self.world.place(Hedge, self.world.border())
        self.scatter_agents(self.world.inside())


class Lane(Meadow):
    """The agents stand in a row, the first at the left, in a world where nothing appears."""

    def populate_environment(self):
        for agent in self.agents:
            agent.put(self.world, self.world.cells_at(2, 2 + agent.number))
