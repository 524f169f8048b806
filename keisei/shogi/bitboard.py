"""Sets of squares as two integers, and the rays that sliding pieces move along.

Squares are numbered as a SFEN is read: 0 is the upper left corner (9a for black), 80 the lower
right (1i), always as the player whose view it is sees the board. A set is a pair (low, high):
`low` holds ranks 1 to 6 (bits 0-53) and `high` ranks 7 to 9 (bits 0-26). Neither word ever uses
its sign bit, so everything stays int64 and the compiler never mixes signed with unsigned.
"""

from __future__ import annotations

from typing import Any, SupportsIndex

import numpy as np
from numba import config, types
from numba.extending import intrinsic

from keisei.compiled.kernels import kernel

LOW_SQUARES = 54
LOW_MASK = (1 << LOW_SQUARES) - 1
HIGH_MASK = (1 << 27) - 1
ZONE = (1 << 27) - 1
"""The promotion zone: the first three ranks, all of them in the low word."""

_LEFT_FILE_LOW = sum(1 << (9 * rank) for rank in range(6))
_LEFT_FILE_HIGH = sum(1 << (9 * rank) for rank in range(3))
NOT_LEFT_LOW = LOW_MASK ^ _LEFT_FILE_LOW
NOT_LEFT_HIGH = HIGH_MASK ^ _LEFT_FILE_HIGH
NOT_RIGHT_LOW = LOW_MASK ^ (_LEFT_FILE_LOW << 8)
NOT_RIGHT_HIGH = HIGH_MASK ^ (_LEFT_FILE_HIGH << 8)

# NumPy numbers and not Python's: Numba compiles a function once more for each literal it is given.
UP, UP_LEFT, UP_RIGHT, LEFT, RIGHT = map(np.int64, range(5))
DOWN, DOWN_LEFT, DOWN_RIGHT, KNIGHT_LEFT, KNIGHT_RIGHT = map(np.int64, range(5, 10))
DIRECTION_STEPS = (  # (ranks, files) of one step; ranks count downwards
    (-1, 0),
    (-1, -1),
    (-1, 1),
    (0, -1),
    (0, 1),
    (1, 0),
    (1, -1),
    (1, 1),
    (-2, -1),
    (-2, 1),
)
OPPOSITE = (DOWN, DOWN_RIGHT, DOWN_LEFT, RIGHT, LEFT, UP, UP_RIGHT, UP_LEFT)


def step_from(square: int, direction: SupportsIndex) -> int:
    """The square one step away in `direction`, or -1 when that is off the board."""
    ranks, files = DIRECTION_STEPS[direction]
    rank, file = square // 9 + ranks, square % 9 + files
    return rank * 9 + file if 0 <= rank < 9 and 0 <= file < 9 else -1


def square_set(squares: Any) -> tuple[int, int]:
    """The set of an iterable of square numbers."""
    low = high = 0
    for square in squares:
        if square < LOW_SQUARES:
            low |= 1 << square
        else:
            high |= 1 << (square - LOW_SQUARES)
    return low, high


def _ray_squares(square: int, direction: SupportsIndex) -> list[int]:
    squares = []
    while (square := step_from(square, direction)) >= 0:
        squares.append(square)
    return squares


def _make_rays() -> np.ndarray:
    """[8, 83, 2] int64: row square + 1 is the ray from that square; rows 0 and 82 are empty,
    so that "no blocker" (square -1 or 81) needs no branch.
    """
    rays = np.zeros((8, 83, 2), np.int64)
    for direction in range(8):
        for square in range(81):
            rays[direction, square + 1] = square_set(_ray_squares(square, direction))
    return rays


def _make_directions() -> np.ndarray:
    """[81, 81] int8: the direction of the line from one square to another, -1 if on none."""
    directions = np.full((81, 81), -1, np.int8)
    for direction in range(8):
        for square in range(81):
            directions[square, _ray_squares(square, direction)] = direction
    return directions


RAYS = _make_rays()
LINE_DIRECTION = _make_directions()
OPPOSITE_DIRECTION = np.array(OPPOSITE, np.int64)

if config.DISABLE_JIT:

    def lowest_bit(word: int) -> int:
        """Number of the lowest set bit of a word that is not 0."""
        return (int(word) & -int(word)).bit_length() - 1

    def highest_bit(word: int) -> int:
        """Number of the highest set bit; -1 for 0."""
        return int(word).bit_length() - 1

    def count_bits(word: int) -> int:
        """How many bits are set."""
        return int(word).bit_count()

else:

    @intrinsic
    def lowest_bit(typing_context: Any, word: Any) -> Any:
        """Number of the lowest set bit of a word that is not 0."""

        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.cttz(args[0], context.get_constant(types.boolean, True))

        return types.int64(types.int64), build

    @intrinsic
    def highest_bit(typing_context: Any, word: Any) -> Any:
        """Number of the highest set bit; -1 for 0."""

        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            zeros = builder.ctlz(args[0], context.get_constant(types.boolean, False))
            return builder.sub(context.get_constant(types.int64, 63), zeros)

        return types.int64(types.int64), build

    @intrinsic
    def count_bits(typing_context: Any, word: Any) -> Any:
        """How many bits are set."""

        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.ctpop(args[0])

        return types.int64(types.int64), build


@kernel
def contains(low, high, square):
    """Whether `square` is in the set."""
    if square < LOW_SQUARES:
        return (low >> square) & 1
    return (high >> (square - LOW_SQUARES)) & 1


@kernel
def lowest_square(low, high):
    """The first square of the set; 81 when it is empty."""
    if low:
        return lowest_bit(low)
    return LOW_SQUARES + lowest_bit(high | (1 << 27))


@kernel
def highest_square(low, high):
    """The last square of the set; -1 when it is empty."""
    if high:
        return LOW_SQUARES + highest_bit(high)
    return highest_bit(low)


@kernel
def shift_up(low, high):
    """Every square of the set moved one rank up."""
    return (low >> 9) | ((high & 511) << 45), high >> 9


@kernel
def shift_down(low, high):
    """Every square of the set moved one rank down."""
    return (low << 9) & LOW_MASK, ((high << 9) & HIGH_MASK) | (low >> 45)


@kernel
def shift_left(low, high):
    """Every square of the set moved one file to the left."""
    return (low & NOT_LEFT_LOW) >> 1, (high & NOT_LEFT_HIGH) >> 1


@kernel
def shift_right(low, high):
    """Every square of the set moved one file to the right."""
    return (low & NOT_RIGHT_LOW) << 1, (high & NOT_RIGHT_HIGH) << 1


@kernel
def ray_attacks(direction, square, occupied_low, occupied_high):
    """The squares a slider on `square` reaches in `direction`, the first blocker included."""
    low = RAYS[direction, square + 1, 0]
    high = RAYS[direction, square + 1, 1]
    if direction < RIGHT:  # up, up-left, up-right and left run towards square 0
        blocker = highest_square(low & occupied_low, high & occupied_high)
    else:
        blocker = lowest_square(low & occupied_low, high & occupied_high)
    return low ^ RAYS[direction, blocker + 1, 0], high ^ RAYS[direction, blocker + 1, 1]
