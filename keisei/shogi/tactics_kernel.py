"""What is about to happen on each square, as bits: checks, escapes, exchanges, forks, mates.

All of it follows from where the pieces stand, without a move being tried: what a player sees at a
glance, and sometimes wrongly. A mate counts what is attacked around a king; that the mating piece
may be pinned, or uncover something by leaving, is not looked at.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from keisei.compiled.kernels import kernel
from keisei.shogi.attacks import (
    SLIDE_DIRECTIONS,
    STEP_DIRECTIONS,
    piece_attacks,
    without_lowest,
)
from keisei.shogi.batch import OWN_HAND
from keisei.shogi.bitboard import (
    DIRECTION_STEPS,
    KNIGHT_LEFT,
    KNIGHT_RIGHT,
    LOW_SQUARES,
    lowest_bit,
    lowest_square,
)
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
TACTICS_BITS = int(MATES + 4)

# The first bit of each group in the word that `plane_kernel` writes before; own before theirs.
KINDS = np.int64(14)
ATTACKS = 2 * KINDS
LEVELS = 2 * ATTACKS
MOST_COUNTED = np.int64(3)
_ALL_KINDS = np.int64((1 << 14) - 1)
_BUT_KING = np.int64(_ALL_KINDS & ~(1 << (int(KING) - 1)))

_STEP_RANKS = np.array([step[0] for step in DIRECTION_STEPS], np.int64)
_STEP_FILES = np.array([step[1] for step in DIRECTION_STEPS], np.int64)
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


_SLIDERS_TO = _sliders_to()


def _covered(piece: np.int64, place: tuple[int, int]) -> set[tuple[int, int]]:
    """(ranks, files) from a king that a piece of theirs covers from its `place` beside it.

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
        for piece in np.arange(1, 15):
            if piece == KING:
                continue
            for zone, becomes in ((0, piece), (1, piece), (1, PROMOTES_TO[piece])):
                covered = _covered(becomes, place)
                if (0, 0) not in covered:
                    continue
                for escapes in range(256):
                    left = {places[n] for n in range(8) if escapes >> n & 1 and n != direction}
                    if left <= covered:
                        mating[zone, direction, escapes] |= 1 << int(piece)
    return mating


_MATING = _mating()


class _Side(NamedTuple):
    """A player whose pieces are in danger, and where the word of attacks has what about it."""

    turned: np.int64
    """0, or 1 for the opponent of the mover, who numbers the squares from the other end."""
    sign: np.int64
    occupied_low: np.int64
    occupied_high: np.int64
    own_kinds: np.int64
    """The first bit of what attacks a square."""
    own_levels: np.int64
    """The first bit of how much does."""
    their_kinds: np.int64
    their_levels: np.int64


@kernel
def write_tactics(position, attacks, sides, tactics):
    """Set the bits [81] int64 of one position.

    attacks: [81] int64, its first word; sides: of the mover and the opponent the squares with their
    pieces, and those with any, as they see them.
    """
    tactics[:] = 0
    for turned in range(2):
        pieces, (low, high) = sides[turned]
        attacker = 1 - turned
        side = _Side(
            turned,
            1 - 2 * turned,
            low,
            high,
            ATTACKS + turned * KINDS,
            LEVELS + turned * MOST_COUNTED,
            ATTACKS + attacker * KINDS,
            LEVELS + attacker * MOST_COUNTED,
        )
        _add_dangers(position, side, pieces, attacks, tactics)


@kernel
def _add_dangers(position, side, pieces, attacks, tactics):
    """Add what threatens the pieces of one side."""
    once, twice = np.zeros((2, len(_FORKING), 2), np.int64)
    low, high = pieces
    while low | high:
        square = lowest_square(low, high)
        low, high = without_lowest(low, high)
        here = _movers_number(square, side)
        piece = side.sign * position[here]
        if piece == KING:
            _add_checks(square, side, tactics)
            _add_shields(position, square, side, tactics)
            escapes = _add_escapes(position, square, side, attacks, tactics)
            _add_mates(position, square, side, attacks, escapes, tactics)
        else:
            _add_losses(piece, here, side, attacks, tactics)
        free = piece == KING or not (attacks[here] >> side.own_levels) & 1
        _count_forks(square, np.int64(1000) if free else VALUES[piece], side, once, twice)
    first = FORKS + (1 - side.turned) * len(_FORKING)
    for kind in range(len(_FORKING)):
        _mark(twice[kind, 0], twice[kind, 1], np.int64(1) << (first + kind), side, tactics)


@kernel
def _movers_number(square, side):
    return 80 - square if side.turned else square


@kernel
def _next_square(square, direction, side):
    """The mover's number of the next square in a direction of a side's view; -1 off the board."""
    rank, file = square // 9 + _STEP_RANKS[direction], square % 9 + _STEP_FILES[direction]
    if rank < 0 or rank > 8 or file < 0 or file > 8:
        return np.int64(-1)
    return _movers_number(9 * rank + file, side)


