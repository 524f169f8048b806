"""Pictures of ratings: a player on the ladder, and the curve of a run."""

from __future__ import annotations

import math
from collections.abc import Sequence

from keisei.evaluation.chart import Chart
from keisei.evaluation.ladder import LadderResult
from keisei.evaluation.ladder_rungs import Rung
from keisei.evaluation.ratings import Rating

_WIDTH, _ROW, _TOP, _LEFT, _RIGHT, _BOTTOM = 760, 26, 60, 120, 110, 46
_RUNG, _PLAYER, _BAND, _GRID = "#1f5fa8", "#c0392b", "#f6dcd8", "#e4e4e4"


class _Scale:
    """From numbers to places on the sheet, with round numbers to mark."""

    def __init__(self, low: float, high: float, first: float, last: float) -> None:
        wanted = max(high - low, 1e-9) / 5
        power = 10.0 ** math.floor(math.log10(wanted))
        step = next(power * size for size in (1, 2, 5, 10) if power * size >= wanted)
        begin, end = math.floor(low / step), math.ceil(high / step)
        self.ticks = [step * number for number in range(begin, max(end, begin + 1) + 1)]
        self._first, self._last = first, last

    def __call__(self, number: float) -> float:
        low, high = self.ticks[0], self.ticks[-1]
        return self._first + (number - low) / (high - low) * (self._last - self._first)


def draw_ladder(result: LadderResult, ladder: Sequence[Rung]) -> Chart:
    """Every rung at its rating with its interval, the player as a band across them."""
    low, high = result.rating.low, result.rating.high
    ends = [low, high, *(bound for rung in ladder for bound in rung.rating)]
    bottom = _TOP + _ROW * len(ladder)
    chart = Chart(_WIDTH, bottom + _BOTTOM)
    across = _Scale(min(ends), max(ends), _LEFT, _WIDTH - _RIGHT)
    chart.area((across(low), _TOP), (across(high), bottom), colour=_BAND)
    _mark_ratings_below(chart, across, bottom)
    _draw_rungs(chart, across, result, ladder)
    value = across(result.rating.value)
    chart.line([(value, _TOP), (value, bottom)], colour=_PLAYER, width=2)
    title = f"{result.player}: {result.rating.value:.0f} [{low:.0f}, {high:.0f}]"
    chart.words((_WIDTH / 2, 22), title, anchor="middle", size=16, colour=_PLAYER)
    chart.words((_WIDTH - 12, _TOP - 14), "score (games)", anchor="end", size=11)
    return chart


def _mark_ratings_below(chart: Chart, across: _Scale, bottom: float) -> None:
    for tick in across.ticks:
        chart.line([(across(tick), _TOP), (across(tick), bottom)], colour=_GRID)
        chart.words((across(tick), bottom + 14), f"{tick:.0f}", anchor="middle", size=11)
    words = "rating in points of Elo, random = 0; lines are 95% intervals"
    chart.words((_WIDTH / 2, bottom + 34), words, anchor="middle", size=11)


def _draw_rungs(chart: Chart, across: _Scale, result: LadderResult, ladder: Sequence[Rung]) -> None:
    """The strongest on top, each with the player's score against it at the right."""
    met = {visit.rung.name: visit.results for visit in result.visits}
    for row, rung in enumerate(reversed(ladder)):
        y = _TOP + _ROW * (row + 0.5)
        value, low, high = map(across, rung.rating)
        chart.words((_LEFT - 12, y), rung.name, anchor="end")
        chart.line([(low, y), (high, y)], colour=_RUNG, width=1.5)
        chart.dot((value, y), colour=_RUNG)
        if rung.name in met:
            games, points = met[rung.name].games, met[rung.name].points
            score = f"{points / games:.0%} ({games})"
            chart.words((_WIDTH - 12, y), score, anchor="end", colour=_PLAYER)


def draw_curve(title: str, steps: Sequence[int], ratings: Sequence[Rating]) -> Chart:
    """Ratings over steps, joined, each with its interval."""
    height, bottom = 420, 420 - _BOTTOM
    chart = Chart(_WIDTH, height)
    across = _Scale(min(steps), max(steps), 80, _WIDTH - 30)
    bounds = [bound for rating in ratings for bound in rating]
    up = _Scale(min(bounds), max(bounds), bottom, _TOP)
    for tick in up.ticks:
        chart.line([(80, up(tick)), (_WIDTH - 30, up(tick))], colour=_GRID)
        chart.words((70, up(tick)), f"{tick:.0f}", anchor="end", size=11)
    for tick in across.ticks:
        chart.words((across(tick), bottom + 14), f"{tick:,.0f}", anchor="middle", size=11)
    places = [(across(step), up(r.value)) for step, r in zip(steps, ratings, strict=True)]
    chart.line(places, colour=_RUNG, width=2)
    for (x, y), rating in zip(places, ratings, strict=True):
        chart.line([(x, up(rating.low)), (x, up(rating.high))], colour=_RUNG, width=1.5)
        chart.dot((x, y), colour=_RUNG)
    words = "rating (Elo; the oldest checkpoint is 0) over steps; lines are 95% intervals"
    chart.words((_WIDTH / 2, bottom + 34), words, anchor="middle", size=11)
    chart.words((_WIDTH / 2, 22), title, anchor="middle", size=16)
    return chart
