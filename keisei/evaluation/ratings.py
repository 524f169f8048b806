"""Ratings from results: Bradley-Terry on the scale of Elo, with 95% intervals.

A player of rating r scores 1 / (1 + 10 ** ((s - r) / 400)) of the points against one of rating s.
A draw is half a win and half a loss.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keisei.evaluation.statistics import Z_95

ELO_OF_LOGIT = 400 / math.log(10)
"""Points of Elo in one unit of log odds."""
_VIRTUAL_DRAWS = 1.0
"""Draws of each player in the prior: who won every game then has a finite rating."""
_MOST_STEPS = 200
_LONGEST_STEP = 3.0  # of log odds: beyond that the curvature says little


class RatingError(ValueError):
    """Results from which no ratings follow."""


class Pairing(NamedTuple):
    """What two players did against each other, counted for the first."""

    player: str
    opponent: str
    wins: int
    draws: int
    losses: int

    @property
    def games(self) -> int:
        """How many games they played."""
        return self.wins + self.draws + self.losses

    @property
    def points(self) -> float:
        """Of the first of the two: one for a win, a half for a draw."""
        return self.wins + self.draws / 2


class Rating(NamedTuple):
    """A rating and its 95% interval, in points of Elo."""

    value: float
    low: float
    high: float


def expected_score(rating: float, opponent: float) -> float:
    """The share of the points that the first player gets."""
    return 1 / (1 + 10 ** ((opponent - rating) / 400))


def fit_ratings(pairings: Collection[Pairing], fixed: Mapping[str, float]) -> dict[str, Rating]:
    """The most probable rating of every player, by name.

    `fixed` holds the ratings that are given, at least one: they make the scale, without interval.
    Each player that is rated has one draw in the prior, shared out over the opponents it met.
    """
    names = sorted({name for p in pairings if p.games for name in (p.player, p.opponent)})
    _check_connected(pairings, names, fixed)
    points = _points_table(pairings, names)
    given = np.array([name in fixed for name in names])
    start = np.array([fixed.get(name, 0.0) for name in names]) / ELO_OF_LOGIT
    if not given.all():
        start[~given] = start[given].mean()
    logits, deviations = _climb(points, start, ~given)
    values, reaches = logits * ELO_OF_LOGIT, Z_95 * deviations * ELO_OF_LOGIT
    return {
        name: Rating(float(value), float(value - reach), float(value + reach))
        for name, value, reach in zip(names, values, reaches, strict=True)
    }


def _check_connected(
    pairings: Collection[Pairing], names: list[str], fixed: Mapping[str, float]
) -> None:
    """Refuse players whom no chain of games joins to a given rating."""
    reached = {name for name in names if name in fixed}
    while True:
        more = {
            name
            for pairing in pairings
            if pairing.games and not reached.isdisjoint(pairing[:2])
            for name in pairing[:2]
        }
        if more <= reached:
            break
        reached |= more
    if lost := sorted(set(names) - reached):
        raise RatingError(
            f"{lost[0]} cannot be rated: no chain of games joins it to {' or '.join(sorted(fixed))}"
        )


def _points_table(pairings: Collection[Pairing], names: list[str]) -> NDArray[np.float64]:
    """[N, N] float64: the points of each player against each other one, the prior's included."""
    number = {name: index for index, name in enumerate(names)}
    games: Counter[str] = Counter()
    for pairing in pairings:
        games[pairing.player] += pairing.games
        games[pairing.opponent] += pairing.games
    points = np.zeros((len(names), len(names)))
    for pairing in pairings:
        if pairing.games:
            one, other = number[pairing.player], number[pairing.opponent]
            share = pairing.games / games[pairing.player] + pairing.games / games[pairing.opponent]
            half_draws = _VIRTUAL_DRAWS * share / 4
            points[one, other] += pairing.points + half_draws
            points[other, one] += pairing.games - pairing.points + half_draws
    return points


def _climb(
    points: NDArray[np.float64], logits: NDArray[np.float64], free: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """([N] log odds of the highest likelihood, [N] deviations), those not `free` as they were.

    Newton's method; the likelihood is concave, and steps are bounded.
    """
    logits, deviations = logits.copy(), np.zeros(len(logits))
    games = points + points.T
    for _ in range(_MOST_STEPS):
        shares = 1 / (1 + np.exp(logits[None, :] - logits[:, None]))
        slope = (points - games * shares).sum(1)[free]
        weights = games * shares * (1 - shares)
        curvature = (np.diag(weights.sum(1)) - weights)[np.ix_(free, free)]
        step = np.linalg.solve(curvature, slope)
        longest = np.abs(step).max(initial=0.0)
        logits[free] += step * min(1.0, _LONGEST_STEP / max(longest, 1e-300))
        if longest < 1e-9:
            break
    else:
        raise RatingError("the results are too uneven for ratings: play more games between equals")
    deviations[free] = np.sqrt(np.diag(np.linalg.inv(curvature)))
    return logits, deviations
