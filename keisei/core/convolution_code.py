"""Convolutions of one board, inside kernels: forth, back, and the gradients of their weights.

A board is [112, C]: 11 ranks of 10 squares, of which the first of each and the whole first and last
are a margin of zeros, so that square (r, f) stands at (r + 1) * 10 + f + 1 and the one behind the
last file is the margin before the next rank. Its numbers are the bits of bfloat16, sums are of
float32. Widths, sides (3 or 1) and what says yes or no are constants where these are called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from keisei.core.llvm_code import (
    FLOAT,
    FLOATS,
    HALF,
    INT32,
    INT64,
    LANES,
    NOTHING,
    PAIR,
    PAIRS,
    add_pair_products,
    constant,
    data_of,
    divided,
    load,
    load_widened,
    loop,
    moved,
    rectified,
    store,
    store_narrowed,
)

BOARD_FILES = 10
BOARD_SQUARES = 112  # 111 rounded up
_RANKS_AT_ONCE = 3
_INPUTS_AT_ONCE = 8  # of a 3 x 3 convolution's gradient: 3 x 8 sums
_PAIR_OF_ONES = 0x3F803F80
_SQUARES = [(rank, file) for rank in range(_RANKS_AT_ONCE) for file in range(9)]


@intrinsic(prefer_literal=True)
def convolve_rectified(
    typing: Any, board: Any, weights: Any, bias: Any, added: Any, adds: Any, after: Any, width: Any
) -> Any:
    """Set the board `after` to what a 3 x 3 convolution and its ReLU make of a board.

    Boards: uint16 [112, W]; weights: uint16 [W / 16, 9, W / 2, 16, 2]; bias: float32 [W]. The board
    `added` is added before the ReLU if `adds`, a constant, is not 0.
    """
    channels, adds_board = constant(width), constant(adds)

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        board, weights, bias, added = (
            data_of(context, builder, signature, arguments, n) for n in range(4)
        )
        after = data_of(context, builder, signature, arguments, 5)

        def begin(ranks: Any, block: Any) -> list[Any]:
            start = load(builder, moved(builder, bias, block, LANES * FLOAT), 0, FLOATS)
            return [start for _ in _SQUARES]

        def finish(ranks: Any, block: Any, totals: Sequence[Any]) -> None:
            for place, total in zip(_board_places(channels), totals, strict=True):
                value = total
                if adds_board:
                    there = _part_of_board(builder, added, ranks, block, channels)
                    value = builder.fadd(total, load_widened(builder, there, place))
                here = _part_of_board(builder, after, ranks, block, channels)
                store_narrowed(builder, here, place, rectified(builder, value))

        _convolve(builder, (board, weights), (channels, channels, 3), begin, finish)
        return context.get_dummy_value()

    return types.void(board, weights, bias, added, adds, after, width), code


@intrinsic(prefer_literal=True)
def convolve_points(
    typing: Any, board: Any, weights: Any, bias: Any, said: Any, inputs: Any, outputs: Any
) -> Any:
    """Set said float32 [81, outputs] to what a 1 x 1 convolution makes of a board.

    board: uint16 [112, inputs]; weights: uint16 [outputs / 16, 1, inputs / 2, 16, 2].
    """
    in_width, out_width = constant(inputs), constant(outputs)

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        board, weights, bias, said = (
            data_of(context, builder, signature, arguments, n) for n in range(4)
        )

        def begin(ranks: Any, block: Any) -> list[Any]:
            start = load(builder, moved(builder, bias, block, LANES * FLOAT), 0, FLOATS)
            return [start for _ in _SQUARES]

        def finish(ranks: Any, block: Any, totals: Sequence[Any]) -> None:
            here = _part_of_squares(builder, said, ranks, block, out_width)
            for place, total in zip(_square_places(out_width), totals, strict=True):
                store(builder, here, place, total)

        _convolve(builder, (board, weights), (in_width, out_width, 1), begin, finish)
        return context.get_dummy_value()

    return types.void(board, weights, bias, said, inputs, outputs), code


@intrinsic(prefer_literal=True)
def convolve_back(
    typing: Any,
    slopes: Any,
    weights: Any,
    past: Any,
    adds: Any,
    keeps: Any,
    after: Any,
    cut: Any,
    inputs: Any,
    outputs: Any,
    side: Any,
) -> Any:
    """Set the board `cut` to the gradients that a convolution hands down, where its input is not 0.

    slopes: uint16 [112, inputs], gradients of what it said; weights as `convolve_rectified`, of the
    way back; after: uint16 [112, outputs], what went into it; past: float32 [81, outputs] is added
    if `adds`, and set to what goes to `cut` if `keeps`; these are constants.
    """
    in_width, out_width, reach = (constant(width) for width in (inputs, outputs, side))
    adds_past, keeps_past = constant(adds), constant(keeps)

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        slopes, weights, past, after, cut = (
            data_of(context, builder, signature, arguments, n) for n in (0, 1, 2, 5, 6)
        )

        def begin(ranks: Any, block: Any) -> list[Any]:
            here = _part_of_squares(builder, past, ranks, block, out_width)
            if adds_past:
                return [load(builder, here, at, FLOATS) for at in _square_places(out_width)]
            return [NOTHING for _ in _SQUARES]

        def finish(ranks: Any, block: Any, totals: Sequence[Any]) -> None:
            there = _part_of_board(builder, after, ranks, block, out_width)
            here = _part_of_board(builder, cut, ranks, block, out_width)
            kept = _part_of_squares(builder, past, ranks, block, out_width)
            for place, square, total in zip(
                _board_places(out_width), _square_places(out_width), totals, strict=True
            ):
                said = load_widened(builder, there, place)
                passes = builder.fcmp_unordered("!=", said, NOTHING)
                slope = builder.select(passes, total, NOTHING)
                store_narrowed(builder, here, place, slope)
                if keeps_past:
                    store(builder, kept, square, slope)

        _convolve(builder, (slopes, weights), (in_width, out_width, reach), begin, finish)
        return context.get_dummy_value()

    numbers = (slopes, weights, past, adds, keeps, after, cut)
    return types.void(*numbers, inputs, outputs, side), code


def _convolve(
    builder: Any,
    arrays: tuple[Any, Any],
    sizes: tuple[int, int, int],
    begin: Callable[[Any, Any], list[Any]],
    finish: Callable[[Any, Any, Sequence[Any]], None],
) -> None:
    """Add up what board and weights give, for three ranks and 16 channels at a time.

    sizes: channels in and out, and the side. `begin` has the sums [27, 16] to add to and `finish`
    puts them away, for the number of ranks (0, 1, 2) and that of 16 channels.
    """
    (board, weights), (in_width, out_width, reach) = arrays, sizes
    parts = in_width // LANES
    steps = reach * reach * parts
    step_bytes = LANES // 2 * LANES * PAIR

    def some(number: Any, _: Sequence[Any]) -> list[Any]:
        block, ranks = divided(builder, number, 9 // _RANKS_AT_ONCE)
        seen = moved(builder, board, ranks, _RANKS_AT_ONCE * BOARD_FILES * in_width * HALF)
        seen = builder.add(seen, INT64(first_square(reach) * in_width * HALF))
        known = moved(builder, weights, block, steps * step_bytes)

        def add(step: Any, totals: Sequence[Any]) -> list[Any]:
            tap, part = divided(builder, step, parts)
            rank, file = divided(builder, tap, reach)
            there = moved(builder, seen, rank, BOARD_FILES * in_width * HALF)
            there = moved(builder, there, file, in_width * HALF)
            there = moved(builder, there, part, LANES * HALF)
            weight = moved(builder, known, step, step_bytes)
            totals = list(totals)
            for pair in range(LANES // 2):
                pairs = load(builder, weight, pair * LANES * PAIR, PAIRS)
                for total, (rank_below, file_right) in enumerate(_SQUARES):
                    square = BOARD_FILES * rank_below + file_right
                    place = square * in_width * HALF + pair * PAIR
                    value = load(builder, there, place, INT32)
                    totals[total] = add_pair_products(builder, totals[total], pairs, value)
            return totals

        finish(ranks, block, loop(builder, steps, begin(ranks, block), add))
        return []

    loop(builder, out_width // LANES * (9 // _RANKS_AT_ONCE), [], some)


def _board_places(width: int) -> list[int]:
    return [(BOARD_FILES * rank + file) * width * HALF for rank, file in _SQUARES]


def _square_places(width: int) -> list[int]:
    return [(9 * rank + file) * width * FLOAT for rank, file in _SQUARES]


def _part_of_board(builder: Any, board: Any, ranks: Any, block: Any, width: int) -> Any:
    """The address of three ranks and 16 channels of a board, without the margin."""
    board = builder.add(board, INT64(first_square(1) * width * HALF))
    board = moved(builder, board, ranks, _RANKS_AT_ONCE * BOARD_FILES * width * HALF)
    return moved(builder, board, block, LANES * HALF)


def _part_of_squares(builder: Any, squares: Any, ranks: Any, block: Any, width: int) -> Any:
    """The same of [81, width] float32."""
    squares = moved(builder, squares, ranks, _RANKS_AT_ONCE * 9 * width * FLOAT)
    return moved(builder, squares, block, LANES * FLOAT)


@intrinsic(prefer_literal=True)
def add_correlated(
    typing: Any,
    boards: Any,
    gradients: Any,
    of_weights: Any,
    of_bias: Any,
    inputs: Any,
    outputs: Any,
    side: Any,
) -> Any:
    """Add to the gradients of a convolution's weights and bias, from two positions at once.

    boards uint32 [112, inputs] and gradients uint32 [81, outputs] have the number of one position
    in the lower half and that of the other in the upper. of_weights: float32 [side, side, inputs,
    outputs]; of_bias: float32 [outputs].
    """
    in_width, out_width, reach = (constant(width) for width in (inputs, outputs, side))
    some = _INPUTS_AT_ONCE if reach > 1 else LANES
    weights = [(file, channel) for file in range(reach) for channel in range(some)]

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        boards, gradients, of_weights, of_bias = (
            data_of(context, builder, signature, arguments, n) for n in range(4)
        )

        def add_to_weights(number: Any, _: Sequence[Any]) -> list[Any]:
            number, part = divided(builder, number, in_width // some)
            rank_below, block = divided(builder, number, out_width // LANES)
            seen = builder.add(boards, INT64(first_square(reach) * in_width * PAIR))
            seen = moved(builder, seen, rank_below, BOARD_FILES * in_width * PAIR)
            seen = moved(builder, seen, part, some * PAIR)
            told = moved(builder, gradients, block, LANES * PAIR)
            here = moved(builder, of_weights, rank_below, reach * in_width * out_width * FLOAT)
            here = moved(builder, here, part, some * out_width * FLOAT)
            here = moved(builder, here, block, LANES * FLOAT)
            places = [(file * in_width + c) * out_width * FLOAT for file, c in weights]

            def add(rank: Any, totals: Sequence[Any]) -> list[Any]:
                there = moved(builder, seen, rank, BOARD_FILES * in_width * PAIR)
                slopes = moved(builder, told, rank, 9 * out_width * PAIR)

                def add_square(square: Any, totals: Sequence[Any]) -> list[Any]:
                    around = moved(builder, there, square, in_width * PAIR)
                    slope = moved(builder, slopes, square, out_width * PAIR)
                    pairs = load(builder, slope, 0, PAIRS)
                    return [
                        add_pair_products(
                            builder,
                            total,
                            pairs,
                            load(builder, around, (file * in_width + c) * PAIR, INT32),
                        )
                        for (file, c), total in zip(weights, totals, strict=True)
                    ]

                return loop(builder, 9, totals, add_square)

            before = [load(builder, here, place, FLOATS) for place in places]
            for place, total in zip(places, loop(builder, 9, before, add), strict=True):
                store(builder, here, place, total)
            return []

        def add_to_bias(block: Any, _: Sequence[Any]) -> list[Any]:
            told = moved(builder, gradients, block, LANES * PAIR)
            here = moved(builder, of_bias, block, LANES * FLOAT)

            def add(square: Any, totals: Sequence[Any]) -> list[Any]:
                there = moved(builder, told, square, out_width * PAIR)
                pairs = load(builder, there, 0, PAIRS)
                return [add_pair_products(builder, totals[0], pairs, INT32(_PAIR_OF_ONES))]

            store(builder, here, 0, *loop(builder, 81, [load(builder, here, 0, FLOATS)], add))
            return []

        loop(builder, reach * (out_width // LANES) * (in_width // some), [], add_to_weights)
        loop(builder, out_width // LANES, [], add_to_bias)
        return context.get_dummy_value()

    return types.void(boards, gradients, of_weights, of_bias, inputs, outputs, side), code


@intrinsic(prefer_literal=True)
def pair_boards(typing: Any, one: Any, other: Any, boards: Any, margins: Any, width: Any) -> Any:
    """Set boards uint32 [112, W] to two boards, the second in the upper halves.

    Without `margins`, a constant, boards are [81, W].
    """
    channels, with_margins = constant(width), constant(margins)

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        one, other, boards = (data_of(context, builder, signature, arguments, n) for n in range(3))
        ranks, squares = (BOARD_SQUARES // 8, 8) if with_margins else (9, 9)
        halves, shift = ir.VectorType(ir.IntType(16), LANES), ir.Constant(PAIRS, [16] * LANES)

        def pair(rank: Any, _: Sequence[Any]) -> list[Any]:
            if with_margins:
                both = [moved(builder, at, rank, squares * channels * HALF) for at in (one, other)]
            else:
                both = [rank_on_board(builder, at, rank, channels) for at in (one, other)]
            here = moved(builder, boards, rank, squares * channels * PAIR)
            for part in range(squares * channels // LANES):
                lower, upper = (
                    builder.zext(load(builder, at, part * LANES * HALF, halves), PAIRS)
                    for at in both
                )
                pairs = builder.or_(lower, builder.shl(upper, shift))
                store(builder, here, part * LANES * PAIR, pairs)
            return []

        loop(builder, ranks, [], pair)
        return context.get_dummy_value()

    return types.void(one, other, boards, margins, width), code


def rank_on_board(builder: Any, board: Any, rank: Any, width: int) -> Any:
    """The address of the first square of a rank, without the margin."""
    board = builder.add(board, INT64(first_square(1) * width * HALF))
    return moved(builder, board, rank, BOARD_FILES * width * HALF)


def first_square(side: int) -> int:
    """What a convolution's first weight sees of a board for the upper left square."""
    return 0 if side > 1 else BOARD_FILES + 1
