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
from keisei.shogi.attacks import piece_attacks
from keisei.shogi.batch import COLOUR, IN_CHECK, OWN_HAND, PLY_HIGH, PLY_LOW, REPETITIONS
from keisei.shogi.bitboard import LOW_SQUARES, lowest_bit
from keisei.shogi.tactics_kernel import write_tactics

_KINDS = np.int64(14)
_ATTACKS = 2 * _KINDS
_LEVELS = 2 * _ATTACKS
_MOST_COUNTED = np.int64(3)
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
        piece = np.int64(position[square])
        on_squares[square] = 0
        if piece > 0:
            on_squares[square] = 1 << (piece - 1)
        elif piece < 0:
            on_squares[square] = 1 << (_KINDS - piece - 1)
    if detail >= 1:
        occupied, turned_occupied = _occupied(position, False), _occupied(position, True)
        _add_attacks(position, False, occupied, on_squares)
        _add_attacks(position, True, turned_occupied, on_squares)
        if detail >= 2:
            write_tactics(position, on_squares, occupied, turned_occupied, words[:, 1])


@kernel
def _add_attacks(position, turned, occupied, on_squares):
    """Add what one side attacks; `turned`: the opponent's."""
    sign, first, first_level = np.int64(1), _ATTACKS, _LEVELS
    if turned:
        sign, first, first_level = np.int64(-1), _ATTACKS + _KINDS, _LEVELS + _MOST_COUNTED
    occupied_low, occupied_high = occupied
    for square in range(81):
        piece = sign * position[80 - square if turned else square]
        if piece > 0:
            low, high = piece_attacks(piece, square, occupied_low, occupied_high)
            bit = np.int64(1) << (first + piece - 1)
            _attack(low, 0, turned, bit, first_level, on_squares)
            _attack(high, LOW_SQUARES, turned, bit, first_level, on_squares)


@kernel
def _occupied(position, turned):
    """The squares with a piece, as the mover sees them or, `turned`, the opponent."""
    low = high = 0
    for square in range(81):
        if position[80 - square if turned else square]:
            if square < LOW_SQUARES:
                low |= 1 << square
            else:
                high |= 1 << (square - LOW_SQUARES)
    return low, high


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
