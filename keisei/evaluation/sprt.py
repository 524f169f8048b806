"""SPRT: a test that ends a match as soon as one of two Elo differences is clearly the better guess.

The unit is a pair of games with the same opening and colours exchanged, which scores 0, 1/2, 1,
3/2 or 2: the two games of a pair depend on each other, pairs do not. The test is the generalised
one: for each of the two differences it takes the distribution of the five scores that has this mean
and makes the pairs seen most likely, and compares those two likelihoods. That is exact for many
pairs; for few, the error rates of 5% are approximate.
"""

from __future__ import annotations

import math
from typing import Any, Literal

from keisei.evaluation.match_result import PlayedGame

ERROR_RATE = 0.05
"""How often each of the two wrong verdicts may be given."""
BOUND = math.log((1 - ERROR_RATE) / ERROR_RATE)
"""The logarithm of the likelihood ratio at which the test ends, above or below 0."""

_POINTS = {"win": 2, "draw": 1, "loss": 0}
_SCORES = (0.0, 0.25, 0.5, 0.75, 1.0)
_UNSEEN = 1e-3  # scores that have not occurred yet are not impossible
_HALVINGS = 60

Verdict = Literal["stronger", "not stronger"]


def parse_sprt(text: str) -> tuple[float, float]:
    """Read `ELO0,ELO1`."""
    try:
        low, high = (float(word) for word in text.split(","))
    except ValueError:
        low = high = 0.0
    if not -2000 <= low < high <= 2000:
        raise ValueError(f"{text!r} is not two Elo differences, the lower one first, such as 0,50")
    return low, high


class Sprt:
    """The test of "`low` Elo stronger" against "`high` Elo stronger", fed with finished games.

    Games end in any order, short ones first; pairs are counted in the order of their numbers, so
    that the verdict does not lean towards whoever wins quickly.
    """

    def __init__(self, low: float, high: float) -> None:
        self.verdict: Verdict | None = None
        self.log_likelihood_ratio = 0.0
        self._differences = (low, high)
        self._points: dict[int, int] = {}
        self._counts = [0] * len(_SCORES)

    @property
    def pairs(self) -> int:
        """How many pairs were counted."""
        return sum(self._counts)

    def add(self, number: int, game: PlayedGame) -> bool:
        """Take note of a game; whether the test has come to its end."""
        self._points[number] = _POINTS[game.outcome]
        while self.verdict is None and {2 * self.pairs, 2 * self.pairs + 1} <= self._points.keys():
            first = 2 * self.pairs
            self._counts[self._points[first] + self._points[first + 1]] += 1
            self._look()
        return self.verdict is not None

    def _look(self) -> None:
        ratio = log_likelihood_ratio(self._counts, *map(expected_share, self._differences))
        self.log_likelihood_ratio = ratio
        if abs(ratio) >= BOUND:
            self.verdict = "stronger" if ratio > 0 else "not stronger"

    def text(self) -> str:
        """`SPRT +0, +50: stronger after 34 pairs (log-likelihood ratio 2.97 of ±2.94)`."""
        low, high = self._differences
        return (
            f"SPRT {low:+g}, {high:+g}: {self.verdict or 'undecided'} after {self.pairs} pairs "
            f"(log-likelihood ratio {self.log_likelihood_ratio:.2f} of ±{BOUND:.2f})"
        )

    def report(self) -> dict[str, Any]:
        """The same, ready for JSON."""
        return {
            "elo0": self._differences[0],
            "elo1": self._differences[1],
            "verdict": self.verdict,
            "pairs": self.pairs,
            "log_likelihood_ratio": self.log_likelihood_ratio,
            "bound": BOUND,
        }


def expected_share(elo: float) -> float:
    """The share of the points that a difference of ratings predicts."""
    return 1 / (1 + 10 ** (-elo / 400))


def log_likelihood_ratio(counts: list[int], low: float, high: float) -> float:
    """How much likelier the pairs are when the mean share is `high` than when it is `low`.

    counts: how many pairs scored 0, 1/4, 1/2, 3/4 and 1 of their points.
    """
    seen = [max(count, _UNSEEN) for count in counts]
    tilts = [(mean, _tilt(seen, mean)) for mean in (low, high)]
    ratio = 0.0
    for count, score in zip(seen, _SCORES, strict=True):
        at_low, at_high = (1 + tilt * (score - mean) for mean, tilt in tilts)
        ratio += count * math.log(at_low / at_high)
    return ratio


def _tilt(counts: list[float], mean: float) -> float:
    """The t for which the weights count / (1 + t (score - mean)) have this mean.

    They are the most likely distribution with this mean (Lagrange's condition). The sum below falls
    with t, from plus to minus infinity between the two poles.
    """
    low, high = -1 / (1 - mean), 1 / mean
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        surplus = sum(
            count * (score - mean) / (1 + middle * (score - mean))
            for count, score in zip(counts, _SCORES, strict=True)
        )
        low, high = (middle, high) if surplus > 0 else (low, middle)
    return (low + high) / 2
