"""`Environment`: what happens in a turn, and in which order."""

import numpy as np
import pytest

from keisei.gridworld.action_spec import ActionSpec
from keisei.gridworld.agent import Agent
from keisei.gridworld.entity import Empty
from keisei.gridworld.environment import Environment
from keisei.gridworld.observation_spec import ObservationSpec
from keisei.gridworld.world import World
from tests.gridworld.small_worlds import (
    ACTIONS,
    KINDS,
    STILL,
    Coin,
    Diary,
    Doing,
    Lane,
    Meadow,
    MeadowRules,
    Soil,
    Thorn,
    Walker,
    handing_out,
)


class Seed(Empty):
    """Becomes a coin as soon as it can."""

    @classmethod
    def transition(cls, world, where):
        world.place(Coin, where)


class Garden(Lane):
    """There is a seed to the right of the only walker."""

    def __init__(self, make_model, **others):
        self.rules = MeadowRules(agents=1, max_turns=3)
        Environment.__init__(
            self, World(5, 5, (*KINDS, Seed), copies=2), make_model, max_turns=3, **others
        )

    def populate_environment(self):
        super().populate_environment()
        self.world.place(Seed, self.world.cells_at(2, 3))


@pytest.mark.parametrize("observe", ["in_turn", "together"])
def test_things_change_by_themselves_before_the_agents_look_and_act(observe):
    walker = Doing("right")
    garden = Garden(handing_out(walker), observe=observe)
    garden.take_turn()
    assert garden.rewards.tolist() == [[3, 3]]
    seen = walker.memory.column(0)[0].reshape(2, len(garden.world.kinds), 3, 3)
    assert seen[:, KINDS.index(Coin), 1, 2].tolist() == [1, 1]


def test_a_thing_is_handed_all_cells_of_its_kind_once_a_turn():
    handed = []

    class Marked(Thorn):
        @classmethod
        def transition(cls, world, where):
            handed.append((world.turn, where.flat.tolist()))

    class Marks(Lane):
        def populate_environment(self):
            super().populate_environment()
            self.world.place(Marked, self.world.cells_at([0, 4], 0))

    marks = Marks.__new__(Marks)
    marks.rules = STILL
    world = World(6, 6, (*KINDS, Marked), copies=2)
    Environment.__init__(marks, world, handing_out(Doing("wait"), Doing("wait")))
    where = world.cells(Marked).flat.tolist()
    assert len(where) == 4
    marks.take_turn()
    marks.take_turn()
    assert handed == [(1, where), (2, where)]


def seen_neighbours(observe):
    """The states of two agents side by side, of whom the first walks up."""
    first, second = Doing("up"), Doing("wait")
    lane = Lane(handing_out(first, second), STILL, observe=observe)
    lane.take_turn()
    return [m.memory.column(0)[0, 0].reshape(len(KINDS), 3, 3)[-1] for m in (first, second)]


def test_in_turn_an_agent_sees_what_those_before_it_did_and_together_it_does_not():
    side_by_side = [[0, 0, 0], [1, 1, 0], [0, 0, 0]]
    first, second = seen_neighbours("together")
    assert second.tolist() == side_by_side
    assert first.tolist() == [[0, 0, 0], [0, 1, 1], [0, 0, 0]]
    in_turn_first, in_turn_second = seen_neighbours("in_turn")
    assert np.array_equal(in_turn_first, first)
    assert in_turn_second.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 0]]


def test_both_ways_agents_act_in_their_order():
    for observe in ("in_turn", "together"):
        lane = Lane(handing_out(Doing("right"), Doing("right")), STILL, observe=observe)
        lane.take_turn()
        assert lane.world.agents.columns.tolist() == [[2], [4]]  # the first was in the way


def test_with_the_same_actions_both_ways_do_the_same():
    actions = np.random.default_rng(0).integers(0, 5, (2, 12, 4))
    ends = []
    for observe in ("in_turn", "together"):
        models = handing_out(Doing(actions[0]), Doing(actions[1]))
        meadow = Meadow(models, copies=4, observe=observe)
        meadow.play_epoch()
        ends.append((meadow.world.map.tolist(), meadow.rewards.tolist()))
    assert ends[0] == ends[1]


class Standing(Agent):
    """Acts by itself: gets its action's number."""

    def act(self, world, action):
        return action.astype(np.float32)


def test_a_game_can_be_played_by_agents_that_do_not_walk_and_see_the_whole_map():
    class Chairs(Environment):
        def setup_agents(self):
            sight = ObservationSpec(self.world, [Standing])
            return [Standing(sight, ActionSpec(ACTIONS), self.new_model(sight, 5))]

        def populate_environment(self):
            self.scatter_agents(self.world.cells(Soil))

    models = [Doing([np.array([1, 4])] * 2)]
    chairs = Chairs(World(2, 2, (Soil, Standing), copies=2), handing_out(*models), max_turns=2)
    chairs.run_epoch()
    assert chairs.rewards.tolist() == [[2, 8]]
    assert isinstance(chairs.agents[0].model.memory, Diary)
    assert models[0].memory.column(0).sum(axis=2).tolist() == [[1, 1]] * 2


class Noting(Walker):
    """Notes where it is put."""

    def put(self, world, where):
        super().put(world, where)
        self.spots = [*getattr(self, "spots", []), where.flat.tolist()]


class NotingMeadow(Meadow):
    Walker = Noting


def test_agents_scattered_at_once_stand_where_they_would_be_put_one_by_one():
    meadow, noting = (kind(rules=STILL, copies=3, seed=5) for kind in (Meadow, NotingMeadow))
    for _ in range(3):
        for game in (meadow, noting):
            game.reset()
        assert np.array_equal(meadow.world.map, noting.world.map)
        for name, array in vars(meadow.world.agents).items():
            assert np.array_equal(array, getattr(noting.world.agents, name))
        for agent in noting.agents:
            assert agent.spots[-1] == meadow.agents[agent.number].cells(meadow.world).flat.tolist()


def test_agents_that_are_scattered_again_leave_where_they_stood():
    meadow = Meadow(rules=STILL, copies=3)
    meadow.scatter_agents(meadow.world.cells(Soil))
    assert meadow.world.count(Walker).tolist() == [2, 2, 2]
