import numpy as np
import pytest

from keisei.gridworld.entity import Wall
from keisei.gridworld.examples.cleanup import (
    Apple,
    AppleTree,
    Citizen,
    CleanBeam,
    Cleanup,
    CleanupRules,
    Pollution,
    River,
    ZapBeam,
    pollution,
)
from keisei.gridworld.examples.cleanup_beams import BEAMS, GROUND, PEOPLE
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

RIVER_CELLS = 6 * 29 + 6 * 2
TREES = 6 * 29


def game_of(places, **rules):
    """Citizens at these places, in two copies."""
    game = Cleanup(RandomModel, CleanupRules(agents=len(places), **rules), copies=2)
    arrange(game, places)
    return game


def put(game, kind, row, column):
    game.world.place(kind, game.world.cells_at(row, column, layer=GROUND))


def beam_cells(game, kind):
    """Rows and columns of the cells that a beam covers in the first copy."""
    rows, columns = np.nonzero(game.world.map[0, :, :, BEAMS] == game.world.number_of(kind))
    return set(zip(rows.tolist(), columns.tolist(), strict=True))


def test_the_river_begins_half_polluted_and_the_orchard_with_20_apples():
    world = Cleanup(RandomModel, copies=3).world
    assert (world.count(River) + world.count(Pollution)).tolist() == [RIVER_CELLS] * 3
    assert pollution(world).tolist() == [0.5] * 3
    assert world.count(Apple).tolist() == [20] * 3
    assert (world.count(Apple) + world.count(AppleTree)).tolist() == [TREES] * 3


def test_an_apple_is_worth_1_and_leaves_a_tree():
    game = game_of([(15, 5)], initial_apples=0)
    put(game, Apple, 16, 5)
    assert act(game, game.citizens[0], "down").tolist() == [1, 1]
    assert act(game, game.citizens[0], "up").tolist() == [0, 0]
    assert game.world.count(Apple).tolist() == [0, 0]
    assert game.world.count(AppleTree).tolist() == [TREES] * 2
    assert game.counts()["apples"] == 1


def test_an_apple_behind_another_citizen_stays():
    game = game_of([(15, 5), (16, 5)], initial_apples=0)
    put(game, Apple, 16, 5)
    assert act(game, game.citizens[0], "down").tolist() == [0, 0]
    assert game.world.count(Apple).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("toward", "rows", "columns"),
    [
        ("up", (5, 6, 7), (14, 15, 16)),
        ("right", (7, 8, 9), (16, 17, 18)),
        ("down", (9, 10, 11), (14, 15, 16)),
        ("left", (7, 8, 9), (12, 13, 14)),
    ],
)
def test_a_beam_covers_three_by_three_cells_in_front(toward, rows, columns):
    game = game_of([(8, 15), (8, 20)])
    back = {"up": "down", "down": "up", "left": "right", "right": "left"}[toward]
    act(game, game.citizens[0], back)
    act(game, game.citizens[0], toward)  # at its place again, and turned
    act(game, game.citizens[0], "zap")
    assert beam_cells(game, ZapBeam) == {(row, column) for row in rows for column in columns}


@pytest.mark.uncompiled
def test_a_beam_is_there_until_its_citizen_acts_again():
    game = game_of([(9, 15), (9, 25)])
    first, second = game.citizens
    act(game, first, "clean")
    game.begin_turn()
    act(game, second, "clean")
    assert len(beam_cells(game, CleanBeam)) == 18
    act(game, first, "up")
    assert len(beam_cells(game, CleanBeam)) == 9
    act(game, second, "zap")
    assert (len(beam_cells(game, CleanBeam)), len(beam_cells(game, ZapBeam))) == (0, 9)


@pytest.mark.uncompiled
def test_walls_take_no_beam():
    game = game_of([(19, 1)])
    act(game, game.citizens[0], "clean")  # looking down, at the wall
    assert beam_cells(game, CleanBeam) == set()
    act(game, game.citizens[0], "left")
    act(game, game.citizens[0], "up")
    act(game, game.citizens[0], "clean")
    assert beam_cells(game, CleanBeam) == {(r, c) for r in (15, 16, 17) for c in (1, 2)}


@pytest.mark.uncompiled
def test_cleaning_turns_pollution_into_river_and_earns_nothing():
    game = game_of([(3, 15)], initial_pollution=1.0)
    assert act(game, game.citizens[0], "clean").tolist() == [0, 0]
    assert game.world.count(River).tolist() == [9, 9]
    assert (game.world.count(River) + game.world.count(Pollution)).tolist() == [RIVER_CELLS] * 2
    assert game.counts()["cleaned"] == 9


