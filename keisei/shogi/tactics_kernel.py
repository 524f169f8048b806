"""What is about to happen on each square, as bits: checks, shields, escapes, exchanges, forks.

Everything follows from where the pieces stand, without looking ahead: what a player sees at a
glance.
"""

from __future__ import annotations

import numpy as np

from keisei.compiled.kernels import kernel
from keisei.shogi.attacks import SLIDE_DIRECTIONS, STEP_DIRECTIONS, piece_attacks
from keisei.shogi.bitboard import DIRECTION_STEPS, LOW_SQUARES, lowest_bit
from keisei.shogi.pieces import BISHOP, GOLD, KING, KNIGHT, PROMOTES_TO, ROOK, SILVER

KINDS_IN_HAND = np.int64(7)
GAINS = (1, 3, 5, 8)
"""An exchange that wins so much has a bit of its own."""
VALUES = np.array([0, 1, 3, 3, 5, 6, 9, 10, 100, 6, 6, 6, 6, 11, 13], np.int64)
"""By piece number, what it is worth in an exchange."""
FORKING = (KNIGHT, SILVER, GOLD, BISHOP, ROOK)
"""The pieces of a hand that can attack two at once."""

# The first bit of each group; own before theirs.
CHECKS = np.int64(0)
SHIELDS = np.int64(2 * KINDS_IN_HAND)
ESCAPES = np.int64(SHIELDS + 2)
LOSSES = np.int64(ESCAPES + 2)
FORKS = np.int64(LOSSES + 2 * len(GAINS))
MATES = np.int64(FORKS + 2 * len(FORKING))
XRAYS = np.int64(MATES + 4)
TACTICS_BITS = int(XRAYS + 2)

# Of the word of attacks, see `plane_kernel`.
_KINDS = np.int64(14)
_ATTACKS = np.int64(28)
_LEVELS = np.int64(56)
_ALL_KINDS = np.int64((1 << 14) - 1)
_BUT_KING = np.int64(_ALL_KINDS & ~(1 << (int(KING) - 1)))

_STEP_RANKS = np.array([step[0] for step in DIRECTION_STEPS[:8]], np.int64)
_STEP_FILES = np.array([step[1] for step in DIRECTION_STEPS[:8]], np.int64)
_GAINS = np.array(GAINS, np.int64)
_FORKING = np.array(FORKING, np.int64)


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


SLIDERS_TO = _sliders_to()


def _covered(piece: int, place: tuple[int, int]) -> set[tuple[int, int]]:
    """(ranks, files) from a king that a piece of the opponent covers from its `place` beside it.

    As the king's owner sees it. Sliders reach past the king, which blocks nobody's way to itself.
    """
    covered = set()
    for steps, reach in ((STEP_DIRECTIONS, 1), (SLIDE_DIRECTIONS, 8)):
        for direction in steps.get(piece, ()):
            ranks, files = DIRECTION_STEPS[int(direction)]
            for distance in range(1, reach + 1):
                covered.add((place[0] - distance * ranks, place[1] - distance * files))
    return covered


def _mating() -> np.ndarray:
    """[2, 8, 256] int16: which pieces mate from beside a king, bit n for piece n.

    By whether they can promote there, where they stand, and which of the eight squares around the
    king it can go to, all as its owner sees it.
    """
    mating = np.zeros((2, 8, 256), np.int16)
    places = DIRECTION_STEPS[:8]
    for direction, place in enumerate(places):
        for piece in range(1, 15):
            if piece == KING:
                continue
            for zone, becomes in ((0, piece), (1, piece), (1, int(PROMOTES_TO[piece]))):
                covered = _covered(becomes, place)
                if (0, 0) not in covered:
                    continue
                for escapes in range(256):
                    left = {places[n] for n in range(8) if escapes >> n & 1 and n != direction}
                    if left <= covered:
                        mating[zone, direction, escapes] |= 1 << piece
    return mating


MATING = _mating()


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
    first_fork = FORKS + attacker * len(_FORKING)
    first_loss = LOSSES + turned * len(_GAINS)
    once = np.zeros((len(_FORKING), 2), np.int64)
    for square in range(81):
        here = 80 - square if turned else square
        piece = sign * position[here]
        if piece <= 0:
            continue
        their_kinds = (attacks[here] >> theirs_at) & _ALL_KINDS
        our_kinds = (attacks[here] >> ours_at) & _ALL_KINDS
        for direction in range(8):
            if (SLIDERS_TO[direction] >> piece) & 1:
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
        elif attackers:
            gain = _gain(VALUES[piece], their_kinds, attackers, our_kinds, defenders)
            for level in range(len(_GAINS)):
                if gain >= _GAINS[level]:
                    tactics[here] |= np.int64(1) << (first_loss + level)
        for kind in range(len(_FORKING)):
            if piece == KING or defenders == 0 or VALUES[piece] > VALUES[_FORKING[kind]]:
                low, high = piece_attacks(_FORKING[kind], square, occupied_low, occupied_high)
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
    escapes = 0
    for direction in range(8):
        here = _beside(king, direction, turned)
        if here >= 0 and sign * position[here] <= 0 and not (attacks[here] >> their_levels) & 1:
            escapes |= 1 << direction
    attacker = 1 - turned
    in_hand = 0
    for kind in range(1, KINDS_IN_HAND):
        if position[81 + KINDS_IN_HAND * attacker + kind]:
            in_hand |= 1 << (kind + 1)
    for direction in range(8):
        here = _beside(king, direction, turned)
        if here < 0:
            continue
        piece = sign * position[here]
        if piece < 0 or (attacks[here] >> ours_at) & _BUT_KING:
            continue
        levels = attacks[here] >> their_levels
        bit = np.int64(1) << (MATES + 2 * attacker)
        if piece == 0 and levels & 1 and MATING[0, direction, escapes] & in_hand:
            tactics[here] |= bit
        theirs = ((attacks[here] >> theirs_at) & _ALL_KINDS) << 1
        zone = (here // 9 if attacker == 0 else 8 - here // 9) < 3
        if levels & 2 and MATING[np.int64(zone), direction, escapes] & theirs:
            tactics[here] |= bit << 1


@kernel
def _beside(square, direction, turned):
    """The mover's number of the next square in a direction of one side's view; -1 off the board."""
    rank, file = square // 9 + _STEP_RANKS[direction], square % 9 + _STEP_FILES[direction]
    if rank < 0 or rank > 8 or file < 0 or file > 8:
        return np.int64(-1)
    return 80 - (9 * rank + file) if turned else 9 * rank + file


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
                    if piece < 0 and (SLIDERS_TO[direction] >> -piece) & 1:
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
