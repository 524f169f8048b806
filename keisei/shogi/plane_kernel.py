"""The planes of positions by kernels: as sets of bits, and from these dense.

Some planes say something of each square, 0 or 1: their values on a square are a set of bits. The
others are even, alike on all squares.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import prange
from numpy.typing import NDArray

from keisei.compiled.kernels import kernel
from keisei.shogi.attacks import piece_attacks, without_lowest
from keisei.shogi.batch import COLOUR, IN_CHECK, OWN_HAND, PLY_HIGH, PLY_LOW, REPETITIONS
from keisei.shogi.bitboard import LOW_SQUARES, lowest_bit, lowest_square
from keisei.shogi.tactics_kernel import ATTACKS, KINDS, LEVELS, MOST_COUNTED, write_tactics

_BIT_OF_PIECE = np.array(  # by piece number and 14
    [*(1 << (KINDS + kind) for kind in range(13, -1, -1)), 0, *(1 << kind for kind in range(14))],
    np.int64,
)
WORD_BITS = 62
"""So many planes have their bits in a word."""


class Expansion(NamedTuple):
    """How a feature set makes planes of positions."""

    detail: int
    """See `write_square_sets`."""
    words: int
    """Of the bits of a square."""
    even_planes: int
    scales: NDArray[np.float32]
    unary_slots: NDArray[np.int64]
    unary_levels: NDArray[np.int64]
    """See `_write_even_planes`."""


@kernel(entry=True)
def write_sparse_planes(positions, expansion, sets, even):
    """Set the bits [B, 81, W] int64 and the even planes [B, E] float32 of positions [B, 100]."""
    write_square_sets(positions, expansion.detail, sets)
    _write_even_planes(
        positions, expansion.scales, expansion.unary_slots, expansion.unary_levels, even
    )


@kernel
def _write_even_planes(positions, scales, unary_slots, unary_levels, values):
    """Set values [B, 18 or 74] float32 of the even planes.

    First hands, colour, ply, earlier occurrences and check, divided by scales [18]; then, if there
    is room, whether the hands hold at least unary_levels [56] of the kinds unary_slots [56].
    """
    hands_and_colour = COLOUR + 1 - OWN_HAND
    most_plies = scales[hands_and_colour]
    for row in range(len(positions)):
        position = positions[row]
        for plane in range(hands_and_colour):
            values[row, plane] = position[OWN_HAND + plane]
        low, high = np.int64(position[PLY_LOW]) & 255, np.int64(position[PLY_HIGH]) & 255
        values[row, hands_and_colour] = min(low + 256 * high, most_plies)
        values[row, hands_and_colour + 1] = position[REPETITIONS]
        values[row, hands_and_colour + 2] = position[IN_CHECK]
        for plane in range(len(scales)):
            values[row, plane] /= scales[plane]
        for plane in range(len(scales), values.shape[1]):
            unary = plane - len(scales)
            values[row, plane] = position[OWN_HAND + unary_slots[unary]] >= unary_levels[unary]


@kernel(entry=True)
def write_square_sets(positions, detail, sets):
    """Set the bits [B, 81, W] int64 of the other planes.

    14 own pieces and 14 of the opponent; with a detail of 1 or more what each of these kinds
    attacks, and what at least 1, 2 and 3 pieces of either side attack; with 2 a second word, of
    `tactics_kernel`.
    """
    for row in range(len(positions)):
        _write_squares(positions[row], detail, sets[row])


@kernel(entry=True, parallel=True)
def write_square_sets_in_parallel(positions, detail, sets):
    """The same by all threads."""
    for row in prange(len(positions)):
        _write_squares(positions[row], detail, sets[row])


@kernel
def _write_squares(position, detail, words):
    """Set the bits [81, W] of one position."""
    on_squares = words[:, 0]
    for square in range(81):
        on_squares[square] = _BIT_OF_PIECE[KINDS + position[square]]
    if detail >= 1:
        own, occupied = _squares_of(position, False)
        theirs, turned_occupied = _squares_of(position, True)
        _add_attacks(position, False, own, occupied, on_squares)
        _add_attacks(position, True, theirs, turned_occupied, on_squares)
        if detail >= 2:
            sides = (own, occupied), (theirs, turned_occupied)
            write_tactics(position, on_squares, sides, words[:, 1])


@kernel
def _add_attacks(position, turned, pieces, occupied, on_squares):
    """Add what one side attacks, whose `pieces` these are; `turned`: the opponent's."""
    sign, first, first_level = np.int64(1), ATTACKS, LEVELS
    if turned:
        sign, first, first_level = np.int64(-1), ATTACKS + KINDS, LEVELS + MOST_COUNTED
    left_low, left_high = pieces
    occupied_low, occupied_high = occupied
    while left_low | left_high:
        square = lowest_square(left_low, left_high)
        left_low, left_high = without_lowest(left_low, left_high)
        piece = sign * position[80 - square if turned else square]
        low, high = piece_attacks(piece, square, occupied_low, occupied_high)
        bit = np.int64(1) << (first + piece - 1)
        _attack(low, 0, turned, bit, first_level, on_squares)
        _attack(high, LOW_SQUARES, turned, bit, first_level, on_squares)


@kernel
def _squares_of(position, turned):
    """The squares with a piece of the mover or, `turned`, of the opponent, and those with any.

    As that player sees them. Without branches, which nobody could foresee.
    """
    sign = np.int64(-1 if turned else 1)
    low = high = any_low = any_high = np.int64(0)
    for square in range(LOW_SQUARES):
        piece = sign * position[80 - square if turned else square]
        low |= np.int64(piece > 0) << square
        any_low |= np.int64(piece != 0) << square
    for square in range(LOW_SQUARES, 81):
        piece = sign * position[80 - square if turned else square]
        high |= np.int64(piece > 0) << (square - LOW_SQUARES)
        any_high |= np.int64(piece != 0) << (square - LOW_SQUARES)
    return (low, high), (any_low, any_high)


@kernel
def _attack(targets, offset, turned, bit, first_level, on_squares):
    """One piece attacks `targets`, a set of squares of which the first is `offset`."""
    while targets:
        square = offset + lowest_bit(targets)
        targets &= targets - 1
        if turned:
            square = 80 - square
        # As many of the three bits are set as pieces were seen; to add 1 finds the next.
        levels = (on_squares[square] >> first_level) & 7
        on_squares[square] |= bit | (((levels + 1) & 7) << first_level)


@kernel(entry=True)
def write_planes(sets, even, square_planes, even_planes, one, planes):
    """Fill planes [B, 81, C]: square_planes are those of the sets' bits, even_planes the others.

    The numbers written are bits of any type whose zero is 0, and `one` is its one.
    """
    of_no_bits = np.zeros(planes.shape[2], planes.dtype)
    for row in range(len(planes)):
        for index in range(len(even_planes)):
            of_no_bits[even_planes[index]] = even[row, index]
        for square in range(81):
            for plane in range(len(of_no_bits)):
                planes[row, square, plane] = of_no_bits[plane]
            for word in range(sets.shape[2]):
                bits = sets[row, square, word]
                while bits:
                    index = WORD_BITS * word + lowest_bit(bits)
                    planes[row, square, square_planes[index]] = one
                    bits &= bits - 1
