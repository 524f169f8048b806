"""Loops of the network's kernels in which sums have to stay in the processor's registers.

Numba keeps what a loop adds up in memory. These loops are therefore written as LLVM code: up to 27
sums of 16 float32 each, to which products of pairs of bfloat16 are added, 32 in one instruction (`vdpbf16ps`);
`has_pair_products` says whether the processor can do it.

Boards are [112, C]: 11 ranks of 10 squares, of which the first of each and the whole first and last
are a margin of zeros, so that square (r, f) stands at (r + 1) * 10 + f + 1 and the one behind the
last file is the margin before the next rank. Widths and sides (3 or 1) are constants where these
are called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

BOARD_FILES = 10
BOARD_SQUARES = 112  # 111 rounded up
LANES = 16
RANKS_AT_ONCE = 3
INPUTS_AT_ONCE = 8  # of a 3 x 3 convolution's gradient: 3 x 8 sums
STEM_SIDE = 11

_INT32, _INT64 = ir.IntType(32), ir.IntType(64)
_FLOATS = ir.VectorType(ir.FloatType(), LANES)
_PAIRS = ir.VectorType(_INT32, LANES)
_PAIR_BYTES = _FLOAT = 4
_HALF = 2
_PAIR_OF_ONES = 0x3F803F80


class _BFloat16(ir.types.Type):  # type: ignore[misc]
    """LLVM's type, which llvmlite does not know."""

    null = "0.0"

    def __str__(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloat16)

    def __hash__(self) -> int:
        return hash(_BFloat16)


_HALVES = ir.VectorType(_BFloat16(), 2 * LANES)


def has_pair_products() -> bool:
    """Whether this processor adds up products of bfloat16, 32 in an instruction."""
    features = llvm.get_host_cpu_features()
    return bool(features.get("avx512bf16")) and bool(features.get("avx512f"))


@intrinsic(prefer_literal=True)
def convolve_rectified(
    typing: Any, board: Any, weights: Any, bias: Any, added: Any, adds: Any, after: Any, width: Any
) -> Any:
    """Set the board `after` to what a 3 x 3 convolution and its ReLU make of a board.

    Boards: uint16 [112, W]; weights: uint16 [W / 16, 9, W / 2, 16, 2]; bias: float32 [W]. The board
    `added` is added before the ReLU if `adds`, a constant, is not 0.
    """
    channels, adds_board = _constant(width), _constant(adds)

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        board, weights, bias, added = (
            _data(context, builder, signature, arguments, n) for n in range(4)
        )
        after = _data(context, builder, signature, arguments, 5)

        def begin(ranks: Any, block: Any) -> list[Any]:
            start = _load(builder, _moved(builder, bias, block, LANES * _FLOAT), 0, _FLOATS)
            return [start for _ in _SQUARES]

        def finish(ranks: Any, block: Any, totals: Sequence[Any]) -> None:
            for place, total in zip(_board_places(channels), totals, strict=True):
                if adds_board:
                    there = _part_of_board(builder, added, ranks, block, channels)
                    total = builder.fadd(total, _widened(builder, there, place))
                here = _part_of_board(builder, after, ranks, block, channels)
                _store_narrowed(builder, here, place, _rectified(builder, total))

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
    in_width, out_width = _constant(inputs), _constant(outputs)

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        board, weights, bias, said = (
            _data(context, builder, signature, arguments, n) for n in range(4)
        )

        def begin(ranks: Any, block: Any) -> list[Any]:
            start = _load(builder, _moved(builder, bias, block, LANES * _FLOAT), 0, _FLOATS)
            return [start for _ in _SQUARES]

        def finish(ranks: Any, block: Any, totals: Sequence[Any]) -> None:
            here = _part_of_squares(builder, said, ranks, block, out_width)
            for place, total in zip(_square_places(out_width), totals, strict=True):
                _store(builder, here, place, total)

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
    in_width, out_width, reach = (_constant(width) for width in (inputs, outputs, side))
    adds_past, keeps_past = _constant(adds), _constant(keeps)

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        slopes, weights, past = (_data(context, builder, signature, arguments, n) for n in range(3))
        after, cut = (_data(context, builder, signature, arguments, n) for n in (5, 6))

        def begin(ranks: Any, block: Any) -> list[Any]:
            here = _part_of_squares(builder, past, ranks, block, out_width)
            if adds_past:
                return [_load(builder, here, at, _FLOATS) for at in _square_places(out_width)]
            return [ir.Constant(_FLOATS, [0.0] * LANES) for _ in _SQUARES]

        def finish(ranks: Any, block: Any, totals: Sequence[Any]) -> None:
            there = _part_of_board(builder, after, ranks, block, out_width)
            here = _part_of_board(builder, cut, ranks, block, out_width)
            kept = _part_of_squares(builder, past, ranks, block, out_width)
            nothing = ir.Constant(_FLOATS, [0.0] * LANES)
            for place, square, total in zip(
                _board_places(out_width), _square_places(out_width), totals, strict=True
            ):
                said = _widened(builder, there, place)
                passes = builder.fcmp_unordered("!=", said, nothing)
                slope = builder.select(passes, total, nothing)
                _store_narrowed(builder, here, place, slope)
                if keeps_past:
                    _store(builder, kept, square, slope)

        _convolve(builder, (slopes, weights), (in_width, out_width, reach), begin, finish)
        return context.get_dummy_value()

    numbers = (slopes, weights, past, adds, keeps, after, cut)
    return types.void(*numbers, inputs, outputs, side), code


