import numpy as np
import pytest

from keisei.gridworld.entity import Wall
from keisei.gridworld.examples.tag import It, Player, Tag, TagRules
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


def game_of(places, *, copies=2):
    """Players at these places of a field of 5 x 5 cells; the first is it."""
    game = Tag(RandomModel, TagRules(height=7, width=7, agents=len(places)), copies=copies)
    arrange(game, places)
    game.players[0].look_like(game.world, It, np.ones(copies, np.bool_))
    return game


def who_is_it(game):
    return [player.is_it(game.world).tolist() for player in game.players]


def test_a_player_gets_10_for_its_turn_unless_it_is_it():
    game = game_of([(1, 1), (5, 5)])
    assert act(game, game.players[0], "down").tolist() == [0, 0]
    assert act(game, game.players[1], "up").tolist() == [10, 10]


@pytest.mark.parametrize("other", [(3, 4), (2, 3), (3, 2), (4, 3)])
def test_it_is_passed_on_to_a_player_next_to_it(other):
    game = game_of([(3, 3), other])
    toward = {(3, 4): "right", (2, 3): "up", (3, 2): "left", (4, 3): "down"}[other]
    assert act(game, game.players[0], toward).tolist() == [10, 10]
    assert who_is_it(game) == [[False, False], [True, True]]
    assert game.counts() == {"tags": 1.0}


def test_it_is_passed_on_after_the_move():
    game = game_of([(3, 1), (3, 4)])
    act(game, game.players[0], "right")
    assert who_is_it(game)[0] == [True, True]
    act(game, game.players[0], "right")
    assert game.world.agents.columns[0].tolist() == [3, 3]
    assert who_is_it(game) == [[False, False], [True, True]]


def test_diagonals_do_not_count_and_neither_does_a_player_that_is_not_it():
    game = game_of([(1, 1), (3, 3), (3, 5)])
    act(game, game.players[1], "right")  # next to the third; it is not it
    assert who_is_it(game)[0] == [True, True]
    act(game, game.players[0], "down")
    act(game, game.players[1], "left")  # (3, 3): it is at (2, 1), two columns away
    act(game, game.players[0], "right")  # (2, 2): diagonal
    assert who_is_it(game) == [[True, True], [False, False], [False, False]]


def test_only_one_of_two_neighbours_is_tagged_the_lower_first():
    game = game_of([(3, 3), (2, 3), (4, 3)])
    act(game, game.players[0], "up")
    assert who_is_it(game) == [[False, False], [False, False], [True, True]]


def test_a_player_knows_whether_it_is_it():
    game = game_of([(1, 1), (5, 5)])
    assert [player.pov(game.world)[:, -1].tolist() for player in game.players] == [[1, 1], [0, 0]]


def test_exactly_one_player_is_it_always():
    game = Tag(RandomModel, copies=16)
    record = play(game, random_actions(game, 19))
    assert_nothing_but_these_changes(record, game.world.numbers_of([Wall, It, Player]))
    assert (record.maps[-1] == game.world.number_of(It)).sum() == 16
    assert game.counts()["tags"] > 0


def test_everybody_is_it_first_equally_often():
    game = Tag(RandomModel, copies=2000)
    times = np.sum(who_is_it(game), axis=1)
    assert times.sum() == 2000
    assert (abs(times - 400) < 72).all()  # four deviations


def test_a_copy_lives_through_the_same_alone():
    assert_a_copy_lives_through_the_same_alone(Tag, TagRules(max_turns=100))


def test_a_seed_repeats_a_run():
    assert_seeds_repeat_a_run(Tag)
