"""Names of squares. Numbers are those of black's view: 0 is 9a, 80 is 1i."""

from __future__ import annotations

from keisei.shogi.errors import NotationError

RANKS = "abcdefghi"


def square_name(square: int) -> str:
    """USI name of a square: 0 is "9a"."""
    return f"{9 - square % 9}{RANKS[square // 9]}"


def square_number(name: str) -> int:
    """Number of a square by its USI name."""
    if len(name) != 2 or name[0] not in "123456789" or name[1] not in RANKS:
        raise NotationError(f"{name!r} is not a square; squares run from 1a to 9i")
    return RANKS.index(name[1]) * 9 + 9 - int(name[0])
