"""What attacks what: step tables, attack maps, checkers and pins, all in one player's view."""

from __future__ import annotations

import numpy as np

from keisei.compiled.kernels import kernel
from keisei.shogi.bitboard import (
    DOWN,
    DOWN_LEFT,
    DOWN_RIGHT,
    KNIGHT_LEFT,
    KNIGHT_RIGHT,
    LEFT,
    LINE_DIRECTION,
    OPPOSITE_DIRECTION,
    RAYS,
    RIGHT,
    UP,
    UP_LEFT,
    UP_RIGHT,
    lowest_square,
    ray_attacks,
    shift_down,
    shift_left,
    shift_right,
    shift_up,
    square_set,
    step_from,
)
from keisei.shogi.pieces import (
    ALL,
    BISHOP,
    BISHOPS,
    DRAGON,
    DRAGONS,
    GOLD,
    GOLDS,
    HORSE,
    HORSES,
    KING,
    KINGS,
    KNIGHT,
    KNIGHTS,
    LANCE,
    LANCES,
    PAWN,
    PAWNS,
    PROMOTED_KNIGHT,
    PROMOTED_LANCE,
    PROMOTED_SILVER,
    ROOK,
    ROOKS,
    SILVER,
    SILVERS,
    TOKIN,
)

ORTHOGONALS = (UP, LEFT, RIGHT, DOWN)
DIAGONALS = (UP_LEFT, UP_RIGHT, DOWN_LEFT, DOWN_RIGHT)
_GOLD_STEPS = (UP, UP_LEFT, UP_RIGHT, LEFT, RIGHT, DOWN)
STEP_DIRECTIONS = {  # the directions in which each piece moves exactly one step
    PAWN: (UP,),
    KNIGHT: (KNIGHT_LEFT, KNIGHT_RIGHT),
    SILVER: (UP, *DIAGONALS),
    GOLD: _GOLD_STEPS,
    TOKIN: _GOLD_STEPS,
    PROMOTED_LANCE: _GOLD_STEPS,
    PROMOTED_KNIGHT: _GOLD_STEPS,
    PROMOTED_SILVER: _GOLD_STEPS,
    KING: (*ORTHOGONALS, *DIAGONALS),
    HORSE: ORTHOGONALS,
    DRAGON: DIAGONALS,
}
SLIDE_DIRECTIONS = {  # the directions in which each piece slides
    LANCE: (UP,),
    BISHOP: DIAGONALS,
    ROOK: ORTHOGONALS,
    HORSE: DIAGONALS,
    DRAGON: ORTHOGONALS,
}


def _make_steps() -> np.ndarray:
    """[15, 81, 2] int64: the squares each own piece reaches by single steps."""
    steps = np.zeros((15, 81, 2), np.int64)
    for piece, directions in STEP_DIRECTIONS.items():
        for square in range(81):
            reached = [step_from(square, direction) for direction in directions]
            steps[piece, square] = square_set(target for target in reached if target >= 0)
    return steps


STEPS = _make_steps()


@kernel
def slides_orthogonally(square, occupied_low, occupied_high):
    """The squares a rook on `square` attacks."""
    low, high = ray_attacks(UP, square, occupied_low, occupied_high)
    low_2, high_2 = ray_attacks(LEFT, square, occupied_low, occupied_high)
    low_3, high_3 = ray_attacks(RIGHT, square, occupied_low, occupied_high)
    low_4, high_4 = ray_attacks(DOWN, square, occupied_low, occupied_high)
    return low | low_2 | low_3 | low_4, high | high_2 | high_3 | high_4


@kernel
def slides_diagonally(square, occupied_low, occupied_high):
    """The squares a bishop on `square` attacks."""
    low, high = ray_attacks(UP_LEFT, square, occupied_low, occupied_high)
    low_2, high_2 = ray_attacks(UP_RIGHT, square, occupied_low, occupied_high)
    low_3, high_3 = ray_attacks(DOWN_LEFT, square, occupied_low, occupied_high)
    low_4, high_4 = ray_attacks(DOWN_RIGHT, square, occupied_low, occupied_high)
    return low | low_2 | low_3 | low_4, high | high_2 | high_3 | high_4


