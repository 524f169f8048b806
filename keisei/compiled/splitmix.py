"""SplitMix64: random words from eight bytes of state that go up by STEP."""

from __future__ import annotations

import numpy as np

from keisei.compiled.kernels import kernel

STEP = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLY_1 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLY_2 = np.uint64(0x94D049BB133111EB)
_SHIFT_1, _SHIFT_2, _SHIFT_3 = np.uint64(30), np.uint64(27), np.uint64(31)
_TOP_HALF = np.uint64(32)
_TOP_53 = np.uint64(11)


@kernel
def mix(state):
    """The random word of a state."""
    word = (state ^ (state >> _SHIFT_1)) * _MULTIPLY_1
    word = (word ^ (word >> _SHIFT_2)) * _MULTIPLY_2
    return word ^ (word >> _SHIFT_3)


@kernel
def first_state(seed, stream):
    """Where stream number `stream` of a seed begins (both uint64)."""
    return mix(mix(seed + STEP) + stream * STEP)


@kernel
def number_below(word, limit):
    """A number from 0 to limit - 1; the bias is below limit / 2**32."""
    return np.int64(((word >> _TOP_HALF) * np.uint64(limit)) >> _TOP_HALF)


@kernel
def fraction_of(word):
    """A number from 0 up to, not including, 1."""
    return np.float64(word >> _TOP_53) * (1.0 / 9007199254740992.0)
