import numpy as np
import pytest

from keisei.gridworld.examples.iowa import (
    DECKS,
    DeckA,
    DeckB,
    DeckC,
    DeckD,
    Gambler,
    Iowa,
    IowaRules,
    Table,
    TableEdge,
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

COPIES = 4000


def one_gambler(copies=COPIES):
    game = Iowa(RandomModel, IowaRules(height=5, width=5, agents=1), copies=copies)
    arrange(game, [(2, 2)])
    return game


@pytest.mark.parametrize(
    ("deck", "good", "bad", "chance"),
    [
        (DeckA, 1.1, -1.4, 0.5),
        (DeckB, 1.1, -11.4, 0.1),
        (DeckC, 0.6, 0.1, 0.5),
        (DeckD, 0.6, -1.9, 0.1),
    ],
)
def test_a_deck_gives_a_good_or_a_bad_card(deck, good, bad, chance):
    game = one_gambler()
    game.world.place(deck, game.world.cells_at(1, 2))
    rewards = act(game, game.gamblers[0], "up")
    assert np.unique(rewards.round(3)) == pytest.approx([bad, good])
    deviation = np.sqrt(chance * (1 - chance) / COPIES)
    assert np.mean(rewards < good - 0.01) == pytest.approx(chance, abs=4 * deviation)
    assert game.world.count(deck).sum() == 0
    expected = {each.__name__: float(each is deck) for each in DECKS}
    assert game.counts() == expected


def test_two_decks_lose_and_two_win_on_average():
    means = [deck.value - deck.loss * deck.loss_chance for deck in DECKS]
    assert means == pytest.approx([-0.15, -0.15, 0.35, 0.35])


def test_a_wall_costs_1_and_bare_table_nothing():
    game = one_gambler(copies=2)
    assert act(game, game.gamblers[0], "up").tolist() == [0, 0]
    assert act(game, game.gamblers[0], "up").tolist() == [-1, -1]
    assert sum(game.counts().values()) == 0


def test_another_gambler_stops_a_gambler():
    game = Iowa(RandomModel, IowaRules(height=5, width=5), copies=2)
    arrange(game, [(2, 2), (2, 3)])
    assert act(game, game.gamblers[0], "right").tolist() == [0, 0]
    assert game.world.agents.columns[0].tolist() == [2, 2]


def test_decks_appear_with_probability_01_all_four_as_often():
    game = Iowa(RandomModel, copies=400)
    game.begin_turn()
    found = [int(game.world.count(deck).sum()) for deck in DECKS]
    assert sum(found) / (400 * (18 * 18 - 2)) == pytest.approx(0.01, abs=0.0012)
    assert max(found) < 1.5 * min(found)


def test_walls_and_gamblers_stay_as_many():
    game = Iowa(RandomModel, copies=8)
    record = play(game, random_actions(game, 80))
    assert_nothing_but_these_changes(record, game.world.numbers_of([TableEdge, Gambler]))
    assert (record.maps == game.world.number_of(Table)).any()


def test_a_copy_lives_through_the_same_alone():
    assert_a_copy_lives_through_the_same_alone(Iowa)


def test_a_seed_repeats_a_run():
    assert_seeds_repeat_a_run(Iowa)
