"""A random stream for each game: SplitMix64, eight bytes of state inside the game's record.

Streams depend on the seed and the number of the game alone, so the games played do not change
with the number of threads, the size of the batch or how the games are split over processes.
"""

from __future__ import annotations

import numpy as np

from keisei.shogi.kernels import kernel

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLY_1 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLY_2 = np.uint64(0x94D049BB133111EB)
_SHIFT_1, _SHIFT_2, _SHIFT_3 = np.uint64(30), np.uint64(27), np.uint64(31)
_TOP_HALF = np.uint64(32)
_TOP_53 = np.uint64(11)


@kernel
def _mix(word):
    word = (word ^ (word >> _SHIFT_1)) * _MULTIPLY_1
    word = (word ^ (word >> _SHIFT_2)) * _MULTIPLY_2
    return word ^ (word >> _SHIFT_3)


@kernel(entry=True)
def seed_stream(game, seed, game_number):
    """Start the stream of game `game_number` (both numbers uint64)."""
    game.random = _mix(_mix(seed + _STEP) + game_number * _STEP)


@kernel
def _next(game):
    game.random += _STEP
    return _mix(game.random)


@kernel
def random_below(game, limit):
    """A number from 0 to limit - 1; the bias is below limit / 2**32."""
    return np.int64(((_next(game) >> _TOP_HALF) * np.uint64(limit)) >> _TOP_HALF)


@kernel
def random_fraction(game):
    """A number from 0 up to, not including, 1."""
    return np.float64(_next(game) >> _TOP_53) * (1.0 / 9007199254740992.0)
