"""A whole network of planes, residual blocks and heads on a CPU: one position after the other.

What a layer makes of a position stays in the processor's own cache, and nothing is compiled or
prepared for a size of batch: libraries take each layer for all positions, whose numbers then come
from memory. Sums are of float32; what goes from layer to layer is rounded to bfloat16.

A tower has L = 2 * depth layers of W channels; `boards` (see `vector_code`) hold what goes into each
of them and into the heads, which are one layer of 32 channels: 27 policy planes, 4 that the value is
computed from, and nothing.
"""

from __future__ import annotations

import numpy as np

from keisei.compiled.kernels import kernel
from keisei.core.float_bits import narrowed
from keisei.core.vector_code import (
    BOARD_FILES,
    BOARD_SQUARES,
    LANES,
    STEM_SIDE,
    add_correlated,
    add_planes,
    convolve_back,
    convolve_points,
    convolve_rectified,
    pair_boards,
    put_on_stem_board,
    rectify_stem,
    spread_over_planes,
)
from keisei.shogi.policy_output_mapper import NUM_PLANES

WIDTHS = (16, 32)
"""Those that there is code for."""
HEAD_CHANNELS = 32
VALUE_CHANNELS = 4
_ZERO = np.float32(0)
_NO_BITS = np.uint16(0)
_HALF_BITS = np.uint32(16)


