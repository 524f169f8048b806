"""What a search is asked and what it answers; `TreeSearch` gives the answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Limits:
    """When a search ends: at the first of these that is reached."""

    nodes: int | None = None
    seconds: float | None = None
    depth: int | None = None
    """Of the principal variation, in plies."""
    stop: Callable[[], bool] = lambda: False
    """Asked between two batches of leaves."""


@dataclass(frozen=True)
class Line:
    """One move of the root and what the search thinks comes after it."""

    moves: tuple[str, ...]
    """In USI, the root's move first; never empty."""
    value: float
    """From -1 (lost) to 1 (won), for the player to move at the root."""
    visits: int
    mate: int | None = None
    """Plies to mate if it is proven: positive when the root's mover mates, negative when it is
    mated; None when nothing is proven."""


@dataclass(frozen=True)
class SearchReport:
    """What a search knows, while it runs or when it has ended."""

    lines: tuple[Line, ...]
    """Best first, at least one unless the position has no legal move."""
    nodes: int
    seconds: float
    depth: int
    """Length of the principal variation."""
    seldepth: int
    """Of the deepest leaf."""
    hashfull: int
    """How much of the tree's room is used, in thousandths."""


class Searcher(Protocol):
    """Searches one game at a time, and keeps what it learned from one move to the next."""

    def set_position(self, sfen: str, moves: Sequence[str]) -> None:
        """The game: a start position and the USI moves since; the tree is kept where it fits.

        Raises `ValueError` (a sentence) for a position that cannot be read or an illegal move.
        """

    def search(
        self,
        limits: Limits,
        *,
        lines: int = 1,
        report: Callable[[SearchReport], None] | None = None,
        report_every: float = 0.5,
    ) -> SearchReport:
        """Search until a limit is reached; `report` is told how it goes every so many seconds."""

    def clear(self) -> None:
        """Forget the tree."""