_SQUARES = [(rank, file) for rank in range(RANKS_AT_ONCE) for file in range(9)]


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
    step_bytes = LANES // 2 * LANES * _PAIR_BYTES

    def some(number: Any, _: Sequence[Any]) -> list[Any]:
        block, ranks = _divided(builder, number, 9 // RANKS_AT_ONCE)
        seen = _moved(builder, board, ranks, RANKS_AT_ONCE * BOARD_FILES * in_width * _HALF)
        seen = builder.add(seen, _INT64(_first_square(reach) * in_width * _HALF))
        known = _moved(builder, weights, block, steps * step_bytes)

        def add(step: Any, totals: Sequence[Any]) -> list[Any]:
            tap, part = _divided(builder, step, parts)
            rank, file = _divided(builder, tap, reach)
            there = _moved(builder, seen, rank, BOARD_FILES * in_width * _HALF)
            there = _moved(builder, there, file, in_width * _HALF)
            there = _moved(builder, there, part, LANES * _HALF)
            weight = _moved(builder, known, step, step_bytes)
            totals = list(totals)
            for pair in range(LANES // 2):
                pairs = _load(builder, weight, pair * LANES * _PAIR_BYTES, _PAIRS)
                for total, (rank_below, file_right) in enumerate(_SQUARES):
                    square = BOARD_FILES * rank_below + file_right
                    place = square * in_width * _HALF + pair * _PAIR_BYTES
                    value = _load(builder, there, place, _INT32)
                    totals[total] = _add_pair_products(builder, totals[total], pairs, value)
            return totals

        finish(ranks, block, _loop(builder, steps, begin(ranks, block), add))
        return []

    _loop(builder, out_width // LANES * (9 // RANKS_AT_ONCE), [], some)


def _board_places(width: int) -> list[int]:
    return [(BOARD_FILES * rank + file) * width * _HALF for rank, file in _SQUARES]


def _square_places(width: int) -> list[int]:
    return [(9 * rank + file) * width * _FLOAT for rank, file in _SQUARES]


def _part_of_board(builder: Any, board: Any, ranks: Any, block: Any, width: int) -> Any:
    """The address of three ranks and 16 channels of a board, without the margin."""
    board = builder.add(board, _INT64(_first_square(1) * width * _HALF))
    board = _moved(builder, board, ranks, RANKS_AT_ONCE * BOARD_FILES * width * _HALF)
    return _moved(builder, board, block, LANES * _HALF)


def _part_of_squares(builder: Any, squares: Any, ranks: Any, block: Any, width: int) -> Any:
    """The same of [81, width] float32."""
    squares = _moved(builder, squares, ranks, RANKS_AT_ONCE * 9 * width * _FLOAT)
    return _moved(builder, squares, block, LANES * _FLOAT)


def _rectified(builder: Any, value: Any) -> Any:
    """What is no number stays none."""
    nothing = ir.Constant(_FLOATS, [0.0] * LANES)
    return builder.select(builder.fcmp_ordered("<=", value, nothing), nothing, value)


def _widened(builder: Any, address: Any, offset: int) -> Any:
    """16 numbers of bfloat16 as float32."""
    halves = _load(builder, address, offset, ir.VectorType(ir.IntType(16), LANES))
    shift = ir.Constant(_PAIRS, [16] * LANES)
    return builder.bitcast(builder.shl(builder.zext(halves, _PAIRS), shift), _FLOATS)


def _store_narrowed(builder: Any, address: Any, offset: int, value: Any) -> None:
    """16 numbers of float32, rounded to the nearest bfloat16."""
    kind = ir.VectorType(_BFloat16(), LANES)
    function = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(kind, [_FLOATS]),
        "llvm.x86.avx512bf16.cvtneps2bf16.512",
    )
    _store(builder, address, offset, builder.call(function, [value]))


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
    in_width, out_width, reach = (_constant(width) for width in (inputs, outputs, side))
    some = INPUTS_AT_ONCE if reach > 1 else LANES
    weights = [(file, channel) for file in range(reach) for channel in range(some)]

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        boards, gradients, of_weights, of_bias = (
            _data(context, builder, signature, arguments, n) for n in range(4)
        )

        def add_to_weights(number: Any, _: Sequence[Any]) -> list[Any]:
            number, part = _divided(builder, number, in_width // some)
            rank_below, block = _divided(builder, number, out_width // LANES)
            seen = builder.add(boards, _INT64(_first_square(reach) * in_width * _PAIR_BYTES))
            seen = _moved(builder, seen, rank_below, BOARD_FILES * in_width * _PAIR_BYTES)
            seen = _moved(builder, seen, part, some * _PAIR_BYTES)
            told = _moved(builder, gradients, block, LANES * _PAIR_BYTES)
            here = _moved(builder, of_weights, rank_below, reach * in_width * out_width * _FLOAT)
            here = _moved(builder, here, part, some * out_width * _FLOAT)
            here = _moved(builder, here, block, LANES * _FLOAT)
            places = [(file * in_width + c) * out_width * _FLOAT for file, c in weights]

            def add(rank: Any, totals: Sequence[Any]) -> list[Any]:
                there = _moved(builder, seen, rank, BOARD_FILES * in_width * _PAIR_BYTES)
                slopes = _moved(builder, told, rank, 9 * out_width * _PAIR_BYTES)

                def add_square(square: Any, totals: Sequence[Any]) -> list[Any]:
                    around = _moved(builder, there, square, in_width * _PAIR_BYTES)
                    slope = _moved(builder, slopes, square, out_width * _PAIR_BYTES)
                    pairs = _load(builder, slope, 0, _PAIRS)
                    return [
                        _add_pair_products(
                            builder,
                            total,
                            pairs,
                            _load(builder, around, (file * in_width + c) * _PAIR_BYTES, _INT32),
                        )
                        for (file, c), total in zip(weights, totals, strict=True)
                    ]

                return _loop(builder, 9, totals, add_square)

            before = [_load(builder, here, place, _FLOATS) for place in places]
            for place, total in zip(places, _loop(builder, 9, before, add), strict=True):
                _store(builder, here, place, total)
            return []

        def add_to_bias(block: Any, _: Sequence[Any]) -> list[Any]:
            told = _moved(builder, gradients, block, LANES * _PAIR_BYTES)
            here = _moved(builder, of_bias, block, LANES * _FLOAT)

            def add(square: Any, totals: Sequence[Any]) -> list[Any]:
                there = _moved(builder, told, square, out_width * _PAIR_BYTES)
                pairs = _load(builder, there, 0, _PAIRS)
                return [_add_pair_products(builder, totals[0], pairs, _INT32(_PAIR_OF_ONES))]

            _store(builder, here, 0, *_loop(builder, 81, [_load(builder, here, 0, _FLOATS)], add))
            return []

        _loop(builder, reach * (out_width // LANES) * (in_width // some), [], add_to_weights)
        _loop(builder, out_width // LANES, [], add_to_bias)
        return context.get_dummy_value()

    return types.void(boards, gradients, of_weights, of_bias, inputs, outputs, side), code


@intrinsic(prefer_literal=True)
def add_planes(
    typing: Any, bits: Any, weights: Any, start: Any, board: Any, first: Any, width: Any
) -> Any:
    """Add to a board what the planes of one square weigh on the nine squares around it.

    bits: which rows of weights float32 [C, 9 * W]; start float32 [9 * W] is added too. board:
    float32 [11, 11 * W], in which the upper left of the nine begins at number `first`.
    """
    channels = _constant(width)
    parts = 9 * channels // LANES

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        weights, start, board = (
            _data(context, builder, signature, arguments, number) for number in (1, 2, 3)
        )
        board = builder.add(board, builder.mul(arguments[4], _INT64(_FLOAT)))
        size = LANES * _FLOAT
        before = [_load(builder, start, part * size, _FLOATS) for part in range(parts)]

        def add(row: Any, totals: Sequence[Any]) -> list[Any]:
            weight = builder.add(weights, builder.mul(row, _INT64(parts * size)))
            return [
                builder.fadd(total, _load(builder, weight, part * size, _FLOATS))
                for part, total in enumerate(totals)
            ]

        totals = _loop_over_bits(builder, arguments[0], before, add)
        for part, total in enumerate(totals):
            place = _place_on_stem_board(part, channels)
            _store(
                builder, board, place, builder.fadd(_load(builder, board, place, _FLOATS), total)
            )
        return context.get_dummy_value()

    return types.void(types.int64, weights, start, board, types.int64, width), code


@intrinsic(prefer_literal=True)
def spread_over_planes(
    typing: Any, bits: Any, board: Any, first: Any, of_weights: Any, of_all: Any, width: Any
) -> Any:
    """Add what a board has on nine squares to the gradients of the planes of the middle one.

    As `add_planes`; of_all float32 [9 * W] gets it whatever the planes are.
    """
    channels = _constant(width)
    parts = 9 * channels // LANES

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        board, of_weights, of_all = (
            _data(context, builder, signature, arguments, number) for number in (1, 3, 4)
        )
        board = builder.add(board, builder.mul(arguments[2], _INT64(_FLOAT)))
        size = LANES * _FLOAT
        around = [
            _load(builder, board, _place_on_stem_board(part, channels), _FLOATS)
            for part in range(parts)
        ]

        def add_to(address: Any) -> None:
            for part, value in enumerate(around):
                total = builder.fadd(_load(builder, address, part * size, _FLOATS), value)
                _store(builder, address, part * size, total)

        def add(row: Any, totals: Sequence[Any]) -> list[Any]:
            add_to(builder.add(of_weights, builder.mul(row, _INT64(parts * size))))
            return []

        add_to(of_all)
        _loop_over_bits(builder, arguments[0], [], add)
        return context.get_dummy_value()

    return types.void(types.int64, board, types.int64, of_weights, of_all, width), code


@intrinsic(prefer_literal=True)
def rectify_stem(typing: Any, sums: Any, bias: Any, board: Any, width: Any) -> Any:
    """Set a board to the ReLU of sums float32 [11, 11 * W] and bias float32 [W]."""
    channels = _constant(width)

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        sums, bias, board = (_data(context, builder, signature, arguments, n) for n in range(3))
        biases = [_load(builder, bias, at, _FLOATS) for at in _parts(channels, _FLOAT)]

        def rectify(rank: Any, _: Sequence[Any]) -> list[Any]:
            there = _rank_on_stem_board(builder, sums, rank, channels)
            here = _rank_on_board(builder, board, rank, channels)
            for file in range(9):
                for part, start in enumerate(biases):
                    at = file * channels + part * LANES
                    value = builder.fadd(start, _load(builder, there, at * _FLOAT, _FLOATS))
                    _store_narrowed(builder, here, at * _HALF, _rectified(builder, value))
            return []

        _loop(builder, 9, [], rectify)
        return context.get_dummy_value()

    return types.void(sums, bias, board, width), code


@intrinsic(prefer_literal=True)
def put_on_stem_board(typing: Any, slopes: Any, board: Any, of_bias: Any, width: Any) -> Any:
    """Set board float32 [11, 11 * W] to slopes float32 [81, W], and add them to of_bias [W]."""
    channels = _constant(width)

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        slopes, board, of_bias = (
            _data(context, builder, signature, arguments, n) for n in range(3)
        )

        def put(rank: Any, totals: Sequence[Any]) -> list[Any]:
            there = _moved(builder, slopes, rank, 9 * channels * _FLOAT)
            here = _rank_on_stem_board(builder, board, rank, channels)
            totals = list(totals)
            for file in range(9):
                for part in range(channels // LANES):
                    at = (file * channels + part * LANES) * _FLOAT
                    slope = _load(builder, there, at, _FLOATS)
                    _store(builder, here, at, slope)
                    totals[part] = builder.fadd(totals[part], slope)
            return totals

        places = _parts(channels, _FLOAT)
        before = [_load(builder, of_bias, at, _FLOATS) for at in places]
        for at, total in zip(places, _loop(builder, 9, before, put), strict=True):
            _store(builder, of_bias, at, total)
        return context.get_dummy_value()

    return types.void(slopes, board, of_bias, width), code


@intrinsic(prefer_literal=True)
def pair_boards(typing: Any, one: Any, other: Any, boards: Any, margins: Any, width: Any) -> Any:
    """Set boards uint32 [112, W] to two boards, the second in the upper halves.

    Without `margins`, a constant, boards are [81, W].
    """
    channels, with_margins = _constant(width), _constant(margins)

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        one, other, boards = (_data(context, builder, signature, arguments, n) for n in range(3))
        ranks, squares = (BOARD_SQUARES // 8, 8) if with_margins else (9, 9)
        halves, shift = ir.VectorType(ir.IntType(16), LANES), ir.Constant(_PAIRS, [16] * LANES)

        def pair(rank: Any, _: Sequence[Any]) -> list[Any]:
            if with_margins:
                both = [
                    _moved(builder, at, rank, squares * channels * _HALF) for at in (one, other)
                ]
            else:
                both = [_rank_on_board(builder, at, rank, channels) for at in (one, other)]
            here = _moved(builder, boards, rank, squares * channels * _PAIR_BYTES)
            for part in range(squares * channels // LANES):
                lower, upper = (
                    builder.zext(_load(builder, at, part * LANES * _HALF, halves), _PAIRS)
                    for at in both
                )
                pairs = builder.or_(lower, builder.shl(upper, shift))
                _store(builder, here, part * LANES * _PAIR_BYTES, pairs)
            return []

        _loop(builder, ranks, [], pair)
        return context.get_dummy_value()

    return types.void(one, other, boards, margins, width), code


def _parts(width: int, size: int) -> list[int]:
    """Where each 16 of so many numbers of a size begin."""
    return [first * size for first in range(0, width, LANES)]


def _rank_on_board(builder: Any, board: Any, rank: Any, width: int) -> Any:
    """The address of the first square of a rank, without the margin."""
    board = builder.add(board, _INT64(_first_square(1) * width * _HALF))
    return _moved(builder, board, rank, BOARD_FILES * width * _HALF)


def _rank_on_stem_board(builder: Any, board: Any, rank: Any, width: int) -> Any:
    board = builder.add(board, _INT64((STEM_SIDE + 1) * width * _FLOAT))
    return _moved(builder, board, rank, STEM_SIDE * width * _FLOAT)


def _place_on_stem_board(part: int, width: int) -> int:
    """Where a part of the weights of a plane goes: their ranks are backwards, see `stem_kernels`."""
    rank, rest = divmod(part * LANES, 3 * width)
    return ((2 - rank) * STEM_SIDE * width + rest) * _FLOAT


def _constant(literal: Any) -> int:
    assert isinstance(literal, types.IntegerLiteral), "widths and sides have to be constants"
    return int(literal.literal_value)


def _first_square(side: int) -> int:
    """What a convolution's first weight sees of a board for the upper left square."""
    return 0 if side > 1 else BOARD_FILES + 1


def _divided(builder: Any, number: Any, by: int) -> tuple[Any, Any]:
    return builder.udiv(number, _INT64(by)), builder.urem(number, _INT64(by))


def _moved(builder: Any, address: Any, count: Any, size: int) -> Any:
    return builder.add(address, builder.mul(count, _INT64(size)))


def _data(context: Any, builder: Any, signature: Any, arguments: Any, number: int) -> Any:
    array = context.make_array(signature.args[number])(context, builder, arguments[number])
    return builder.ptrtoint(array.data, _INT64)


def _load(builder: Any, address: Any, offset: int, kind: Any) -> Any:
    return builder.load(_pointer(builder, address, offset, kind), align=_FLOAT)


def _store(builder: Any, address: Any, offset: int, value: Any) -> None:
    builder.store(value, _pointer(builder, address, offset, value.type), align=_FLOAT)


def _pointer(builder: Any, address: Any, offset: int, kind: Any) -> Any:
    return builder.inttoptr(builder.add(address, _INT64(offset)), kind.as_pointer())


def _add_pair_products(builder: Any, total: Any, pairs: Any, pair: Any) -> Any:
    """total [16] + the products of pairs [16, 2] with one pair, each summed up."""
    function = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(_FLOATS, [_FLOATS, _HALVES, _HALVES]),
        "llvm.x86.avx512bf16.dpbf16ps.512",
    )
    nothing = ir.Constant(_PAIRS, ir.Undefined)
    one = builder.insert_element(nothing, pair, _INT32(0))
    everywhere = builder.shuffle_vector(one, nothing, ir.Constant(_PAIRS, [0] * LANES))
    return builder.call(
        function, [total, builder.bitcast(pairs, _HALVES), builder.bitcast(everywhere, _HALVES)]
    )


def _loop(
    builder: Any, times: int, before: Sequence[Any], body: Callable[[Any, Sequence[Any]], list[Any]]
) -> list[Any]:
    """What `body` makes of the number of the pass and the values before it, after all passes."""
    entry = builder.block
    inside, behind = builder.append_basic_block("loop"), builder.append_basic_block("behind")
    builder.branch(inside)
    builder.position_at_end(inside)
    number, *values = (builder.phi(kind) for kind in (_INT64, *(value.type for value in before)))
    after = body(number, values)
    following = builder.add(number, _INT64(1))
    for phi, first, next_one in zip(
        (number, *values), (_INT64(0), *before), (following, *after), strict=True
    ):
        phi.add_incoming(first, entry)
        phi.add_incoming(next_one, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, _INT64(times)), inside, behind)
    builder.position_at_end(behind)
    return after


def _loop_over_bits(
    builder: Any, bits: Any, before: Sequence[Any], body: Callable[[Any, Sequence[Any]], list[Any]]
) -> list[Any]:
    """The same for the number of each bit that is set, from the lowest on."""
    entry = builder.block
    asks, inside, behind = (builder.append_basic_block(name) for name in ("asks", "bit", "behind"))
    builder.branch(asks)
    builder.position_at_end(asks)
    left, *values = (builder.phi(kind) for kind in (_INT64, *(value.type for value in before)))
    builder.cbranch(builder.icmp_signed("!=", left, _INT64(0)), inside, behind)
    builder.position_at_end(inside)
    after = body(builder.cttz(left, ir.IntType(1)(1)), values)
    fewer = builder.and_(left, builder.sub(left, _INT64(1)))
    for phi, first, next_one in zip((left, *values), (bits, *before), (fewer, *after), strict=True):
        phi.add_incoming(first, entry)
        phi.add_incoming(next_one, builder.block)
    builder.branch(asks)
    builder.position_at_end(behind)
    return values
