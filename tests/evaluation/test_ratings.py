"""Ratings: known ones are found again, intervals hold them, and lopsided results stay finite."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keisei.evaluation.ratings import Pairing, RatingError, expected_score, fit_ratings
from keisei.evaluation.statistics import elo_of_share


def simulated(ratings, games, seed, reach=2):
    """Results of players who meet those up to `reach` places away; a fifth of the games drawn."""
    random = np.random.default_rng(seed)
    names = sorted(ratings, key=ratings.get)
    found = []
    for place, name in enumerate(names):
        for other in names[place + 1 : place + 1 + reach]:
            score = expected_score(ratings[name], ratings[other])
            drawn = 0.4 * min(score, 1 - score)
            shares = (score - drawn / 2, drawn, 1 - score - drawn / 2)
            found.append(Pairing(name, other, *random.multinomial(games, shares).tolist()))
    return found


def test_a_single_match_gives_the_difference_its_score_predicts():
    ratings = fit_ratings([Pairing("a", "b", 600, 100, 300)], {"b": 0.0})
    assert ratings["a"].value == pytest.approx(elo_of_share(0.65), abs=1)
    assert ratings["b"] == (0, 0, 0)
    assert ratings["a"].low < ratings["a"].value < ratings["a"].high


def test_the_order_of_the_two_players_does_not_matter():
    one = fit_ratings([Pairing("a", "b", 7, 2, 1)], {"b": 100.0})
    other = fit_ratings([Pairing("b", "a", 1, 2, 7)], {"b": 100.0})
    assert one["a"] == pytest.approx(other["a"])


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(0, 300), min_size=1, max_size=8),
    st.integers(0, 10_000),
)
def test_known_ratings_are_found_again(gaps, seed):
    values = np.cumsum([0, *gaps]).tolist()
    ratings = {f"p{number}": float(value) for number, value in enumerate(values)}
    found = fit_ratings(simulated(ratings, 4000, seed), {"p0": 0.0})
    for name, value in ratings.items():
        # Five deviations: one wrong answer in a million.
        assert abs(found[name].value - value) <= 2.6 * (found[name].high - found[name].value) + 2


def test_intervals_hold_the_truth_nineteen_times_in_twenty():
    ratings = {"random": 0.0, "b": 120.0, "c": 300.0, "d": 380.0, "e": 640.0}
    held = []
    for seed in range(300):
        found = fit_ratings(simulated(ratings, 60, seed), {"random": 0.0})
        held += [found[n].low <= value <= found[n].high for n, value in ratings.items() if value]
    assert 0.93 < np.mean(held) < 0.99  # draws make them a little wide


def test_who_won_every_game_has_a_finite_rating_that_more_games_raise():
    few = fit_ratings([Pairing("a", "b", 10, 0, 0)], {"b": 0.0})["a"]
    many = fit_ratings([Pairing("a", "b", 100, 0, 0)], {"b": 0.0})["a"]
    assert 400 < few.value < many.value < 1200
    assert few.low < few.value - 200


def test_a_chain_of_matches_all_won_is_rated_in_order():
    names = ["random", "b", "c", "d", "e"]
    games = [Pairing(b, a, 60, 0, 0) for a, b in pairwise(names)]
    found = fit_ratings(games, {"random": 0.0})
    values = [found[name].value for name in names]
    assert values == sorted(values)
    assert all(500 < b - a < 1200 for a, b in pairwise(values))


def test_given_ratings_stay_and_only_the_new_player_is_rated():
    rungs = {"low": 0.0, "middle": 400.0, "high": 800.0}
    games = [Pairing("new", "low", 18, 0, 2), Pairing("new", "middle", 10, 0, 10)]
    found = fit_ratings([*games, Pairing("new", "high", 2, 0, 18)], rungs)
    assert {name: found[name].value for name in rungs} == pytest.approx(rungs)
    assert found["new"].value == pytest.approx(400, abs=1)
    assert 20 < found["new"].high - 400 < 200


def test_pairs_that_never_met_count_for_nothing():
    games = [Pairing("a", "random", 6, 0, 4), Pairing("ghost", "a", 0, 0, 0)]
    assert set(fit_ratings(games, {"random": 0.0})) == {"a", "random"}


def test_players_without_a_chain_to_a_given_rating_are_refused():
    games = [Pairing("a", "random", 6, 0, 4), Pairing("b", "c", 5, 0, 5)]
    with pytest.raises(RatingError, match="b cannot be rated: no chain of games joins it to rand"):
        fit_ratings(games, {"random": 0.0})