@kernel
def piece_attacks(piece, square, occupied_low, occupied_high):
    """The squares an own `piece` on `square` attacks."""
    low = STEPS[piece, square, 0]
    high = STEPS[piece, square, 1]
    if piece == LANCE:
        return ray_attacks(UP, square, occupied_low, occupied_high)
    if piece in (ROOK, DRAGON):
        slide_low, slide_high = slides_orthogonally(square, occupied_low, occupied_high)
        return low | slide_low, high | slide_high
    if piece in (BISHOP, HORSE):
        slide_low, slide_high = slides_diagonally(square, occupied_low, occupied_high)
        return low | slide_low, high | slide_high
    return low, high


@kernel
def _sideways(low, high):
    """The set moved one file to the left and one to the right."""
    left_low, left_high = shift_left(low, high)
    right_low, right_high = shift_right(low, high)
    return left_low | right_low, left_high | right_high


@kernel
def _stepped_on(theirs):
    """The squares the opponent attacks by single steps and knights' jumps; they move down."""
    king_like_low = theirs[GOLDS, 0] | theirs[KINGS, 0]
    king_like_high = theirs[GOLDS, 1] | theirs[KINGS, 1]
    cross_low = king_like_low | theirs[HORSES, 0]
    cross_high = king_like_high | theirs[HORSES, 1]
    low, high = shift_down(
        cross_low | theirs[PAWNS, 0] | theirs[SILVERS, 0],
        cross_high | theirs[PAWNS, 1] | theirs[SILVERS, 1],
    )
    back_low, back_high = shift_up(cross_low, cross_high)
    side_low, side_high = _sideways(cross_low, cross_high)
    forward_low, forward_high = shift_down(
        king_like_low | theirs[SILVERS, 0] | theirs[DRAGONS, 0],
        king_like_high | theirs[SILVERS, 1] | theirs[DRAGONS, 1],
    )
    backward_low, backward_high = shift_up(
        theirs[KINGS, 0] | theirs[SILVERS, 0] | theirs[DRAGONS, 0],
        theirs[KINGS, 1] | theirs[SILVERS, 1] | theirs[DRAGONS, 1],
    )
    jump_low, jump_high = shift_down(theirs[KNIGHTS, 0], theirs[KNIGHTS, 1])
    jump_low, jump_high = shift_down(jump_low, jump_high)
    diagonal_low, diagonal_high = _sideways(
        forward_low | backward_low | jump_low, forward_high | backward_high | jump_high
    )
    return (
        low | back_low | side_low | diagonal_low,
        high | back_high | side_high | diagonal_high,
    )


@kernel
def attacked_by_opponent(theirs, occupied_low, occupied_high):
    """The squares the opponent attacks, given their sets of pieces [11, 2] in our view."""
    low, high = _stepped_on(theirs)
    left_low, left_high = theirs[LANCES, 0], theirs[LANCES, 1]
    while left_low | left_high:
        square = lowest_square(left_low, left_high)
        left_low, left_high = without_lowest(left_low, left_high)
        ray_low, ray_high = ray_attacks(DOWN, square, occupied_low, occupied_high)
        low |= ray_low
        high |= ray_high
    left_low, left_high = (
        theirs[ROOKS, 0] | theirs[DRAGONS, 0],
        theirs[ROOKS, 1] | theirs[DRAGONS, 1],
    )
    while left_low | left_high:
        square = lowest_square(left_low, left_high)
        left_low, left_high = without_lowest(left_low, left_high)
        ray_low, ray_high = slides_orthogonally(square, occupied_low, occupied_high)
        low |= ray_low
        high |= ray_high
    left_low, left_high = (
        theirs[BISHOPS, 0] | theirs[HORSES, 0],
        theirs[BISHOPS, 1] | theirs[HORSES, 1],
    )
    while left_low | left_high:
        square = lowest_square(left_low, left_high)
        left_low, left_high = without_lowest(left_low, left_high)
        ray_low, ray_high = slides_diagonally(square, occupied_low, occupied_high)
        low |= ray_low
        high |= ray_high
    return low, high


@kernel
def without_lowest(low, high):
    """The set less its first square."""
    if low:
        return low & (low - 1), high
    return low, high & (high - 1)


