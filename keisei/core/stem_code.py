"""A network's first convolution of one position, inside kernels, with 16 channels.

As `stem_kernels`, whose boards and weights by plane these are; what is added up for a square stays
in registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numba import types
from numba.extending import intrinsic

from keisei.core.convolution_code import rank_on_board
from keisei.core.llvm_code import (
    FLOAT,
    FLOATS,
    HALF,
    INT64,
    LANES,
    data_of,
    load,
    loop,
    loop_over_bits,
    moved,
    rectified,
    store,
    store_narrowed,
)

STEM_SIDE = 11
_VECTOR = LANES * FLOAT
_PLANE = 9 * _VECTOR
"""The bytes of what a plane weighs on nine squares."""
# Where each of the nine goes, from the upper left: their ranks are backwards in a plane's weights.
_AROUND = [((2 - rank) * STEM_SIDE + file) * _VECTOR for rank in range(3) for file in range(3)]


@intrinsic
def add_planes(typing: Any, bits: Any, weights: Any, start: Any, board: Any, first: Any) -> Any:
    """Add to a board what the planes of one square weigh on the nine squares around it.

    bits: which rows of weights float32 [C, 9 * 16]; start float32 [9 * 16] is added too. board:
    float32 [11, 11 * 16], in which the upper left of the nine begins at number `first`.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        weights, start, board = (
            data_of(context, builder, signature, arguments, n) for n in (1, 2, 3)
        )
        board = moved(builder, board, arguments[4], FLOAT)
        before = [load(builder, start, part * _VECTOR, FLOATS) for part in range(9)]

        def add(plane: Any, totals: Sequence[Any]) -> list[Any]:
            weight = moved(builder, weights, plane, _PLANE)
            return [
                builder.fadd(total, load(builder, weight, part * _VECTOR, FLOATS))
                for part, total in enumerate(totals)
            ]

        totals = loop_over_bits(builder, arguments[0], before, add)
        for place, total in zip(_AROUND, totals, strict=True):
            store(builder, board, place, builder.fadd(load(builder, board, place, FLOATS), total))
        return context.get_dummy_value()

    return types.void(types.int64, weights, start, board, types.int64), code


@intrinsic
def spread_over_planes(
    typing: Any, bits: Any, board: Any, first: Any, of_weights: Any, of_all: Any
) -> Any:
    """Add what a board has on nine squares to the gradients of the planes of the middle one.

    As `add_planes`; of_all float32 [9 * 16] gets it whatever the planes are.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        board, of_weights, of_all = (
            data_of(context, builder, signature, arguments, n) for n in (1, 3, 4)
        )
        board = moved(builder, board, arguments[2], FLOAT)
        around = [load(builder, board, place, FLOATS) for place in _AROUND]

        def add_to(address: Any) -> None:
            for part, value in enumerate(around):
                total = builder.fadd(load(builder, address, part * _VECTOR, FLOATS), value)
                store(builder, address, part * _VECTOR, total)

        def add(plane: Any, _: Sequence[Any]) -> list[Any]:
            add_to(moved(builder, of_weights, plane, _PLANE))
            return []

        add_to(of_all)
        loop_over_bits(builder, arguments[0], [], add)
        return context.get_dummy_value()

    return types.void(types.int64, board, types.int64, of_weights, of_all), code


@intrinsic
def rectify_stem(typing: Any, sums: Any, bias: Any, board: Any) -> Any:
    """Set a board of `convolution_code` to the ReLU of sums [11, 11 * 16] and bias [16]."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        sums, bias, board = (data_of(context, builder, signature, arguments, n) for n in range(3))
        start = load(builder, bias, 0, FLOATS)

        def rectify(rank: Any, _: Sequence[Any]) -> list[Any]:
            there = _rank_on_stem_board(builder, sums, rank)
            here = rank_on_board(builder, board, rank, LANES)
            for file in range(9):
                value = builder.fadd(start, load(builder, there, file * _VECTOR, FLOATS))
                store_narrowed(builder, here, file * LANES * HALF, rectified(builder, value))
            return []

        loop(builder, 9, [], rectify)
        return context.get_dummy_value()

    return types.void(sums, bias, board), code


@intrinsic
def put_on_stem_board(typing: Any, slopes: Any, board: Any, of_bias: Any) -> Any:
    """Set board float32 [11, 11 * 16] to slopes float32 [81, 16], and add them to of_bias [16]."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        slopes, board, of_bias = (
            data_of(context, builder, signature, arguments, n) for n in range(3)
        )

        def put(rank: Any, totals: Sequence[Any]) -> list[Any]:
            there = moved(builder, slopes, rank, 9 * _VECTOR)
            here = _rank_on_stem_board(builder, board, rank)
            (total,) = totals
            for file in range(9):
                slope = load(builder, there, file * _VECTOR, FLOATS)
                store(builder, here, file * _VECTOR, slope)
                total = builder.fadd(total, slope)
            return [total]

        (total,) = loop(builder, 9, [load(builder, of_bias, 0, FLOATS)], put)
        store(builder, of_bias, 0, total)
        return context.get_dummy_value()

    return types.void(slopes, board, of_bias), code


def _rank_on_stem_board(builder: Any, board: Any, rank: Any) -> Any:
    """The address of the first square of a rank, without the margin."""
    board = builder.add(board, INT64((STEM_SIDE + 1) * _VECTOR))
    return moved(builder, board, rank, STEM_SIDE * _VECTOR)
