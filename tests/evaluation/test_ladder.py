"""The ladder: rungs in the right order, games where they tell most, ratings that fit."""

import json

import pytest

from keisei.evaluation.ladder import (
    GAMES_A_VISIT,
    LadderError,
    climb,
    ladder_report,
    ladder_text,
    rate_for_training,
)
from keisei.evaluation.ladder_rungs import BUILT_IN, SPECS, Rung, rungs, shipped_games
from keisei.evaluation.opponents import make_player
from keisei.evaluation.players import RandomPlayer
from keisei.evaluation.ratings import Rating
from tests.core.small import one_thread, small_agent
from tests.training.command_line import keisei


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with one_thread():
        yield


@pytest.fixture(scope="module")
def greedy_half():
    """A player between two rungs, on the built-in ladder."""
    player = make_player("mix:0.45:greedy", 5)
    return climb(player, rungs(BUILT_IN), games=80, seed=3)


def values():
    return {rung.name: rung.rating.value for rung in rungs()}


def test_every_rung_has_a_rating_and_random_is_zero():
    ratings = values()
    assert set(ratings) == set(SPECS)
    assert ratings["random"] == 0
    assert all(value > 0 for name, value in ratings.items() if name != "random")


@pytest.mark.parametrize(
    ("weaker", "stronger"),
    [
        ("random", "10% fairy -20"),
        ("10% fairy -20", "25% fairy -20"),
        ("25% fairy -20", "50% fairy -20"),
        ("50% fairy -20", "fairy -20"),
        ("fairy -20", "greedy"),
        ("fairy -10", "greedy"),
        ("10% greedy", "30% greedy"),
        ("30% greedy", "60% greedy"),
        ("60% greedy", "greedy"),
        ("greedy", "70% ab:1"),
        ("70% ab:1", "90% ab:1"),
        ("90% ab:1", "ab:1"),
        ("ab:1", "ab:2"),
        ("ab:2", "ab:3"),
        ("greedy", "fairy 0"),
        ("fairy 0", "fairy 20"),
        ("fairy 0", "gnushogi 1"),
    ],
)
def test_the_shipped_games_order_the_rungs(weaker, stronger):
    assert values()[weaker] < values()[stronger]


def test_rungs_come_weakest_first():
    ratings = [rung.rating.value for rung in rungs()]
    assert ratings == sorted(ratings)


def test_the_shipped_table_holds_games_of_known_rungs_alone():
    for pairing in shipped_games():
        assert {pairing.player, pairing.opponent} <= set(SPECS)
        assert pairing.games > 0


def test_a_player_is_rated_between_the_rungs_it_stands_between(greedy_half):
    ratings = values()
    assert ratings["30% greedy"] < greedy_half.rating.value < ratings["60% greedy"]
    assert greedy_half.rating.low < greedy_half.rating.value < greedy_half.rating.high


def test_the_games_are_played_near_the_strength_of_the_player(greedy_half):
    assert greedy_half.games == 80
    near = {"30% greedy", "60% greedy"}
    games = {visit.rung.name: visit.results.games for visit in greedy_half.visits}
    assert sum(games.get(name, 0) for name in near) >= 30
    assert "ab:2" not in games


def test_a_rung_that_climbs_the_ladder_finds_its_own_rating():
    random = climb(RandomPlayer(7), rungs(BUILT_IN), games=120, seed=5)
    assert abs(random.rating.value) < 2 * (random.rating.high - random.rating.value)


def test_a_climb_ends_when_the_rating_is_known_well_enough():
    ladder = rungs(BUILT_IN)
    told = []
    result = climb(RandomPlayer(7), ladder, games=400, seed=5, precision=150, on_visit=told.append)
    assert result.games < 400
    assert result.rating.high - result.rating.value <= 150
    assert told[-1] == result
    assert [standing.games for standing in told] == [
        GAMES_A_VISIT * (number + 1) for number in range(len(told))
    ]
    assert all(s.rating.high - s.rating.value > 150 for s in told[:-1])


def test_the_same_seeds_climb_the_same():
    def up(seed):
        return climb(RandomPlayer(1), rungs(BUILT_IN), games=30, seed=seed)

    assert up(1) == up(1)
    assert up(1).visits != up(2).visits


def test_too_few_games_are_refused():
    with pytest.raises(LadderError, match="at least 10 games, not 9"):
        climb(RandomPlayer(1), rungs(BUILT_IN), games=9, seed=1)


def test_engines_that_are_not_installed_are_left_out_with_a_sentence(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda *args, **kwargs: None)
    told = []
    ladder = rungs(["random", "10% fairy -20"])
    result = climb(RandomPlayer(1), ladder, games=40, seed=1, on_missing=told.append)
    assert [visit.rung.name for visit in result.visits] == ["random"]
    assert told == [
        "The rung 10% fairy -20 is left out: "
        "there is no program 'fairy-stockfish' to play with: is it installed?"
    ]


def test_a_ladder_without_any_rung_that_can_be_played_is_refused(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda *args, **kwargs: None)
    with pytest.raises(LadderError, match="no rung of the ladder can be played here"):
        climb(RandomPlayer(1), rungs(["gnushogi 1", "gnushogi 2"]), games=10, seed=1)


def test_the_table_and_the_report_say_what_was_played(greedy_half):
    text = ladder_text(greedy_half)
    value, low, high = greedy_half.rating
    assert text.splitlines()[-1] == (
        f"mix:0.45:greedy: rating {value:.0f} [{low:.0f}, {high:.0f}] after 80 games; random is 0"
    )
    assert len(text.splitlines()) == len(greedy_half.visits) + 2
    report = json.loads(json.dumps(ladder_report(greedy_half)))
    assert report["rating"] == {"value": value, "low": low, "high": high}
    counts = [rung["wins"] + rung["draws"] + rung["losses"] for rung in report["rungs"]]
    assert sum(counts) == report["games"] == 80


def test_a_player_may_have_the_name_of_a_rung():
    low, high = Rating(0.0, 0.0, 0.0), Rating(300.0, 250.0, 350.0)
    ladder = [Rung("random", "random", low), Rung("30% greedy", "mix:0.3:greedy", high)]
    assert climb(RandomPlayer(1), ladder, games=20, seed=1).rating.value < 300


def test_training_gets_a_rating_from_rungs_that_need_no_other_program():
    assert not any("usi" in SPECS[name] or "gnushogi" in SPECS[name] for name in BUILT_IN)
    evaluation = rate_for_training(small_agent(), games=20, seed=1)
    figures = evaluation.figures
    assert evaluation.opponent == "ladder"
    assert figures["rating_low"] < figures["rating"] < figures["rating_high"]
    assert evaluation.line == (
        f"rating {figures['rating']:.0f} "
        f"[{figures['rating_low']:.0f}, {figures['rating_high']:.0f}] after 20 games"
    )


def test_the_command_rates_a_player_and_writes_its_picture(tmp_path):
    arguments = ("random", "--games", 20, "--json", "--plot", tmp_path / "picture")
    run = keisei("ladder", *arguments)
    assert run.returncode == 0
    assert json.loads(run.stdout)["games"] == 20
    assert run.stderr.count("rating ") == 2
    assert {path.name for path in tmp_path.iterdir()} == {"picture.png", "picture.svg"}


def test_the_command_refuses_an_unknown_player_in_one_sentence():
    run = keisei("ladder", "nobody")
    assert run.returncode == 2
    assert run.stderr.startswith("keisei: unknown player 'nobody'")
    assert run.stderr.count("\n") == 1
