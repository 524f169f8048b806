"""What is about to happen on each square, as bits: checks, shields, escapes, exchanges, forks.

Everything follows from where the pieces stand, without looking ahead: what a player sees at a
glance.
"""

from __future__ import annotations

import numpy as np

from keisei.compiled.kernels import kernel
from keisei.shogi.attacks import SLIDE_DIRECTIONS, piece_attacks
from keisei.shogi.bitboard import (
    DIRECTION_STEPS,
    LOW_SQUARES,
    OPPOSITE,
    lowest_bit,
)
from keisei.shogi.pieces import KING

KINDS_IN_HAND = np.int64(7)
GAINS = (1, 3, 5, 8)
"""An exchange that wins so much has a bit of its own."""
VALUES = np.array([0, 1, 3, 3, 5, 6, 9, 10, 100, 6, 6, 6, 6, 11, 13], np.int64)
"""By piece number, what it is worth in an exchange."""

# The first bit of each group; own before theirs.
CHECKS = np.int64(0)
SHIELDS = np.int64(2 * KINDS_IN_HAND)
ESCAPES = np.int64(SHIELDS + 2)
LOSSES = np.int64(ESCAPES + 2)
FORKS = np.int64(LOSSES + 2 * len(GAINS))
MATES = np.int64(FORKS + 2 * KINDS_IN_HAND)
XRAYS = np.int64(MATES + 4)
PAWN_FILES = np.int64(XRAYS + 2)
RINGS = np.int64(PAWN_FILES + 2)
TACTICS_BITS = int(RINGS + 6)

# Of the word of attacks, see `plane_kernel`.
_KINDS = np.int64(14)
_ATTACKS = np.int64(28)
_LEVELS = np.int64(56)
_ALL_KINDS = np.int64((1 << 14) - 1)

_STEP_RANKS = np.array([step[0] for step in DIRECTION_STEPS[:8]], np.int64)
_STEP_FILES = np.array([step[1] for step in DIRECTION_STEPS[:8]], np.int64)
_GAINS = np.array(GAINS, np.int64)


def _sliders_to() -> np.ndarray:
    """[8] int64: for a ray from a square, bits of the opponent's pieces that slide back along it.

    The opponent's directions are ours turned round: back along our ray is along theirs of the same
    name.
    """
    sliders = np.zeros(8, np.int64)
    for piece, directions in SLIDE_DIRECTIONS.items():
        for direction in directions:
            sliders[int(direction)] |= 1 << int(piece)
    return sliders


_SLIDERS_TO = _sliders_to()


def _cover() -> np.ndarray:
    """[15, 8] int64: which of the squares around a king a piece of the opponent on one of them attacks.

    Numbers of the 8 directions as seen by the king's owner, bit n for direction n; a slider past the
    king's own square too.
    """
    from keisei.shogi.attacks import STEP_DIRECTIONS
    cover = np.zeros((15, 8), np.int64)
    places = [DIRECTION_STEPS[d] for d in range(8)]
    for piece in range(1, 15):
        for j, (r0, f0) in enumerate(places):
            reached = set()
            for table, reach in ((STEP_DIRECTIONS, 1), (SLIDE_DIRECTIONS, 9)):
                for d in table.get(piece, ()):
                    dr, df = DIRECTION_STEPS[int(d)]
                    for n in range(1, reach + 1):
                        reached.add((r0 - n * dr, f0 - n * df))
            for m, place in enumerate(places):
                if place in reached:
                    cover[piece, j] |= 1 << m
            if (0, 0) not in reached:
                cover[piece, j] = -1
    return cover


_COVER = _cover()
_PROMOTED = np.array([0, 9, 10, 11, 12, 0, 13, 14, 0, 0, 0, 0, 0, 0, 0], np.int64)


@kernel
def write_tactics(position, attacks, occupied, turned_occupied, tactics):
    """Set the bits [81] int64 of one position.

    attacks: [81] int64, its first word; occupied, turned_occupied: the squares with a piece as the
    mover and as the opponent sees them.
    """
    tactics[:] = 0
    for turned in range(2):
        low, high = turned_occupied if turned else occupied
        _add_dangers(position, turned, low, high, attacks, tactics)


