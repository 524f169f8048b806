"""A random stream for each game: SplitMix64, eight bytes of state inside the game's record.

Streams depend on the seed and the number of the game alone, so the games played do not change
with the number of threads, the size of the batch or how the games are split over processes.
"""

from __future__ import annotations

from keisei.compiled.kernels import kernel
from keisei.compiled.splitmix import STEP, first_state, fraction_of, mix, number_below


@kernel(entry=True)
def seed_stream(game, seed, game_number):
    """Start the stream of game `game_number` (both numbers uint64)."""
    game.random = first_state(seed, game_number)


@kernel
def _next(game):
    game.random += STEP
    return mix(game.random)


@kernel
def random_below(game, limit):
    """A number from 0 to limit - 1; the bias is below limit / 2**32."""
    return number_below(_next(game), limit)


@kernel
def random_fraction(game):
    """A number from 0 up to, not including, 1."""
    return fraction_of(_next(game))
