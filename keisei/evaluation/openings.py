"""Random openings, so that a match is many different games also between players without chance."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keisei.shogi.batch import COLOUR
from keisei.shogi.vector_shogi import VectorShogi

SHORTEST = 2
_DRAWS_PER_OPENING = 20


class Openings(NamedTuple):
    """O openings of up to P plies from the usual start position."""

    actions: NDArray[np.int64]
    """[O, P] int64: legal actions; those from `lengths` on do not count."""
    lengths: NDArray[np.int64]
    """[O] int64."""


def random_openings(count: int, *, most_plies: int, seed: int) -> Openings:
    """`count` openings that all lead to different positions.

    Their lengths go evenly from 2 to `most_plies`. After none of them is the game over.
    """
    if most_plies < SHORTEST:
        raise ValueError(f"openings have at least {SHORTEST} plies, not {most_plies}")
    seen: set[bytes] = set()
    found: list[tuple[NDArray[np.int64], int]] = []
    for first in range(0, count * _DRAWS_PER_OPENING, count):
        for actions, length, position in _draw(count, most_plies, seed, first):
            if position not in seen:
                seen.add(position)
                found.append((actions, length))
        if len(found) >= count:
            return Openings(
                np.array([actions for actions, _ in found[:count]]),
                np.array([length for _, length in found[:count]]),
            )
    raise ValueError(
        f"there are too few different openings of {SHORTEST} to {most_plies} plies "
        f"({len(found)} of {count} were found): allow longer ones"
    )


def _draw(
    count: int, most_plies: int, seed: int, first: int
) -> list[tuple[NDArray[np.int64], int, bytes]]:
    """(actions, length, final position) of the openings first to first + count - 1 of the seed."""
    games = VectorShogi(count, seed=seed, first_game=first, max_moves=most_plies + 1, threads=1)
    lengths = SHORTEST + (first + np.arange(count)) % (most_plies - SHORTEST + 1)
    actions = np.zeros((count, most_plies), np.int64)
    positions = np.zeros((count, COLOUR + 1), np.int8)  # board, hands and mover
    over = np.zeros(count, np.bool_)
    for ply in range(most_plies):
        actions[:, ply] = games.random_actions()
        games.step(actions[:, ply])
        over |= (games.reason > 0) & (ply < lengths)
        reached = lengths == ply + 1
        positions[reached] = games.positions[reached, : COLOUR + 1]
    return [
        (actions[row], int(lengths[row]), positions[row].tobytes())
        for row in np.flatnonzero(~over).tolist()
    ]
