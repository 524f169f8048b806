import numpy as np
import pytest

from keisei.gridworld.examples.treasurehunt import (
    Bone,
    Field,
    Food,
    Gem,
    HedgeWall,
    Hunter,
    Treasurehunt,
    TreasurehuntRules,
)
from keisei.gridworld.model import RandomModel
from tests.gridworld.examples import (
    act,
    arrange,
    assert_a_copy_lives_through_the_same_alone,
    assert_nothing_but_these_changes,
    assert_seeds_repeat_a_run,
    play,
    random_actions,
)


@pytest.fixture
def game():
    """Two hunters side by side in two copies of an empty field of 3 x 5 cells."""
    game = Treasurehunt(RandomModel, TreasurehuntRules(height=5, width=7), copies=2)
    arrange(game, [(2, 2), (2, 3)])
    return game


@pytest.mark.parametrize(("thing", "value"), [(Gem, 10), (Food, 5), (Bone, -10), (Field, 0)])
def test_a_hunter_gets_the_value_of_the_cell_it_walks_to_and_takes_what_was_there(
    game, thing, value
):
    world, hunter = game.world, game.agents[0]
    world.place(thing, world.cells_at(1, 2))
    assert act(game, hunter, "up").tolist() == [value, value]
    assert world.holds(world.cells_at(1, 2), Hunter).all()
    assert world.holds(world.cells_at(2, 2), Field).all()
    assert act(game, hunter, "down").tolist() == [0, 0]
    assert world.holds(world.cells_at(1, 2), Field).all()


def test_a_wall_stops_a_hunter_and_costs_1(game):
    arrange(game, [(1, 2), (2, 3)])
    assert act(game, game.agents[0], "up").tolist() == [-1, -1]
    assert game.world.holds(game.world.cells_at(1, 2), Hunter).all()


def test_another_hunter_stops_a_hunter_and_costs_nothing(game):
    assert act(game, game.agents[0], "right").tolist() == [0, 0]
    assert game.world.agents.columns.tolist() == [[2, 2], [3, 3]]


def test_things_appear_with_probability_005_all_three_as_often():
    game = Treasurehunt(RandomModel, copies=400)
    game.begin_turn()
    empty = 400 * (19 * 19 - 2)
    found = [int(game.world.count(kind).sum()) for kind in (Gem, Food, Bone)]
    assert sum(found) / empty == pytest.approx(0.005, abs=0.0011)  # four deviations
    assert max(found) < 1.5 * min(found)


def test_walls_and_hunters_stay_as_many():
    game = Treasurehunt(RandomModel, copies=8)
    record = play(game, random_actions(game, 80))
    assert_nothing_but_these_changes(record, game.world.numbers_of([HedgeWall, Hunter]))


def test_random_hunters_get_about_20_together():
    game = Treasurehunt(RandomModel, copies=64, seed=3)
    totals = [result.total_reward for result in game.run_experiment(16)]
    # An epoch of 64 copies deviates by 4.5, so the mean of 16 by 1.1.
    assert 17 < np.mean(totals) < 27


def test_a_copy_lives_through_the_same_alone():
    assert_a_copy_lives_through_the_same_alone(Treasurehunt)


def test_a_seed_repeats_a_run():
    assert_seeds_repeat_a_run(Treasurehunt)