@kernel
def _add_checks(king, side, tactics):
    """Add from where each piece of a hand would give check."""
    first = CHECKS + (1 - side.turned) * KINDS_IN_HAND
    for kind in range(KINDS_IN_HAND):
        low, high = piece_attacks(kind + 1, king, side.occupied_low, side.occupied_high)
        _mark(low, high, np.int64(1) << (first + kind), side, tactics)


@kernel
def _add_shields(position, king, side, tactics):
    """Add what alone stands between a king and one of their sliders."""
    for direction in range(8):
        rank, file = king // 9, king % 9
        shield = np.int64(-1)
        while True:
            rank += _STEP_RANKS[direction]
            file += _STEP_FILES[direction]
            if rank < 0 or rank > 8 or file < 0 or file > 8:
                break
            here = _movers_number(9 * rank + file, side)
            piece = side.sign * position[here]
            if piece and shield >= 0:
                if piece < 0 and (_SLIDERS_TO[direction] >> -piece) & 1:
                    tactics[shield] |= np.int64(1) << (SHIELDS + side.turned)
                break
            if piece:
                shield = here


@kernel
def _add_escapes(position, king, side, attacks, tactics):
    """Add where a king can go; also as bits, one for each direction."""
    escapes = 0
    for direction in range(8):
        here = _next_square(king, direction, side)
        if here < 0 or side.sign * position[here] > 0 or (attacks[here] >> side.their_levels) & 1:
            continue
        escapes |= 1 << direction
        tactics[here] |= np.int64(1) << (ESCAPES + side.turned)
    return escapes


@kernel
def _add_losses(piece, here, side, attacks, tactics):
    """Add what an exchange on the square of a piece would cost, at least so much."""
    word = attacks[here]
    attackers, defenders = (word >> side.their_levels) & 7, (word >> side.own_levels) & 7
    if not attackers:
        return
    gain = VALUES[piece]
    if defenders:
        taker = _least(word >> side.their_kinds)
        last = taker if defenders & 2 else np.int64(0)
        taken_back = max(_least(word >> side.own_kinds) - last, 0) if attackers & 2 else 0
        gain -= max(taker - taken_back, 0)
    first = LOSSES + side.turned * len(_GAINS)
    for level in range(len(_GAINS)):
        if gain >= _GAINS[level]:
            tactics[here] |= np.int64(1) << (first + level)


@kernel
def _least(kinds):
    """The value of the least of some kinds, bit n for piece n + 1."""
    kinds &= _ALL_KINDS
    least = np.int64(1000)
    while kinds:
        least = min(least, VALUES[lowest_bit(kinds) + 1])
        kinds &= kinds - 1
    return least


@kernel
def _count_forks(square, worth, side, once, twice):
    """Add from where a piece of a hand would attack this square, once or again."""
    for kind in range(len(_FORKING)):
        if worth > VALUES[_FORKING[kind]]:
            low, high = piece_attacks(_FORKING[kind], square, side.occupied_low, side.occupied_high)
            twice[kind, 0] |= once[kind, 0] & low
            twice[kind, 1] |= once[kind, 1] & high
            once[kind, 0] |= low
            once[kind, 1] |= high


@kernel
def _add_mates(position, king, side, attacks, escapes, tactics):
    """Add where a piece of theirs beside a king, dropped or moved, would mate; or a knight."""
    attacker = 1 - side.turned
    drop = np.int64(1) << (MATES + 2 * attacker)
    move = drop << 1
    in_hand = 0
    for kind in range(1, KINDS_IN_HAND):  # a pawn may not be dropped for mate
        if position[OWN_HAND + KINDS_IN_HAND * attacker + kind]:
            in_hand |= 1 << (kind + 1)
    for direction in range(8):
        here = _next_square(king, direction, side)
        if here < 0 or not _can_stay(position, here, side, attacks):
            continue
        levels = attacks[here] >> side.their_levels
        if levels & 1 and not position[here] and _MATING[0, direction, escapes] & in_hand:
            tactics[here] |= drop
        zone = np.int64((80 - here if attacker else here) < 27)
        theirs = ((attacks[here] >> side.their_kinds) & _ALL_KINDS) << 1
        if levels & 2 and _MATING[zone, direction, escapes] & theirs:
            tactics[here] |= move
    for direction in (KNIGHT_LEFT, KNIGHT_RIGHT):
        here = _next_square(king, direction, side)
        if escapes or here < 0 or not _can_stay(position, here, side, attacks):
            continue
        if not position[here] and (in_hand >> KNIGHT) & 1:
            tactics[here] |= drop
        if (attacks[here] >> (side.their_kinds + KNIGHT - 1)) & 1:
            tactics[here] |= move


@kernel
def _can_stay(position, here, side, attacks):
    """Whether a piece of theirs can come here and only the king could take it."""
    taken_back = (attacks[here] >> side.own_kinds) & _BUT_KING
    return side.sign * position[here] >= 0 and not taken_back


@kernel
def _mark(low, high, bit, side, tactics):
    """Set `bit` on a set of squares."""
    while low:
        tactics[_movers_number(lowest_bit(low), side)] |= bit
        low &= low - 1
    while high:
        tactics[_movers_number(LOW_SQUARES + lowest_bit(high), side)] |= bit
        high &= high - 1