@kernel(entry=True)
def pack_convolution(weight, forth, back):
    """Set forth [O / 16, K, I / 2, 16, 2] and back [I / 16, K, O / 2, 16, 2] from weight [O, K, I].

    Weights are float32 of K squares; packed ones are bits of bfloat16. `back` leads from gradients
    of outputs to those of inputs.
    """
    outputs, taps, inputs = weight.shape
    for o in range(outputs):
        for tap in range(taps):
            for i in range(inputs):
                bits = narrowed(weight[o, tap, i], _NO_BITS)
                forth[o // LANES, tap, i // 2, o % LANES, i % 2] = bits
                back[i // LANES, taps - 1 - tap, o // 2, i % LANES, o % 2] = bits


@kernel(entry=True)
def tower_forward(
    sets,
    even,
    legal,
    counts,
    places,
    stem,
    stem_bias,
    weights,
    biases,
    heads,
    heads_bias,
    boards,
    logits,
    squares,
):
    """Set logits [R, M] of the moves and squares [R, 4 * 81] of R positions.

    legal [R, M] and counts [R]: moves, of which places say where in [81, 32] their logits are. stem:
    weights by plane, see `stem_kernels`; weights [L, ...] and heads as `pack_convolution` packs
    them. boards [R, L + 1, 112, W] with margins of 0 keep what went into each layer, or with
    [1, ...] that of one position.
    """
    width = len(stem_bias)
    of_no_bits = np.empty(9 * width, np.float32)
    stem_board = np.empty((STEM_SIDE, STEM_SIDE * width), np.float32)
    said = np.empty((81, HEAD_CHANNELS), np.float32)
    by_place = said.reshape(-1)
    for row in range(len(sets)):
        layers = boards[row % len(boards)]
        _add_even_planes(even[row], stem, of_no_bits)
        stem_board[:] = 0
        _add_square_planes(sets[row], stem, of_no_bits, stem_board)
        _rectify_stem(stem_board, stem_bias, layers[0])
        for layer in range(0, len(weights), 2):
            _convolve(layers[layer], weights[layer], biases[layer], layers[layer + 1])
            _convolve_and_add(
                layers[layer + 1],
                weights[layer + 1],
                biases[layer + 1],
                layers[layer],
                layers[layer + 2],
            )
        _look(layers[len(weights)], heads, heads_bias, said)
        for index in range(counts[row]):
            logits[row, index] = by_place[places[legal[row, index]]]
        _tell_squares(said, squares[row])


@kernel(entry=True)
def tower_backward(
    sets,
    even,
    legal,
    counts,
    places,
    boards,
    squares,
    back_weights,
    back_heads,
    by_logits,
    by_squares,
    of_stem,
    of_stem_bias,
    of_weights,
    of_biases,
    of_heads,
    of_heads_bias,
):
    """Add to the gradients of everything, from those of the logits and squares.

    After `tower_forward`, whose moves, boards and squares these are. of_weights: [L, 3, 3, W, W] float32,
    inputs before outputs; of_heads: [W, 32]. Two positions at a time.
    """
    width, last = len(of_stem_bias), len(back_weights)
    told = np.zeros((2, BOARD_SQUARES, HEAD_CHANNELS), np.uint16)
    slopes = np.zeros((2, BOARD_SQUARES, width), np.uint16)
    inner_slopes = np.zeros((2, BOARD_SQUARES, width), np.uint16)
    seen_twice = np.empty((BOARD_SQUARES, width), np.uint32)
    told_twice = np.empty((81, HEAD_CHANNELS), np.uint32)
    slopes_twice = np.empty((81, width), np.uint32)
    past = np.empty((2, 81, width), np.float32)
    of_all = np.empty(9 * width, np.float32)
    stem_board = np.zeros((STEM_SIDE, STEM_SIDE * width), np.float32)
    for first in range(0, len(sets), 2):
        count = min(2, len(sets) - first)
        told[:] = 0
        for which in range(count):
            row = first + which
            for index in range(counts[row]):
                place = places[legal[row, index]]
                square, plane = place // HEAD_CHANNELS, place % HEAD_CHANNELS
                told[which, _on_board(square), plane] = narrowed(by_logits[row, index], _NO_BITS)
            _gather_squares(by_squares[row], squares[row], told[which])
        one, other = boards[first], boards[first + count - 1]
        _pair_boards(one[last], other[last], seen_twice)
        _pair_squares(told[0], told[1], told_twice)
        _correlate_heads(seen_twice, told_twice, of_heads, of_heads_bias)
        _look_back(told[0], back_heads, past[0], one[last], slopes[0])
        _look_back(told[1], back_heads, past[1], other[last], slopes[1])
        for layer in range(last - 1, -1, -2):
            _pair_boards(one[layer], other[layer], seen_twice)
            _pair_squares(slopes[0], slopes[1], slopes_twice)
            _correlate(seen_twice, slopes_twice, of_weights[layer], of_biases[layer])
            for which in range(2):
                inner = (one if which == 0 else other)[layer]
                back = back_weights[layer]
                _go_back(slopes[which], back, past[which], inner, inner_slopes[which])
            _pair_boards(one[layer - 1], other[layer - 1], seen_twice)
            _pair_squares(inner_slopes[0], inner_slopes[1], slopes_twice)
            _correlate(seen_twice, slopes_twice, of_weights[layer - 1], of_biases[layer - 1])
            for which in range(2):
                outer = (one if which == 0 else other)[layer - 1]
                back = back_weights[layer - 1]
                _go_back_past(inner_slopes[which], back, past[which], outer, slopes[which])
        for which in range(count):
            _put_on_stem_board(past[which], stem_board, of_stem_bias)
            of_all[:] = 0
            _spread(sets[first + which], stem_board, of_stem, of_all)
            _spread_evenly(even[first + which], of_all, of_stem)


@kernel
def _add_even_planes(even, stem, of_no_bits):
    squares = len(stem) - len(even)
    of_no_bits[:] = 0
    for index in range(len(even)):
        value = even[index]
        if value != 0:
            for number in range(len(of_no_bits)):
                of_no_bits[number] += value * stem[squares + index, number]


@kernel
def _spread_evenly(even, of_all, of_stem):
    squares = len(of_stem) - len(even)
    for index in range(len(even)):
        value = even[index]
        if value != 0:
            for number in range(len(of_all)):
                of_stem[squares + index, number] += value * of_all[number]


@kernel
def _add_square_planes(sets, stem, of_no_bits, board):
    width = board.shape[1] // STEM_SIDE
    for square in range(81):
        first = square // 9 * board.shape[1] + square % 9 * width
        if width == 16:
            add_planes(sets[square], stem, of_no_bits, board, first, 16)
        else:
            add_planes(sets[square], stem, of_no_bits, board, first, 32)


@kernel
def _spread(sets, board, of_stem, of_all):
    width = board.shape[1] // STEM_SIDE
    for square in range(81):
        first = square // 9 * board.shape[1] + square % 9 * width
        if width == 16:
            spread_over_planes(sets[square], board, first, of_stem, of_all, 16)
        else:
            spread_over_planes(sets[square], board, first, of_stem, of_all, 32)


@kernel
def _convolve(board, weights, bias, after):
    if board.shape[1] == 16:
        convolve_rectified(board, weights, bias, board, 0, after, 16)
    else:
        convolve_rectified(board, weights, bias, board, 0, after, 32)


@kernel
def _convolve_and_add(board, weights, bias, added, after):
    if board.shape[1] == 16:
        convolve_rectified(board, weights, bias, added, 1, after, 16)
    else:
        convolve_rectified(board, weights, bias, added, 1, after, 32)


@kernel
def _go_back(slopes, weights, past, after, cut):
    """From the second convolution of a block to the first; what goes past both is left alone."""
    if slopes.shape[1] == 16:
        convolve_back(slopes, weights, past, 0, 0, after, cut, 16, 16, 3)
    else:
        convolve_back(slopes, weights, past, 0, 0, after, cut, 32, 32, 3)


@kernel
def _go_back_past(slopes, weights, past, after, cut):
    """From the first convolution of a block to what is below it, with what went past both."""
    if slopes.shape[1] == 16:
        convolve_back(slopes, weights, past, 1, 1, after, cut, 16, 16, 3)
    else:
        convolve_back(slopes, weights, past, 1, 1, after, cut, 32, 32, 3)


@kernel
def _look(board, weights, bias, said):
    if board.shape[1] == 16:
        convolve_points(board, weights, bias, said, 16, HEAD_CHANNELS)
    else:
        convolve_points(board, weights, bias, said, 32, HEAD_CHANNELS)


@kernel
def _look_back(told, weights, past, after, cut):
    if after.shape[1] == 16:
        convolve_back(told, weights, past, 0, 1, after, cut, HEAD_CHANNELS, 16, 1)
    else:
        convolve_back(told, weights, past, 0, 1, after, cut, HEAD_CHANNELS, 32, 1)


@kernel
def _correlate(boards, gradients, of_weights, of_bias):
    if boards.shape[1] == 16:
        add_correlated(boards, gradients, of_weights, of_bias, 16, 16, 3)
    else:
        add_correlated(boards, gradients, of_weights, of_bias, 32, 32, 3)


@kernel
def _correlate_heads(boards, gradients, of_weights, of_bias):
    if boards.shape[1] == 16:
        add_correlated(boards, gradients, of_weights, of_bias, 16, HEAD_CHANNELS, 1)
    else:
        add_correlated(boards, gradients, of_weights, of_bias, 32, HEAD_CHANNELS, 1)


@kernel
def _on_board(square):
    return (square // 9 + 1) * BOARD_FILES + square % 9 + 1


@kernel
def _rectify_stem(sums, bias, board):
    if board.shape[1] == 16:
        rectify_stem(sums, bias, board, 16)
    else:
        rectify_stem(sums, bias, board, 32)


@kernel
def _put_on_stem_board(slopes, board, of_bias):
    if slopes.shape[1] == 16:
        put_on_stem_board(slopes, board, of_bias, 16)
    else:
        put_on_stem_board(slopes, board, of_bias, 32)


@kernel
def _pair_boards(one, other, boards):
    if one.shape[1] == 16:
        pair_boards(one, other, boards, 1, 16)
    else:
        pair_boards(one, other, boards, 1, 32)


@kernel
def _pair_squares(one, other, squares):
    if one.shape[1] == 16:
        pair_boards(one, other, squares, 0, 16)
    else:
        pair_boards(one, other, squares, 0, 32)


@kernel
def _tell_squares(said, squares):
    for square in range(81):
        for channel in range(VALUE_CHANNELS):
            value = said[square, NUM_PLANES + channel]
            squares[81 * channel + square] = _ZERO if value <= _ZERO else value


@kernel
def _gather_squares(by_squares, squares, told):
    """Put the gradients of a position's squares on a board [112, 32]."""
    for square in range(81):
        here = _on_board(square)
        for channel in range(VALUE_CHANNELS):
            place = 81 * channel + square
            slope = by_squares[place] if squares[place] > _ZERO else _ZERO
            told[here, NUM_PLANES + channel] = narrowed(slope, _NO_BITS)
