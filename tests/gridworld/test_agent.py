"""`Agent` and `MovingAgent`: where an agent may be, how it walks, and what lies ahead of it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keisei.gridworld.action_spec import DOWN, LEFT, RIGHT, UP
from keisei.gridworld.agent import Agent
from keisei.gridworld.agent_places import NOBODY, AgentPlaces
from keisei.gridworld.errors import WorldError
from keisei.gridworld.world import World
from tests.gridworld.small_worlds import (
    ACTIONS,
    KINDS,
    STEPS,
    Coin,
    Hedge,
    Soil,
    Thorn,
    Walker,
    does,
    walkers,
)

pytestmark = pytest.mark.uncompiled


class Bird(Walker):
    """Lives above the others."""

    layer = 1


def empty(copies=2, layers=1, kinds=KINDS):
    return World(4, 5, kinds, copies=copies, layers=layers)


def place_of(world, agent):
    """[B] (row, column) of the agent."""
    places = world.agents
    return list(
        zip(places.rows[agent.number].tolist(), places.columns[agent.number].tolist(), strict=True)
    )


# Walking


@pytest.mark.parametrize("name", ACTIONS)
def test_an_agent_walks_one_cell_and_leaves_nothing_behind(name):
    world = empty()
    (agent,) = walkers(world, (2, 2))
    assert does(world, agent, name).tolist() == [0, 0]
    row, column = 2 + STEPS[name][0], 2 + STEPS[name][1]
    assert place_of(world, agent) == [(row, column)] * 2
    assert world.cells(Walker).flat.tolist() == world.cells_at(row, column).flat.tolist()


def test_in_each_copy_it_does_what_is_asked_there():
    world = empty(copies=5)
    (agent,) = walkers(world, (1, 1))
    does(world, agent, *ACTIONS)
    assert place_of(world, agent) == [(1 + down, 1 + right) for down, right in STEPS.values()]
    assert world.count(Walker).tolist() == [1] * 5


def test_it_gets_the_value_of_what_it_walks_onto_and_that_is_gone():
    world = empty()
    (agent,) = walkers(world, (1, 1))
    world.place(Coin, world.cells_at(1, 2, copies=0))
    world.place(Thorn, world.cells_at(1, 2, copies=1))
    assert does(world, agent, "right").tolist() == [3, -2]
    assert does(world, agent, "left").tolist() == [0, 0]
    assert world.holds(world.cells_at(1, 2), Soil).all()


def test_a_wall_stops_it_costs_its_value_and_stays():
    world = empty()
    (agent,) = walkers(world, (1, 1))
    world.place(Hedge, world.cells_at(0, 1))
    assert does(world, agent, "up").tolist() == [-1, -1]
    assert place_of(world, agent) == [(1, 1)] * 2
    assert world.count(Hedge).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("name", "corner"), [("up", (0, 0)), ("left", (0, 0)), ("down", (3, 4)), ("right", (3, 4))]
)
def test_the_edge_of_a_map_without_walls_stops_it_at_no_cost(name, corner):
    world = empty()
    (agent,) = walkers(world, corner)
    assert does(world, agent, name).tolist() == [0, 0]
    assert place_of(world, agent) == [corner] * 2
    assert world.count(Walker).tolist() == [1, 1]


def test_it_faces_where_it_wanted_to_go_even_if_it_was_stopped():
    world = empty(copies=5)
    (agent,) = walkers(world, (0, 0))
    assert world.agents.facing.tolist() == [[DOWN] * 5]
    does(world, agent, *ACTIONS)
    assert world.agents.facing.tolist() == [[UP, RIGHT, DOWN, LEFT, DOWN]]


def test_another_agent_stops_it():
    world = empty()
    first, second = walkers(world, (1, 1), (1, 2))
    assert does(world, first, "right").tolist() == [0, 0]
    assert place_of(world, first) == [(1, 1)] * 2
    does(world, second, "down")
    does(world, first, "right")
    assert place_of(world, first) == [(1, 2)] * 2


def test_agents_on_different_layers_do_not_stop_each_other():
    world = empty(layers=2, kinds=(*KINDS, Bird))
    (bird,) = walkers(world, (1, 1), kind=Bird)
    world.place(Hedge, world.cells_at(1, 2))
    does(world, bird, "right")
    assert world.holds(world.cells_at(1, 2, layer=1), Bird).all()
    assert world.holds(world.cells_at(1, 2), Hedge).all()


def test_target_is_where_an_action_leads_be_it_beyond_the_map():
    world = empty(copies=5)
    (agent,) = walkers(world, (0, 0))
    rows, columns = agent.target(world, np.arange(5))
    assert list(zip(rows, columns, strict=True)) == list(STEPS.values())


# Being somewhere


def test_an_agent_that_is_put_elsewhere_leaves_its_cell():
    world = empty()
    (agent,) = walkers(world, (1, 1))
    agent.put(world, world.cells_at(2, 3, copies=1))
    assert place_of(world, agent) == [(1, 1), (2, 3)]
    assert world.count(Walker).tolist() == [1, 1]
    assert agent.cells(world).flat.tolist() == world.cells(Walker).flat.tolist()


@pytest.mark.parametrize("thing", [Hedge, Walker])
def test_an_agent_is_not_put_where_it_cannot_be(thing):
    world = empty()
    agent, _ = walkers(world, (1, 1), None)
    world.place(thing, world.cells_at(2, 3, copies=1))
    before = world.map.copy()
    sentence = f"Agent 0 is put into a {thing.__name__} at row 2, column 3: it needs a passable"
    with pytest.raises(WorldError, match=sentence):
        agent.put(world, world.cells_at(2, 3))
    assert np.array_equal(world.map, before)
    assert place_of(world, agent) == [(1, 1)] * 2


def test_an_agent_is_put_into_one_cell_of_a_copy_on_its_own_layer():
    world = empty(layers=2)
    (agent,) = walkers(world, None)
    for where in (world.cells_at([1, 2], 1), world.cells_at(1, 1, layer=1)):
        with pytest.raises(WorldError, match="at most one cell of each copy, on its layer 0"):
            agent.put(world, where)
    assert not world.agents.present.any()


@pytest.mark.parametrize("copies", [np.array([1]), np.array([False, True, False])])
def test_an_agent_leaves_these_copies_only(copies):
    world = empty(copies=3)
    (agent,) = walkers(world, (1, 1))
    agent.leave(world, copies)
    agent.leave(world, copies)
    assert world.agents.present.tolist() == [[True, False, True]]
    assert world.count(Walker).tolist() == [1, 0, 1]


def test_an_agent_that_left_does_nothing():
    world = empty()
    agent, other = walkers(world, (1, 1), (2, 2))
    agent.leave(world, np.array([0]))
    world.place(Coin, world.cells_at(1, 2))
    assert does(world, agent, "right").tolist() == [0, 3]
    assert world.count(Coin).tolist() == [1, 0]
    assert world.count(Walker).tolist() == [1, 2]
    assert world.agents.facing[agent.number].tolist() == [DOWN, RIGHT]
    assert len(agent.ahead(world, [1], [0], layer=0)) == 1
    does(world, other, "up")
    does(world, other, "left")
    assert place_of(world, other) == [(1, 1), (2, 1)]  # it was in the way only where it is


def test_an_agent_comes_back_where_it_is_put():
    world = empty()
    (agent,) = walkers(world, (1, 1))
    agent.leave(world, np.arange(2))
    agent.put(world, world.cells_at(3, 3))
    assert world.agents.present.all()
    assert world.cells(Walker).flat.tolist() == world.cells_at(3, 3).flat.tolist()


def test_an_agent_can_look_like_something_else_while_it_walks():
    world = empty(copies=3)
    (agent,) = walkers(world, (1, 1))
    agent.leave(world, np.array([2]))
    agent.look_like(world, Hedge, np.array([True, False, True]))
    does(world, agent, "right")
    assert world.count(Hedge).tolist() == [1, 0, 0]
    assert world.count(Walker).tolist() == [0, 1, 0]
    assert world.holds(world.cells_at(1, 2, copies=0), Hedge).all()
    agent.put(world, world.cells_at(3, 3))
    assert world.count(Walker).tolist() == [1, 1, 1]
    assert not world.count(Hedge).any()


def test_an_agent_cannot_look_like_something_that_others_walk_over():
    world = empty(copies=1)
    agent, _ = walkers(world, (1, 1), (1, 2))
    with pytest.raises(WorldError, match="cannot look like a Coin"):
        agent.look_like(world, Coin, np.array([True]))
    assert world.count(Walker).tolist() == [2]


def test_an_agent_that_is_not_in_a_game_is_not_put_anywhere():
    world = empty()
    (agent,) = walkers(world, (1, 1))
    with pytest.raises(WorldError):
        Walker(None, None, None).put(world, world.cells_at(2, 2))
    assert place_of(world, agent) == [(1, 1)] * 2


def test_who_is_where_is_looked_up_by_place():
    world = empty(copies=3, layers=2, kinds=(*KINDS, Bird))
    walker, _ = walkers(world, (1, 1), (2, 2))
    walker.leave(world, np.array([1]))
    copies, rows = np.array([0, 1, 2, 2, 2]), np.array([1, 1, 1, 2, 3])
    assert world.agents.at(copies, rows, rows).tolist() == [0, NOBODY, 0, 1, NOBODY]
    assert world.agents.at(copies, rows, rows, layer=1).tolist() == [NOBODY] * 5
    assert len(world.agents) == 2


def test_where_there_are_no_agents_there_is_nobody():
    zeros = np.zeros(3, int)
    assert AgentPlaces(0, 2).at(zeros, zeros, zeros).tolist() == [NOBODY] * 3


def test_places_of_agents_that_were_cleared_say_nothing_of_the_past():
    world = empty()
    walkers(world, (1, 2))
    world.clear()
    fresh = AgentPlaces(1, 2)
    for name in ("rows", "columns", "facing", "present", "layers"):
        assert np.array_equal(getattr(world.agents, name), getattr(fresh, name)), name


# Ahead


@settings(max_examples=80, deadline=None)
@given(
    st.tuples(st.integers(0, 3), st.integers(0, 4)),
    st.lists(st.tuples(st.integers(-3, 4), st.integers(-3, 3)), min_size=1, max_size=6),
    st.sampled_from(ACTIONS[:4]),
)
def test_cells_ahead_and_to_the_right_are_those_that_its_facing_makes_them(spot, offsets, facing):
    world = empty(copies=3, layers=2)
    (agent,) = walkers(world, spot)
    world.agents.facing[...] = ACTIONS.index(facing)
    agent.leave(world, np.array([1]))
    ahead, right = STEPS[facing], STEPS[ACTIONS[(ACTIONS.index(facing) + 1) % 4]]
    expected = set()
    for forward, sideways in offsets:
        row = spot[0] + forward * ahead[0] + sideways * right[0]
        column = spot[1] + forward * ahead[1] + sideways * right[1]
        if 0 <= row < world.height and 0 <= column < world.width:
            expected |= {(0, row, column, 1), (2, row, column, 1)}
    found = agent.ahead(world, *zip(*offsets, strict=True), layer=1)
    assert list(zip(*found.index, strict=True)) == sorted(expected)


# What a game may leave as it is


def test_an_agent_without_an_act_of_its_own_says_so():
    with pytest.raises(NotImplementedError):
        Agent(None, None, None).act(empty(), np.zeros(2, int))


def test_an_agent_is_not_done_before_the_epoch_is_and_has_nothing_to_reset():
    agent = Agent(None, None, None)
    assert agent.is_done(empty()) is False
    assert agent.reset() is None
