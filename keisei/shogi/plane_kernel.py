"""The planes of the feature sets on a CPU, written in one pass.

Channels come last, as convolutions want them. The numbers written are bits of any type whose zero
is 0, and `one` is its one.
"""

from __future__ import annotations

import numpy as np

from keisei.compiled.kernels import kernel
from keisei.shogi.attacks import piece_attacks
from keisei.shogi.bitboard import LOW_SQUARES, lowest_bit

_KINDS = 14


@kernel
def _write_core(position, scalars, one, planes):
    """Fill the first planes of one position [81, C], as in `core46`; zero elsewhere."""
    pieces = 2 * _KINDS
    behind = pieces + len(scalars)
    for square in range(planes.shape[0]):
        for plane in range(pieces):
            planes[square, plane] = 0
        for plane in range(pieces, behind):
            planes[square, plane] = scalars[plane - pieces]
        piece = position[square]
        if piece > 0:
            planes[square, piece - 1] = one
        elif piece < 0:
            planes[square, _KINDS - piece - 1] = one


@kernel(entry=True)
def write_core46(positions, scalars, one, planes):
    """Fill planes [B, 81, 46] from positions [B, 100] int8 and the last planes' values [B, 18]."""
    for row in range(len(planes)):
        _write_core(positions[row], scalars[row], one, planes[row])


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


@kernel
def _write_attacks(position, turned, first_plane, first_level, levels, counts, one, planes):
    """What each kind of one side attacks, and what 1, 2, ... of its pieces attack.

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


@kernel(entry=True)
def write_attack(positions, scalars, unary_hands, levels, one, planes):
    """Fill planes [B, 81, 136] from positions [B, 100] int8 and the values of even planes.

    scalars: [B, 18] of `core46`; unary_hands: [B, 56], the last planes. levels: how far the
    attackers of a square are counted.
    """
    channels = planes.shape[2]
    attacks = 2 * _KINDS + scalars.shape[1]
    attacker_levels = attacks + 2 * _KINDS
    unary = attacker_levels + 2 * levels
    counts = np.empty(81, np.int8)
    for row in range(len(planes)):
        _write_core(positions[row], scalars[row], one, planes[row])
        for square in range(81):
            for plane in range(attacks, unary):
                planes[row, square, plane] = 0
            for plane in range(unary, channels):
                planes[row, square, plane] = unary_hands[row, plane - unary]
        for side in range(2):
            _write_attacks(
                positions[row],
                side == 1,
                attacks + side * _KINDS,
                attacker_levels + side * levels,
                levels,
                counts,
                one,
                planes[row],
            )
