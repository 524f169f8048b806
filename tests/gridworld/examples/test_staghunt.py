import pytest

from keisei.gridworld.entity import Wall
from keisei.gridworld.examples.staghunt import Grass, Hare, Hunter, Stag, Staghunt, StaghuntRules
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


def game_of(places):
    """Hunters at these places of a field of 5 x 5 cells, in two copies."""
    game = Staghunt(RandomModel, StaghuntRules(height=7, width=7, agents=len(places)), copies=2)
    arrange(game, places)
    return game


def put(game, kind, row, column):
    game.world.place(kind, game.world.cells_at(row, column))


def test_a_hare_is_caught_alone():
    game = game_of([(3, 3)])
    put(game, Hare, 3, 4)
    assert act(game, game.hunters[0], "right").tolist() == [1, 1]
    assert game.world.agents.columns[0].tolist() == [4, 4]
    assert game.counts() == {"hares": 1.0, "stags": 0.0}


def test_a_stag_stands_against_one_hunter_who_loses_only_the_turn():
    game = game_of([(3, 3), (1, 1)])
    put(game, Stag, 3, 4)
    assert act(game, game.hunters[0], "right").tolist() == [0, 0]
    assert game.world.count(Stag).tolist() == [1, 1]
    assert game.world.agents.columns[0].tolist() == [3, 3]


def test_two_hunters_bring_a_stag_down_and_both_get_5():
    game = game_of([(3, 3), (2, 4)])
    put(game, Stag, 3, 4)
    assert act(game, game.hunters[0], "right").tolist() == [5, 5]
    assert game.world.holds(game.world.cells_at(3, 4), Grass).all()
    assert game.counts() == {"hares": 0.0, "stags": 1.0}
    assert act(game, game.hunters[1], "up").tolist() == [5, 5]
    assert act(game, game.hunters[1], "down").tolist() == [0, 0]
    assert act(game, game.hunters[0], "left").tolist() == [0, 0]


def test_all_hunters_next_to_the_stag_share_it_and_the_others_do_not():
    game = game_of([(3, 3), (2, 4), (3, 5), (2, 5)])
    put(game, Stag, 3, 4)
    rewards = [act(game, hunter, "right").tolist() for hunter in game.hunters]
    assert rewards == [[5, 5], [5, 5], [5, 5], [0, 0]]


def test_a_hunter_that_is_diagonal_to_the_stag_does_not_help():
    game = game_of([(3, 3), (2, 5)])
    put(game, Stag, 3, 4)
    assert act(game, game.hunters[0], "right").tolist() == [0, 0]


def test_what_is_owed_does_not_outlive_the_epoch():
    game = game_of([(3, 3), (2, 4)])
    put(game, Stag, 3, 4)
    act(game, game.hunters[0], "right")
    game.reset()
    arrange(game, [(3, 3), (2, 4)])
    assert act(game, game.hunters[1], "up").tolist() == [0, 0]
    assert game.counts() == {"hares": 0.0, "stags": 0.0}


def test_animals_appear_with_their_probabilities():
    game = Staghunt(RandomModel, copies=1000)
    game.begin_turn()
    empty = 1000 * (13 * 13 - 4)
    assert game.world.count(Hare).sum() / empty == pytest.approx(0.002, abs=0.0005)
    assert game.world.count(Stag).sum() / empty == pytest.approx(0.001, abs=0.0004)


def test_walls_and_hunters_stay_as_many():
    game = Staghunt(RandomModel, copies=8)
    record = play(game, random_actions(game, 80))
    assert_nothing_but_these_changes(record, game.world.numbers_of([Wall, Hunter]))


def test_rewards_are_hares_and_shares():
    game = Staghunt(RandomModel, StaghuntRules(agents=2), copies=64)
    result = game.run_epoch()
    caught = game.counts()
    # Two hunters share a stag; of one that falls in the last turn a share may stay unpaid.
    assert result.total_reward <= caught["hares"] + 10 * caught["stags"]
    assert result.total_reward == pytest.approx(caught["hares"] + 10 * caught["stags"], abs=0.5)
    assert caught["hares"] > 1


def test_a_copy_lives_through_the_same_alone():
    assert_a_copy_lives_through_the_same_alone(Staghunt)


def test_a_seed_repeats_a_run():
    assert_seeds_repeat_a_run(Staghunt)