def test_a_zap_cleans_nothing():
    game = game_of([(3, 15)], initial_pollution=1.0)
    act(game, game.citizens[0], "zap")
    assert game.world.count(River).tolist() == [0, 0]


@pytest.mark.uncompiled
def test_a_zap_costs_1_with_the_next_action_of_those_it_hits_only():
    game = game_of([(8, 15), (10, 16), (12, 15)], initial_apples=0)
    shooter, hit, spared = game.citizens
    assert act(game, shooter, "zap").tolist() == [0, 0]
    assert act(game, hit, "right").tolist() == [-1, -1]
    assert act(game, hit, "left").tolist() == [0, 0]
    assert act(game, spared, "right").tolist() == [0, 0]


def test_a_clean_beam_does_not_hurt():
    game = game_of([(8, 15), (10, 16)])
    act(game, game.citizens[0], "clean")
    assert act(game, game.citizens[1], "right").tolist() == [0, 0]


def test_hits_and_beams_do_not_outlive_the_epoch():
    game = game_of([(8, 15), (10, 16)])
    act(game, game.citizens[0], "zap")
    game.reset()
    arrange(game, [(8, 15), (10, 16)])
    assert beam_cells(game, ZapBeam) == set()
    assert act(game, game.citizens[1], "right").tolist() == [0, 0]


def test_a_citizen_knows_its_place():
    game = game_of([(10, 15), (20 - 1, 30 - 1)])
    assert game.citizens[0].pov(game.world)[0, -2:].tolist() == [0.5, 0.5]
    assert game.citizens[1].pov(game.world)[0, -2:] == pytest.approx([19 / 20, 29 / 30])


@pytest.mark.parametrize(("dirty", "growth"), [(0.0, 1.0), (0.25, 0.5), (0.5, 0.0), (0.8, 0.0)])
def test_growth_falls_in_a_line_with_pollution_to_none_at_the_threshold(dirty, growth):
    rules = CleanupRules(initial_pollution=dirty, pollution_chance=0, initial_apples=0)
    game = Cleanup(RandomModel, rules, copies=500)
    game.begin_turn()
    chance = game.world.count(Apple).sum() / (500 * TREES)
    assert chance == pytest.approx(0.002 * growth, abs=0.0006 if growth else 0)


def test_the_river_gets_dirty_with_probability_009():
    game = Cleanup(RandomModel, CleanupRules(initial_pollution=0), copies=300)
    game.begin_turn()
    assert pollution(game.world).mean() == pytest.approx(0.009, abs=0.0017)
    assert game.counts()["pollution"] == pollution(game.world).mean()


def apples_grown(*, clean):
    """In a copy within 200 turns, from none: two citizens sweep the river, cleaning or not."""
    rules = CleanupRules(initial_apples=0, max_turns=300)
    game = Cleanup(RandomModel, rules, copies=8)
    arrange(game, [(2, 1), (5, 1), *((10, 14 + number) for number in range(8))])
    number = game.citizens[0].action_spec.number
    beam = number("clean" if clean else "up")
    sweep = [action for side in ("right", "left") for action in [beam, *[number(side)] * 3] * 9]
    actions = random_actions(game, 200) % 4  # the others only walk
    actions[:, :2] = np.resize(sweep, 200)[:, np.newaxis, np.newaxis]
    play(game, actions)
    counts = game.counts()
    return counts["apples"] + game.world.count(Apple).mean(), counts["pollution"]


def test_without_cleaning_no_apple_grows_and_with_it_they_do():
    nothing, dirty = apples_grown(clean=False)
    plenty, cleaner = apples_grown(clean=True)
    assert nothing == 0
    assert plenty > 30
    assert dirty > 0.7
    assert cleaner < 0.3


def test_walls_citizens_river_and_orchard_stay_as_large():
    game = Cleanup(RandomModel, copies=6)
    record = play(game, random_actions(game, 80))
    world = game.world
    assert_nothing_but_these_changes(record, world.numbers_of([Wall, Citizen]))
    for kinds, cells in (([River, Pollution], RIVER_CELLS), ([Apple, AppleTree], TREES)):
        found = np.isin(record.maps[..., GROUND], world.numbers_of(kinds)).sum(axis=(2, 3))
        assert (found == cells).all()
    assert not np.isin(record.maps[..., GROUND], world.numbers_of([Citizen, CleanBeam])).any()
    assert set(np.unique(record.maps[..., PEOPLE])) == {0, *world.numbers_of([Wall, Citizen])}


def test_a_copy_lives_through_the_same_alone():
    assert_a_copy_lives_through_the_same_alone(Cleanup)


def test_a_seed_repeats_a_run():
    assert_seeds_repeat_a_run(Cleanup)
