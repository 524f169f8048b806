"""Openings, so that a match is many different games also between players without chance.

`data/openings.txt` is a book of even positions, one a line, as USI moves from the start position;
`scripts/make_openings.py` made it.
"""

from __future__ import annotations

from importlib.resources import files
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keisei.shogi.batch import COLOUR
from keisei.shogi.policy_output_mapper import PolicyOutputMapper
from keisei.shogi.shogi_game import ShogiGame
from keisei.shogi.vector_shogi import VectorShogi

SHORTEST = 2
_DRAWS_PER_OPENING = 20
_PLIES_FOR_VARIETY = 2


class Openings(NamedTuple):
    """O openings of up to P plies from the usual start position."""

    actions: NDArray[np.int64]
    """[O, P] int64: legal actions; those from `lengths` on do not count."""
    lengths: NDArray[np.int64]
    """[O] int64."""


def book_openings(count: int, *, random_plies: int | None = None, seed: int) -> Openings:
    """`count` openings of the book in random order, all leading to different positions.

    Up to `random_plies` random plies follow each. By default that is none, or 2 when the book is
    too short for `count` openings.
    """
    book = read_book()
    if random_plies is None:
        random_plies = _PLIES_FOR_VARIETY if count > len(book) else 0
    draw = np.random.default_rng(seed)
    order = draw.permutation(len(book))
    seen: set[str] = set()
    found: list[list[int]] = []
    for attempt in range(count * _DRAWS_PER_OPENING if random_plies else len(book)):
        game = _play_on(book[order[attempt % len(book)]], random_plies, draw)
        position = game.sfen().rsplit(" ", 1)[0]  # without the number of the move
        if game.outcome() is None and position not in seen:
            seen.add(position)
            found.append([PolicyOutputMapper.action_of(m, i % 2) for i, m in enumerate(game.moves)])
        if len(found) == count:
            return _as_openings(found)
    raise ValueError(
        f"{len(book)} openings with up to {random_plies} random plies each do not give {count} "
        "different positions: allow more random plies"
    )


def read_book() -> list[list[str]]:
    """The openings that ship, each as its USI moves."""
    text = files("keisei.evaluation").joinpath("data", "openings.txt").read_text("utf-8")
    return [line.split() for line in text.splitlines() if not line.startswith("#")]


def _play_on(moves: list[str], most_plies: int, draw: np.random.Generator) -> ShogiGame:
    """The game after these moves and 0 to `most_plies` random ones."""
    game = ShogiGame()
    for move in moves:
        game.make_move(move)
    for _ in range(int(draw.integers(most_plies + 1))):
        legal = game.legal_actions()
        if legal:
            game.make_move(legal[draw.integers(len(legal))])
    return game


def _as_openings(found: list[list[int]]) -> Openings:
    lengths = np.array([len(actions) for actions in found])
    actions = np.zeros((len(found), int(lengths.max())), np.int64)
    for row, played in enumerate(found):
        actions[row, : len(played)] = played
    return Openings(actions, lengths)


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
