"""How a training run stands, and its figures as text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_DECIMALS = ((100, 1), (10, 2), (1, 3), (0.01, 4), (1e-4, 6), (0, 1))
"""From which size on how many decimals are shown."""
_BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class TrainingSnapshot:
    """How a training run stands.

    `seconds` is the time trained in this sitting. `results` counts how games ended and `reasons`
    why; both are empty where games have no winner. `figures` holds the latest value of each,
    `history` its recent ones. `evaluations` has a line each, newest last. `board` is the text of
    one running game, or empty. `shares` says what the time was spent on. `workers` has a line for
    each worker process, or for whoever `workers_title` says. `round_name` is what `updates` counts.
    """

    run: str
    updates: int
    steps: int
    total_steps: int
    seconds: float
    steps_per_second: float
    eta_seconds: float | None
    games: int
    results: dict[str, int]
    reasons: dict[str, int]
    figures: dict[str, float]
    history: dict[str, list[float]]
    evaluations: list[str]
    board: str
    shares: dict[str, float]
    workers: list[str]
    workers_title: str = "Workers"
    board_title: str = "A game"
    evaluations_title: str = "Evaluation"
    round_name: str = "update"


def sparkline(values: Sequence[float], width: int) -> str:
    """The last `width` values as bars between their extremes; a gap for what is not finite."""
    recent = values[-width:] if width > 0 else []
    finite = [value / 2 for value in recent if math.isfinite(value)]  # halves cannot overflow
    low, high = min(finite, default=0.0), max(finite, default=0.0)

    def bar(value: float) -> str:
        if not math.isfinite(value):
            return " "
        return _BARS[round((value / 2 - low) / (high - low) * 7)] if high > low else _BARS[3]

    return "".join(map(bar, recent))


def format_duration(seconds: float | None) -> str:
    """Seconds as 4:05, 1:04:05 or 2d 03:04; `unknown` for None and what is not finite."""
    if seconds is None or not math.isfinite(seconds):
        return "unknown"
    minutes, second = divmod(max(0, round(seconds)), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}d {hour:02}:{minute:02}"
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def format_figure(name: str, value: float) -> str:
    """A figure in nine columns; names that end in `share` are percentages."""
    size = abs(value)
    if not math.isfinite(value):
        return str(value)
    if name.endswith("share"):
        return f"{value:.1%}"
    if size >= 1e6 or 0 < size < 1e-4:
        return f"{value:.2e}"
    if size >= 1000:
        return f"{value:,.0f}"
    decimals = next(digits for least, digits in _DECIMALS if size >= least)
    return f"{value:.{decimals}f}"


def done_share(snapshot: TrainingSnapshot) -> float:
    """How much of the run is done, from 0 to 1."""
    return min(1.0, snapshot.steps / max(1, snapshot.total_steps))


def results_of(snapshot: TrainingSnapshot) -> list[tuple[str, int, float]]:
    """(name, count, share of the games) of each result."""
    return [
        (name, count, count / max(1, snapshot.games)) for name, count in snapshot.results.items()
    ]


def label_of(name: str) -> str:
    """The name of a figure for people."""
    return "KL" if name == "kl" else name.replace("_", " ")
