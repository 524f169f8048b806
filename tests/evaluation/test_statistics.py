"""Intervals and Elo differences against values worked out elsewhere."""

import json
import math

import pytest

from keisei.evaluation.match_result import MatchResult, PlayedGame, Tally
from keisei.evaluation.statistics import (
    elo_difference,
    elo_of_share,
    elo_text,
    report,
    summary_line,
    wilson_interval,
)
from keisei.shogi.judging import Reason


def match_of(*, wins=0, repetitions=0, cut=0, losses=0, opponent="random"):
    """A match with these counts; the player has black in every second game."""
    endings = [
        *[(True, Reason.CHECKMATE)] * wins,
        *[(None, Reason.REPETITION)] * repetitions,
        *[(None, Reason.MAX_MOVES)] * cut,
        *[(False, Reason.CHECKMATE)] * losses,
    ]
    games = []
    for number, (won, reason) in enumerate(endings):
        colour = number % 2
        winner = None if won is None else colour if won else 1 - colour
        games.append(PlayedGame(("7g7f",) * (10 + number), 2, colour, winner, reason))
    return MatchResult("ours", opponent, tuple(games))


@pytest.mark.parametrize(
    ("points", "games", "low", "high"),
    [
        (5, 10, 0.2366, 0.7634),
        (8, 10, 0.4902, 0.9433),
        (1, 100, 0.0018, 0.0545),
        (196, 200, 0.9497, 0.9922),
        (10, 10, 0.7225, 1),
        (0, 10, 0, 0.2775),
    ],
)
def test_wilson_intervals(points, games, low, high):
    assert wilson_interval(points, games) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize("games", [1, 3, 7, 1000])
def test_intervals_of_all_and_nothing_end_exactly_at_one_and_zero(games):
    assert wilson_interval(games, games).high == 1
    assert wilson_interval(0, games).low == 0


def test_half_points_are_allowed():
    low, high = wilson_interval(2.5, 10)
    assert low < 0.25 < high


def test_no_games_have_no_interval():
    with pytest.raises(ValueError, match="at least one game"):
        wilson_interval(0, 0)


def test_elo_of_a_share():
    assert elo_of_share(0.5) == 0
    assert elo_of_share(10 / 11) == pytest.approx(400)
    assert elo_of_share(0.76) == pytest.approx(200.2, abs=0.1)
    assert elo_of_share(0) is None
    assert elo_of_share(1) is None


def test_elo_of_a_match_lies_within_its_interval():
    elo = elo_difference(Tally(wins=60, draws=10, losses=30, cut=0))
    assert elo.low < elo.difference < elo.high
    assert elo.difference == pytest.approx(400 * math.log10(65 / 35))
    assert elo_text(elo) == "Elo +108 [+37, +178]"  # shares 0.5525 to 0.7364


def test_elo_has_one_bound_when_every_game_was_won_or_lost():
    won = elo_difference(Tally(wins=10, draws=0, losses=0, cut=0))
    assert (won.difference, won.high) == (None, None)
    assert elo_text(won) == "Elo > +166"
    lost = elo_difference(Tally(wins=0, draws=0, losses=10, cut=0))
    assert (lost.difference, lost.low) == (None, None)
    assert elo_text(lost) == "Elo < -166"


def test_the_summary_is_one_line():
    assert summary_line(match_of(wins=196, repetitions=1, cut=2, losses=1)) == (
        "vs random: 196 wins, 3 draws (2 cut), 1 loss; wins 98.0% [95.0, 99.2]"
    )
    assert summary_line(match_of(wins=1, repetitions=1, opponent="greedy")) == (
        "vs greedy: 1 win, 1 draw, 0 losses; wins 50.0% [9.5, 90.5]"
    )


def test_the_report_counts_by_colour_and_by_reason():
    found = report(match_of(wins=3, repetitions=1, cut=1, losses=1))
    assert found["as_black"] == {"wins": 2, "draws": 1, "losses": 0, "cut": 1}
    assert found["as_white"] == {"wins": 1, "draws": 1, "losses": 1, "cut": 0}
    assert found["by_reason"] == {
        "checkmate": {"wins": 3, "draws": 0, "losses": 1, "cut": 0},
        "repetition": {"wins": 0, "draws": 1, "losses": 0, "cut": 0},
        "max_moves": {"wins": 0, "draws": 1, "losses": 0, "cut": 1},
    }
    assert found["score"] == pytest.approx(4 / 6)
    assert found["plies"] == {"mean": 12.5, "median": 12.5, "shortest": 10, "longest": 15}


@pytest.mark.parametrize("counts", [{"wins": 4}, {"losses": 4}, {"wins": 2, "losses": 2}])
def test_the_report_is_plain_json_without_infinities(counts):
    found = report(match_of(**counts))
    assert json.loads(json.dumps(found, allow_nan=False)) == found
