"""The planes of the feature sets on a CPU, written in one pass.

Channels come last, as convolutions want them. The numbers written are bits of any type whose zero
is 0, and `one` is its one.
"""

from __future__ import annotations

import numpy as np

from keisei.compiled.kernels import kernel
from keisei.shogi.attacks import piece_attacks
from keisei.shogi.batch import COLOUR, IN_CHECK, OWN_HAND, PLY_HIGH, PLY_LOW, REPETITIONS
from keisei.shogi.bitboard import LOW_SQUARES, lowest_bit

_KINDS = 14


@kernel(entry=True)
def write_even_planes(positions, scales, unary_slots, unary_levels, values):
    """Set values [B, 18 or 74] float32: what planes say that are alike on all squares.

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
def write_planes(positions, even, scalars, levels, one, planes):
    """Fill planes [B, 81, C] from positions [B, 100] int8 and the values of even planes.

    even: [B, E], of which the first `scalars` come behind the planes of pieces and the others last.
    levels: how far the attackers of a square are counted; without others there are no attacks.
    """
    attacks = 2 * _KINDS + scalars
    attacker_levels = attacks + 2 * _KINDS
    has_attacks = even.shape[1] > scalars
    square_of_none = np.zeros(planes.shape[2], planes.dtype)
    counts = np.empty(81, np.int8)
    for row in range(len(planes)):
        square_of_none[2 * _KINDS : attacks] = even[row, :scalars]
        if has_attacks:
            square_of_none[attacker_levels + 2 * levels :] = even[row, scalars:]
        _fill(positions[row], square_of_none, one, planes[row])
        if has_attacks:
            for side in range(2):
                _add_attacks(
                    positions[row],
                    side == 1,
                    attacks + side * _KINDS,
                    attacker_levels + side * levels,
                    levels,
                    counts,
                    one,
                    planes[row],
                )


@kernel
def _fill(position, square_of_none, one, planes):
    """Fill planes [81, C] with what a square without pieces has, and mark the pieces."""
    for square in range(81):
        for plane in range(len(square_of_none)):
            planes[square, plane] = square_of_none[plane]
        piece = position[square]
        if piece > 0:
            planes[square, piece - 1] = one
        elif piece < 0:
            planes[square, _KINDS - piece - 1] = one


@kernel
def _add_attacks(position, turned, first_plane, first_level, levels, counts, one, planes):
    """Mark what each kind of one side attacks, and what 1, 2, ... of its pieces attack.

    `turned`: it is the opponent's side. counts: [81] int8, scratch.
    """
    counts[:] = 0
    sign = -1 if turned else 1
    occupied_low, occupied_high = _occupied(position, turned)
    for square in range(81):
        piece = np.int64(sign * position[80 - square if turned else square])
        if piece > 0:
            low, high = piece_attacks(piece, square, occupied_low, occupied_high)
            plane = first_plane + piece - 1
            _mark(low, 0, turned, plane, first_level, levels, counts, one, planes)
            _mark(high, LOW_SQUARES, turned, plane, first_level, levels, counts, one, planes)


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
def _mark(squares, offset, turned, plane, first_level, levels, counts, one, planes):
    """Note that one piece attacks `squares`, a set of bits of which the first means `offset`."""
    while squares:
        square = offset + lowest_bit(squares)
        squares &= squares - 1
        if turned:
            square = 80 - square
        planes[square, plane] = one
        if counts[square] < levels:
            planes[square, first_level + counts[square]] = one
            counts[square] += 1
