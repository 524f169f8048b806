"""Worlds of any size with anything in them: whatever happens, the map stays consistent."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from keisei.gridworld.action_spec import ActionSpec
from keisei.gridworld.agent import MovingAgent
from keisei.gridworld.entity import Empty, Entity, Wall
from keisei.gridworld.environment import Environment
from keisei.gridworld.model import RandomModel
from keisei.gridworld.observation_spec import ObservationSpec
from keisei.gridworld.world import World

NAMES = ["up", "right", "down", "left", "wait", "vanish", "return"]


class Ground(Empty):
    """On which weeds spread, on every layer."""

    @classmethod
    def transition(cls, world, where):
        growing = world.chance(where, world.rules["growth"])
        world.place(world.any_of(world.rules["weeds"], growing), growing)


class Weed(Entity):
    """Dries up now and then."""

    value, passable = 1.0, True

    @classmethod
    def transition(cls, world, where):
        world.remove(world.chance(where, 0.2))


class Rock(Weed):
    """A weed that stops whoever comes."""

    value, passable = -0.5, False


class Hopper(MovingAgent):
    """Walks, goes away, and comes back to where there is room."""

    def act(self, world, action):
        reward = self.walk(world, action)
        self.leave(world, action == NAMES.index("vanish"))
        absent = ~world.agents.present[self.number]
        for copy in np.flatnonzero(absent & (action == NAMES.index("return"))):
            room = world.cells(Ground, layer=self.layer)
            room = room[room.copies == copy]
            if len(room):
                self.put(world, room[:1])
        return reward


FLYERS = [type(f"Flyer{layer}", (Hopper,), {"layer": layer}) for layer in range(3)]
"""Agents for each layer."""


class Fuzzed(Environment):
    """Sizes, kinds, layers, agents and windows as they come."""

    def __init__(self, world, plan):
        self.plan = plan
        super().__init__(
            world, RandomModel, max_turns=100, observe=plan["observe"], seed=plan["seed"]
        )

    def setup_agents(self):
        agents = []
        for kind, window, form in self.plan["agents"]:
            sight = ObservationSpec(self.world, self.world.kinds, window=window, form=form)
            agents.append(kind(sight, ActionSpec(NAMES), self.new_model(sight, len(NAMES))))
        return agents

    def populate_environment(self):
        world = self.world
        for layer in range(world.layers):
            if self.plan["walls"] and min(world.height, world.width) > 3:
                world.place(Wall, world.border(layer=layer))
        for agent in self.agents:
            agent.put(world, world.pick(world.cells(Ground, layer=agent.layer), 1)[0])


@st.composite
def games(draw):
    height, width = draw(st.integers(1, 8)), draw(st.integers(1, 8))
    layers, copies = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    inside = (height - 2) * (width - 2) if min(height, width) > 3 else height * width
    windows = st.sampled_from([None, 1, 3, 5, 9, 17])
    forms = st.sampled_from(["one_hot", "rgb"])
    kinds = st.sampled_from([Hopper, *FLYERS[:layers]])
    plan = {
        "seed": draw(st.integers(0, 2**32)),
        "observe": draw(st.sampled_from(["in_turn", "together"])),
        "walls": draw(st.booleans()),
        "agents": draw(
            st.lists(st.tuples(kinds, windows, forms), min_size=1, max_size=min(inside, 6))
        ),
    }
    rules = {
        "growth": draw(st.sampled_from([0.0, 0.02, 0.3, 1.0])),
        "weeds": draw(st.sampled_from([[Weed], [Rock], [Weed, Rock]])),
    }
    world = World(
        height,
        width,
        [Ground, *draw(st.permutations([Wall, Weed, Rock, Hopper, *FLYERS]))],
        layers=layers,
        copies=copies,
        seed=plan["seed"],
        rules=rules,
    )
    return Fuzzed(world, plan)


def assert_consistent(game, walls):
    world = game.world
    places = world.agents
    assert world.map.max() < len(world.kinds)
    assert np.array_equal(world.map == world.number_of(Wall), walls)
    standing = set()
    for agent in game.agents:
        for copy in np.flatnonzero(places.present[agent.number]):
            row, column = places.rows[agent.number, copy], places.columns[agent.number, copy]
            assert 0 <= row < world.height
            assert 0 <= column < world.width
            cell = (int(copy), int(row), int(column), agent.layer)
            assert cell not in standing
            standing.add(cell)
            assert world.kinds[world.map[cell]] is type(agent)
            assert places.at(*np.array([[copy], [row], [column]]), agent.layer) == agent.number
    assert ((places.facing >= 0) & (places.facing < 4)).all()
    found = np.isin(world.map, world.numbers_of([Hopper, *FLYERS]))
    assert {tuple(map(int, cell)) for cell in np.argwhere(found)} == standing


@settings(max_examples=120, deadline=None)
@given(games(), st.integers(0, 12))
def test_agents_walls_and_layers_stay_consistent_whatever_happens(game, turns):
    walls = game.world.map == game.world.number_of(Wall)
    layers_of_agents = game.world.agents.layers.copy()
    assert game.world.agents.present.all()
    assert_consistent(game, walls)
    for _ in range(turns):
        game.take_turn()
        assert_consistent(game, walls)
        assert np.isfinite(game.rewards).all()
    assert np.array_equal(game.world.agents.layers, layers_of_agents)
    game.reset()
    assert game.world.agents.present.all()
    assert_consistent(game, walls)


@settings(max_examples=25, deadline=None)
@given(games())
def test_what_agents_see_has_the_shape_and_the_range_that_was_announced(game):
    for _ in range(4):
        game.take_turn()
        for agent in game.agents:
            seen = agent.pov(game.world)
            assert seen.shape == (game.world.copies, *agent.observation_spec.shape)
            assert seen.min() >= 0
            assert seen.max() <= agent.observation_spec.highest