@kernel
def _add_dangers(position, turned, occupied_low, occupied_high, attacks, tactics):
    """Add what threatens one side; `turned`: the opponent, whose squares are numbered from 80."""
    sign = np.int64(1 - 2 * turned)
    attacker = 1 - turned
    theirs_at = _ATTACKS + attacker * _KINDS
    ours_at = _ATTACKS + turned * _KINDS
    their_levels = _LEVELS + 3 * attacker
    our_levels = _LEVELS + 3 * turned
    first_check = CHECKS + attacker * KINDS_IN_HAND
    first_fork = FORKS + attacker * KINDS_IN_HAND
    first_loss = LOSSES + turned * len(_GAINS)
    once = np.zeros((7, 2), np.int64)
    for square in range(81):
        here = 80 - square if turned else square
        piece = sign * position[here]
        if piece <= 0:
            continue
        their_kinds = (attacks[here] >> theirs_at) & _ALL_KINDS
        our_kinds = (attacks[here] >> ours_at) & _ALL_KINDS
        if piece == 1:
            for rank in range(9):
                tactics[9 * rank + here % 9] |= np.int64(1) << (PAWN_FILES + turned)
        for direction in range(8):
            if (_SLIDERS_TO[direction] >> piece) & 1:
                _add_xray(position, square, turned, sign, direction, tactics)
        attackers = (attacks[here] >> their_levels) & 7
        defenders = (attacks[here] >> our_levels) & 7
        if piece == KING:
            for kind in range(KINDS_IN_HAND):
                low, high = piece_attacks(kind + 1, square, occupied_low, occupied_high)
                _mark(low, 0, turned, np.int64(1) << (first_check + kind), tactics)
                _mark(high, LOW_SQUARES, turned, np.int64(1) << (first_check + kind), tactics)
            _add_around_king(position, square, turned, sign, attacks, their_levels, tactics)
            _add_mates(position, square, turned, sign, attacks, theirs_at, their_levels, ours_at, tactics)
            for other in range(81):
                distance = max(abs(other // 9 - square // 9), abs(other % 9 - square % 9))
                there = 80 - other if turned else other
                for ring in range(3):
                    if distance <= ring + 1:
                        tactics[there] |= np.int64(1) << (RINGS + 3 * turned + ring)
        elif attackers:
            gain = _gain(VALUES[piece], their_kinds, attackers, our_kinds, defenders)
            for level in range(len(_GAINS)):
                if gain >= _GAINS[level]:
                    tactics[here] |= np.int64(1) << (first_loss + level)
        for kind in range(KINDS_IN_HAND):
            if piece == KING or defenders == 0 or VALUES[piece] > VALUES[kind + 1]:
                low, high = piece_attacks(kind + 1, square, occupied_low, occupied_high)
                twice_low, twice_high = once[kind, 0] & low, once[kind, 1] & high
                _mark(twice_low, 0, turned, np.int64(1) << (first_fork + kind), tactics)
                _mark(twice_high, LOW_SQUARES, turned, np.int64(1) << (first_fork + kind), tactics)
                once[kind, 0] |= low
                once[kind, 1] |= high


@kernel
def _add_xray(position, square, turned, sign, direction, tactics):
    """Add what an own slider would attack if the first piece in its way were gone."""
    rank, file = square // 9, square % 9
    met = 0
    for _ in range(1, 9):
        rank += _STEP_RANKS[direction]
        file += _STEP_FILES[direction]
        if rank < 0 or rank > 8 or file < 0 or file > 8:
            break
        here = 80 - (9 * rank + file) if turned else 9 * rank + file
        if met:
            tactics[here] |= np.int64(1) << (XRAYS + turned)
        if position[here]:
            met += 1
            if met == 2:
                break


@kernel
def _add_mates(position, king, turned, sign, attacks, theirs_at, their_levels, ours_at, tactics):
    """Add where a piece of theirs next to the king of one side would mate it."""
    escapes = np.int64(0)
    for direction in range(8):
        rank, file = king // 9 + _STEP_RANKS[direction], king % 9 + _STEP_FILES[direction]
        if 0 <= rank <= 8 and 0 <= file <= 8:
            here = 80 - (9 * rank + file) if turned else 9 * rank + file
            if sign * position[here] <= 0 and not (attacks[here] >> their_levels) & 1:
                escapes |= np.int64(1) << direction
    attacker = 1 - turned
    for direction in range(8):
        rank, file = king // 9 + _STEP_RANKS[direction], king % 9 + _STEP_FILES[direction]
        if rank < 0 or rank > 8 or file < 0 or file > 8:
            continue
        here = 80 - (9 * rank + file) if turned else 9 * rank + file
        piece = sign * position[here]
        ours = (attacks[here] >> ours_at) & _ALL_KINDS
        if piece < 0 or ours & ~np.int64(1 << 7):
            continue
        levels = (attacks[here] >> their_levels) & 7
        left = escapes & ~(np.int64(1) << direction)
        if piece == 0 and levels & 1:
            for kind in range(1, KINDS_IN_HAND):
                cover = _COVER[kind + 1, direction]
                if position[81 + 7 * attacker + kind] and cover >= 0 and not left & ~cover:
                    tactics[here] |= np.int64(1) << (MATES + 2 * attacker)
        if levels & 2:
            kinds = (attacks[here] >> theirs_at) & _ALL_KINDS
            in_zone = rank >= 6
            while kinds:
                mover = lowest_bit(kinds) + 1
                kinds &= kinds - 1
                if mover == KING:
                    continue
                cover = _COVER[mover, direction]
                mates = cover >= 0 and not left & ~cover
                if in_zone and _PROMOTED[mover]:
                    cover = _COVER[_PROMOTED[mover], direction]
                    mates = mates or (cover >= 0 and not left & ~cover)
                if mates:
                    tactics[here] |= np.int64(1) << (MATES + 2 * attacker + 1)


@kernel
def _gain(victim, their_kinds, attackers, our_kinds, defenders):
    """What they win by taking, if each side takes back with its least piece while it pays."""
    taker = _least(their_kinds)
    if not defenders:
        return victim
    last = taker if defenders & 2 else np.int64(0)
    taken_back = max(_least(our_kinds) - last, 0) if attackers & 2 else np.int64(0)
    return victim - max(taker - taken_back, 0)


@kernel
def _least(kinds):
    """The value of the least of some kinds, bit n for piece n + 1."""
    least = np.int64(1000)
    while kinds:
        least = min(least, VALUES[lowest_bit(kinds) + 1])
        kinds &= kinds - 1
    return least


@kernel
def _add_around_king(position, king, turned, sign, attacks, their_levels, tactics):
    """Add where a king can go, and who alone stands between it and one of their sliders."""
    for direction in range(8):
        rank, file = king // 9, king % 9
        shield = np.int64(-1)
        for distance in range(1, 9):
            rank += _STEP_RANKS[direction]
            file += _STEP_FILES[direction]
            if rank < 0 or rank > 8 or file < 0 or file > 8:
                break
            square = 9 * rank + file
            here = 80 - square if turned else square
            piece = sign * position[here]
            if distance == 1 and piece <= 0 and not (attacks[here] >> their_levels) & 1:
                tactics[here] |= np.int64(1) << (ESCAPES + turned)
            if piece:
                if shield >= 0:
                    if piece < 0 and (_SLIDERS_TO[direction] >> -piece) & 1:
                        tactics[shield] |= np.int64(1) << (SHIELDS + turned)
                    break
                shield = here


@kernel
def _mark(squares, offset, turned, bit, tactics):
    """Set `bit` on a set of squares of which the first is `offset`."""
    while squares:
        square = offset + lowest_bit(squares)
        squares &= squares - 1
        tactics[80 - square if turned else square] |= bit
