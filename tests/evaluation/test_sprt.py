"""The sequential test: right verdicts, few wrong ones, and no favour for quick games."""

import math
import random

import pytest

from keisei.evaluation.match_result import PlayedGame
from keisei.evaluation.sprt import BOUND, Sprt, expected_share, log_likelihood_ratio, parse_sprt
from keisei.shogi.judging import Reason


def game(points):
    """A game of the player as black with 1, 1/2 or 0 points."""
    winner = {1: 0, 0.5: None, 0: 1}[points]
    return PlayedGame(("7g7f",), 0, 0, winner, Reason.CHECKMATE)


def played_out(test, share, draw, most=20_000):
    """Feed games of a player with this winning probability until the test ends."""
    for number in range(most):
        if test.add(number, game(int(draw.random() < share))):
            break
    return test


def test_the_bounds_are_those_of_five_per_cent():
    assert pytest.approx(math.log(19)) == BOUND


def test_an_even_score_speaks_for_neither_side_of_a_symmetric_question():
    assert log_likelihood_ratio([10, 20, 40, 20, 10], 0.45, 0.55) == pytest.approx(0, abs=1e-9)


def test_only_wins_and_losses_in_whole_pairs_are_a_plain_binomial():
    # With the scores 0 and 1 alone the most likely distribution with a mean is that mean itself.
    low, high = 0.5, 0.6
    expected = 30 * math.log(high / low) + 10 * math.log((1 - high) / (1 - low))
    assert log_likelihood_ratio([10, 0, 0, 0, 30], low, high) == pytest.approx(expected, abs=0.02)


def test_the_ratio_is_that_of_the_normal_approximation_for_small_differences():
    counts = [100, 200, 400, 210, 110]
    low, high = expected_share(0), expected_share(5)
    scores, pairs = (0, 0.25, 0.5, 0.75, 1), sum(counts)
    mean = sum(c * s for c, s in zip(counts, scores, strict=True)) / pairs
    variance = sum(c * (s - mean) ** 2 for c, s in zip(counts, scores, strict=True)) / pairs
    expected = pairs * (high - low) * (2 * mean - low - high) / (2 * variance)
    assert log_likelihood_ratio(counts, low, high) == pytest.approx(expected, rel=0.02)


def test_only_wins_are_enough_in_the_end_but_not_at_once():
    test = Sprt(0, 50)
    for number in range(20):
        assert not test.add(number, game(1))
    played_out(test, 1, random.Random(1))
    assert test.verdict == "stronger"
    assert 10 < test.pairs < 60


@pytest.mark.parametrize(("elo", "verdict"), [(100, "stronger"), (0, "not stronger")])
def test_wrong_verdicts_are_about_as_rare_as_promised(elo, verdict):
    draw = random.Random(7)
    tests = [played_out(Sprt(0, 100), expected_share(elo), draw) for _ in range(100)]
    wrong = sum(test.verdict != verdict for test in tests)
    assert wrong <= 12  # 5 are expected, with a standard deviation of 2.2


def test_pairs_count_in_the_order_of_their_numbers():
    early, late = Sprt(0, 50), Sprt(0, 50)
    for number in range(4, 200):
        late.add(number, game(1))
    assert late.pairs == 0
    for number in range(4):
        late.add(number, game(0))
    for number in range(200):
        early.add(number, game(0 if number < 4 else 1))
    assert late.report() == early.report()


def test_draws_count_half():
    test = Sprt(-20, 20)
    for number in range(40):
        test.add(number, game(0.5))
    assert test.pairs == 20
    assert test.log_likelihood_ratio == pytest.approx(0, abs=1e-6)


def test_the_words_name_question_verdict_and_evidence():
    test = Sprt(0, 50)
    assert test.text().startswith(
        "SPRT +0, +50: undecided after 0 pairs (log-likelihood ratio 0.00"
    )
    played_out(test, 1, random.Random(1))
    assert f"stronger after {test.pairs} pairs" in test.text()
    assert test.report()["verdict"] == "stronger"


@pytest.mark.parametrize("text", ["5", "5,5", "10,0", "a,b", "0,1,2", "nan,5", "0,99999"])
def test_what_is_no_question_is_one_sentence(text):
    with pytest.raises(ValueError, match="is not two Elo differences, the lower one first"):
        parse_sprt(text)


def test_a_question_is_two_numbers():
    assert parse_sprt("-5, 2.5") == (-5, 2.5)
