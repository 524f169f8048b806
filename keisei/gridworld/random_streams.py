"""A random stream for each copy of a world: SplitMix64, eight bytes a copy.

What happens in a copy depends on the seed and the copy's number alone, so copy 5 of 64 lives
through the same as copy 5 alone.
"""

from __future__ import annotations

import math

import numpy as np

from keisei.compiled.kernels import kernel
from keisei.compiled.splitmix import STEP, first_state, fraction_of, mix, number_below


@kernel(entry=True)
def seed_streams(seed, first_copy, states):
    """Start the streams of the copies from `first_copy` on; states: [B] uint64."""
    for copy in range(len(states)):
        states[copy] = first_state(seed, np.uint64(first_copy + copy))


@kernel
def next_word(states, copy):
    """64 random bits of a copy's stream."""
    states[copy] += STEP
    return mix(states[copy])


@kernel(entry=True)
def draw_fractions(states, copies, drawn):
    """drawn: [n], for each of `copies` [n] a number from 0 up to, not including, 1."""
    for place in range(len(copies)):
        drawn[place] = fraction_of(next_word(states, copies[place]))


@kernel(entry=True)
def toss(states, flat, cells_a_copy, probability, chosen):
    """The cells that come up; each does with `probability`, independently of the others.

    flat: [n] ascending; chosen: [>= n]. Returns how many. Not one number a cell is drawn but one a
    success: how many cells fail before the next is geometric.
    """
    count = 0
    copy = -1
    skip = 0
    for place in range(len(flat)):
        cell = flat[place]
        if cell >= (copy + 1) * cells_a_copy:
            copy = cell // cells_a_copy
            skip = _failures(states, copy, probability)
        if skip == 0:
            chosen[count] = cell
            count += 1
            skip = _failures(states, copy, probability)
        else:
            skip -= 1
    return count


@kernel
def _failures(states, copy, probability):
    """How often in a row something of this probability fails."""
    if probability >= 1.0:
        return 0
    if probability <= 0.0:
        return 2**62
    luck = 1.0 - fraction_of(next_word(states, copy))  # above 0
    return np.int64(min(math.log(luck) / math.log1p(-probability), 4e18))


@kernel(entry=True)
def pick_distinct(states, flat, cells_a_copy, picked):
    """Choose different cells at random in every copy; picked: [number, B].

    flat: [n] ascending, rearranged. Returns a copy that has too few of them, or -1.
    """
    number, copies = picked.shape
    first = 0
    for copy in range(copies):
        behind = first
        while behind < len(flat) and flat[behind] < (copy + 1) * cells_a_copy:
            behind += 1
        if behind - first < number:
            return copy
        for place in range(number):
            other = first + place + number_below(next_word(states, copy), behind - first - place)
            flat[first + place], flat[other] = flat[other], flat[first + place]
            picked[place, copy] = flat[first + place]
        first = behind
    return -1
