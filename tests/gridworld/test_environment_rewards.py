"""`Environment`: what agents get, and that those who are done get nothing more."""

import numpy as np
import pytest

from keisei.gridworld.model import RandomModel
from tests.gridworld.small_worlds import (
    STILL,
    Coin,
    Doing,
    Hedge,
    Lane,
    Meadow,
    MeadowRules,
    Walker,
    handing_out,
)

# Rewards


def test_rewards_are_counted_once_for_the_agent_the_world_and_the_result():
    first, second = Doing("up"), Doing("wait")
    lane = Lane(handing_out(first, second), STILL, copies=3)
    lane.play_epoch()
    lane.reset()
    lane.world.place(Coin, lane.world.cells_at(1, 2, copies=[0, 1]))
    lane.world.place(Hedge, lane.world.cells_at(0, 2, copies=[0]))
    while not lane.is_over():
        lane.take_turn()
    expected = [3 - 11, 3, 0]
    assert lane.rewards.tolist() == [expected, [0, 0, 0]]
    assert lane.world.total_reward.tolist() == expected
    result = lane.finish_epoch(train_steps=0)
    assert result.rewards.tolist() == [pytest.approx(-5 / 3), 0]
    assert result.total_reward == pytest.approx(-5 / 3)
    remembered = first.memory.column(2)[12:]
    assert remembered.sum(axis=0).tolist() == expected


def test_a_new_epoch_begins_with_nothing():
    meadow = Meadow(RandomModel, MeadowRules(coin_chance=0.5), copies=2)
    meadow.play_epoch()
    assert meadow.world.total_reward.any()
    meadow.reset()
    assert not meadow.world.total_reward.any()
    assert not meadow.rewards.any()
    assert (meadow.turns(), meadow.steps) == (0, 0)
    assert meadow.active.all()


# Done


class Tired(Walker):
    """Is done in copy k after k + 1 turns."""

    def is_done(self, world):
        return world.turn > np.arange(world.copies)


class TiredLane(Lane):
    Walker = Tired


def test_the_last_turn_is_done_and_no_other():
    model = Doing("wait")
    lane = Lane(handing_out(model), MeadowRules(agents=1, coin_chance=0.0), copies=2)
    lane.run_epoch()
    assert model.memory.column(3).tolist() == [[False] * 2] * 11 + [[True] * 2]
    assert model.memory.column(4).all()


def test_an_agent_that_is_done_in_a_copy_is_no_longer_active_there():
    model = Doing("wait")
    lane = TiredLane(handing_out(model), MeadowRules(agents=1, coin_chance=0.0), copies=3)
    result = lane.run_epoch()
    assert model.memory.column(4).tolist() == [
        [True] * 3,
        [False, True, True],
        [False] * 2 + [True],
    ]
    ended = model.memory.column(3) & model.memory.column(4)
    assert ended.tolist() == np.eye(3, dtype=bool).tolist()
    assert (result.turns, result.steps) == (3, 1 + 2 + 3)
    assert lane.is_over()


def test_an_agent_that_is_done_gets_nothing_more():
    lane = TiredLane(handing_out(Doing("up")), MeadowRules(agents=1, coin_chance=0.0), copies=3)
    lane.world.place(Hedge, lane.world.cells_at(1, 2))
    while not lane.is_over():
        lane.take_turn()
    assert lane.rewards.tolist() == [[-1, -2, -3]]
    assert lane.world.total_reward.tolist() == [-1, -2, -3]


def test_an_agent_that_is_done_does_nothing_more():
    rules = MeadowRules(agents=1, coin_chance=0.0, width=12)
    lane = TiredLane(handing_out(Doing("right")), rules, copies=3)
    while not lane.is_over():
        lane.take_turn()
    assert lane.world.agents.columns.tolist() == [[3, 4, 5]]


def test_whoever_is_not_done_goes_on():
    class Resting(Walker):
        def is_done(self, world):
            return self.number == 0

    class Rest(Lane):
        Walker = Resting

    first, second = Doing("left"), Doing("right")
    rest = Rest(handing_out(first, second), STILL)
    rest.run_epoch()
    assert (len(first.memory), len(second.memory)) == (1, 12)
    assert rest.world.agents.columns[0].tolist() == [1]
    assert rest.steps == 13
