"""How sure a match is: Wilson intervals, Elo differences, and both as text and JSON."""

from __future__ import annotations

import math
from statistics import mean, median
from typing import Any, NamedTuple

from keisei.evaluation.match_result import MatchResult, Tally, reason_text
from keisei.shogi.pieces import BLACK, WHITE

Z_95 = 1.959963984540054
"""Standard deviations either side of the mean that hold 95% of a normal distribution."""


class Interval(NamedTuple):
    """Where a share lies with 95% confidence."""

    low: float
    high: float


class Elo(NamedTuple):
    """A difference of ratings and its 95% interval; None where it has no bound."""

    difference: float | None
    low: float | None
    high: float | None


def wilson_interval(points: float, games: int) -> Interval:
    """Wilson's score interval for the share points / games.

    With draws as half points it is a little wide: draws vary less than wins and losses.
    """
    if games < 1:
        raise ValueError("an interval needs at least one game")
    share, spread = points / games, Z_95**2 / games
    centre = (share + spread / 2) / (1 + spread)
    reach = math.sqrt(spread * (share * (1 - share) + spread / 4)) / (1 + spread)
    # Exact at the ends, where the subtraction leaves a rounding error.
    low = 0.0 if points == 0 else centre - reach
    high = 1.0 if points == games else centre + reach
    return Interval(low, high)


def elo_of_share(share: float) -> float | None:
    """The rating difference that predicts a share of the points; None for all or nothing."""
    if not 0 < share < 1:
        return None
    return 400 * math.log10(share / (1 - share))


def elo_difference(tally: Tally) -> Elo:
    """How much stronger the player is, by its points."""
    interval = wilson_interval(tally.points, tally.games)
    share = tally.points / tally.games
    return Elo(elo_of_share(share), elo_of_share(interval.low), elo_of_share(interval.high))


def elo_text(elo: Elo) -> str:
    """`Elo +120 [+60, +185]`; `Elo > +310` when all games were won, `Elo < -310` when all lost."""
    if elo.difference is not None:
        return f"Elo {elo.difference:+.0f} [{elo.low:+.0f}, {elo.high:+.0f}]"
    return f"Elo > {elo.low:+.0f}" if elo.high is None else f"Elo < {elo.high:+.0f}"


def summary_line(result: MatchResult) -> str:
    """`vs random: 196 wins, 3 draws (2 cut), 1 loss; wins 98.0% [95.0, 99.2]`."""
    tally = result.tally()
    low, high = wilson_interval(tally.wins, tally.games)
    cut = f" ({tally.cut} cut)" if tally.cut else ""
    return (
        f"vs {result.opponent}: {_count(tally.wins, 'win', 'wins')}, "
        f"{_count(tally.draws, 'draw', 'draws')}{cut}, {_count(tally.losses, 'loss', 'losses')}; "
        f"wins {tally.wins / tally.games:.1%} [{100 * low:.1f}, {100 * high:.1f}]"
    )


def summary_text(result: MatchResult) -> str:
    """A few lines for people: the result, the Elo difference, colours and reasons."""
    lines = [summary_line(result), elo_text(elo_difference(result.tally()))]
    for colour, name in ((BLACK, "black"), (WHITE, "white")):
        lines.append(f"as {name}: {_row(result.tally_of_colour(colour))}")
    for reason, tally in result.tally_by_reason().items():
        lines.append(f"by {reason_text(reason)}: {_row(tally)}")
    return "\n".join(lines)


def _row(tally: Tally) -> str:
    return f"{tally.wins} won, {tally.draws} drawn, {tally.losses} lost"


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def report(result: MatchResult) -> dict[str, Any]:
    """Everything about a match but its moves, ready for JSON; draws include the cut games."""
    tally = result.tally()
    elo = elo_difference(tally)
    lengths = result.lengths()
    return {
        "player": result.player,
        "opponent": result.opponent,
        "games": tally.games,
        **_counts(tally),
        "win_share": tally.wins / tally.games,
        "win_interval": list(wilson_interval(tally.wins, tally.games)),
        "score": tally.points / tally.games,
        "score_interval": list(wilson_interval(tally.points, tally.games)),
        "elo": {**elo._asdict(), "text": elo_text(elo)},
        "as_black": _counts(result.tally_of_colour(BLACK)),
        "as_white": _counts(result.tally_of_colour(WHITE)),
        "by_reason": {
            reason.name.lower(): _counts(of_reason)
            for reason, of_reason in result.tally_by_reason().items()
        },
        "plies": {
            "mean": mean(lengths),
            "median": median(lengths),
            "shortest": min(lengths),
            "longest": max(lengths),
        },
    }


def _counts(tally: Tally) -> dict[str, int]:
    return {"wins": tally.wins, "draws": tally.draws, "losses": tally.losses, "cut": tally.cut}
