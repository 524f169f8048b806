"""How long to think: from the clocks of a `go` to seconds."""

from __future__ import annotations

from dataclasses import dataclass

from keisei.play.usi_protocol import Go

_MOVES_TO_COME = 30
_LONGEST_EXTENSION = 3.0
_WITHOUT_CLOCK_S = 1.0
_LARGEST_SHARE_OF_MARGIN = 0.5
_CLOCKS = ("btime", "wtime", "byoyomi", "binc", "winc")


@dataclass(frozen=True)
class ThinkingTime:
    """Seconds since `go` was read."""

    target: float
    """When to answer if the search has settled on a move."""
    deadline: float
    """When to answer whatever it knows: the clock runs out a margin later."""


def thinking_time(go: Go, mover: int, margin: float) -> ThinkingTime | None:
    """How long the player `mover` (0 black, 1 white) may think; None leaves it to other limits.

    `margin` (seconds) is kept back of what the clock has, for the way to the other program. A `go`
    without any limit gets a second.
    """
    if go.movetime is not None:
        return _exactly(go.movetime / 1000, margin)
    if any(getattr(go, clock) is not None for clock in _CLOCKS):
        return _by_clock(go, mover, margin)
    if go.infinite or go.nodes is not None or go.depth is not None:
        return None
    return _exactly(_WITHOUT_CLOCK_S, 0.0)


def _exactly(seconds: float, margin: float) -> ThinkingTime:
    usable = less_margin(seconds, margin)
    return ThinkingTime(usable, usable)


def _by_clock(go: Go, mover: int, margin: float) -> ThinkingTime:
    """A share of the main time, and all that comes back with each move."""
    times = (go.btime, go.binc) if mover == 0 else (go.wtime, go.winc)
    main, increment = ((time or 0) / 1000 for time in times)
    byoyomi = (go.byoyomi or 0) / 1000
    # Some programs add the increment to the clock before the move and some after it. A clock that
    # shows less than one increment is still to get it.
    available = main + byoyomi + (increment if main < increment else 0.0)
    usable = less_margin(available, margin)
    target = min(main / _MOVES_TO_COME + byoyomi + increment, usable)
    return ThinkingTime(target, min(target * _LONGEST_EXTENSION, usable))


def less_margin(seconds: float, margin: float) -> float:
    """What is left to think; of a time too short for the margin, a part."""
    return seconds - min(margin, seconds * _LARGEST_SHARE_OF_MARGIN)