@kernel
def sliders_on_lines_of(king, theirs):
    """Their sliders that would attack `king` were the squares between empty."""
    orthogonal_low = RAYS[UP, king + 1, 0] | RAYS[LEFT, king + 1, 0]
    orthogonal_low |= RAYS[RIGHT, king + 1, 0] | RAYS[DOWN, king + 1, 0]
    orthogonal_high = RAYS[UP, king + 1, 1] | RAYS[LEFT, king + 1, 1]
    orthogonal_high |= RAYS[RIGHT, king + 1, 1] | RAYS[DOWN, king + 1, 1]
    diagonal_low = RAYS[UP_LEFT, king + 1, 0] | RAYS[UP_RIGHT, king + 1, 0]
    diagonal_low |= RAYS[DOWN_LEFT, king + 1, 0] | RAYS[DOWN_RIGHT, king + 1, 0]
    diagonal_high = RAYS[UP_LEFT, king + 1, 1] | RAYS[UP_RIGHT, king + 1, 1]
    diagonal_high |= RAYS[DOWN_LEFT, king + 1, 1] | RAYS[DOWN_RIGHT, king + 1, 1]
    low = orthogonal_low & (theirs[ROOKS, 0] | theirs[DRAGONS, 0])
    high = orthogonal_high & (theirs[ROOKS, 1] | theirs[DRAGONS, 1])
    low |= diagonal_low & (theirs[BISHOPS, 0] | theirs[HORSES, 0])
    high |= diagonal_high & (theirs[BISHOPS, 1] | theirs[HORSES, 1])
    low |= RAYS[UP, king + 1, 0] & theirs[LANCES, 0]
    high |= RAYS[UP, king + 1, 1] & theirs[LANCES, 1]
    return low, high


@kernel
def between(square, other):
    """The squares strictly between two squares of a line; empty when they share none."""
    direction = np.int64(LINE_DIRECTION[square, other])
    if direction < 0:
        return 0, 0
    back = OPPOSITE_DIRECTION[direction]
    low = RAYS[direction, square + 1, 0] & RAYS[back, other + 1, 0]
    high = RAYS[direction, square + 1, 1] & RAYS[back, other + 1, 1]
    return low, high


@kernel
def step_checkers(king, theirs):
    """Their pieces that attack our king by a single step or a knight's jump.

    A piece of theirs attacks the king when the same piece of ours on the king's square would
    attack it. Kings never stand next to each other.
    """
    low = STEPS[PAWN, king, 0] & theirs[PAWNS, 0] | STEPS[KNIGHT, king, 0] & theirs[KNIGHTS, 0]
    low |= STEPS[SILVER, king, 0] & theirs[SILVERS, 0] | STEPS[GOLD, king, 0] & theirs[GOLDS, 0]
    low |= STEPS[HORSE, king, 0] & theirs[HORSES, 0] | STEPS[DRAGON, king, 0] & theirs[DRAGONS, 0]
    high = STEPS[PAWN, king, 1] & theirs[PAWNS, 1] | STEPS[KNIGHT, king, 1] & theirs[KNIGHTS, 1]
    high |= STEPS[SILVER, king, 1] & theirs[SILVERS, 1] | STEPS[GOLD, king, 1] & theirs[GOLDS, 1]
    high |= STEPS[HORSE, king, 1] & theirs[HORSES, 1] | STEPS[DRAGON, king, 1] & theirs[DRAGONS, 1]
    return low, high


@kernel(entry=True)
def is_attacked(square, own, theirs):
    """Whether any piece of theirs attacks `square`, given both sides' sets in our view."""
    low, high = step_checkers(square, theirs)
    low |= STEPS[KING, square, 0] & theirs[KINGS, 0]
    high |= STEPS[KING, square, 1] & theirs[KINGS, 1]
    if low | high:
        return True
    low, high = sliders_on_lines_of(square, theirs)
    while low | high:
        inner_low, inner_high = between(square, lowest_square(low, high))
        low, high = without_lowest(low, high)
        inner_low &= own[ALL, 0] | theirs[ALL, 0]
        inner_high &= own[ALL, 1] | theirs[ALL, 1]
        if inner_low | inner_high == 0:
            return True
    return False
