"""A whole network of planes, residual blocks and heads on a CPU: one position after the other.

What a layer makes of a position stays in the processor's own cache, and nothing is compiled or
prepared for a size of batch: libraries take each layer for all positions, whose numbers then come
from memory. Sums are of float32; what goes from layer to layer is rounded to bfloat16.

A tower has L = 2 * depth layers of W = 16 channels, as many as a vector has numbers; `boards` (see
`convolution_code`) hold what goes into each of them and into the heads, which are one layer of 32
channels: 27 policy planes, 4 that the value is computed from, and nothing. With 32 channels torch
was as fast as kernels like these, with 16 it takes twice as long.
"""

from __future__ import annotations

import numpy as np

from keisei.compiled.kernels import kernel
from keisei.core.convolution_code import (
    BOARD_FILES,
    BOARD_SQUARES,
    add_correlated,
    convolve_back,
    convolve_points,
    convolve_rectified,
    pair_boards,
)
from keisei.core.float_bits import narrowed
from keisei.core.llvm_code import LANES
from keisei.core.stem_code import (
    STEM_SIDE,
    add_planes,
    put_on_stem_board,
    rectify_stem,
    spread_over_planes,
)
from keisei.shogi.plane_kernel import WORD_BITS
from keisei.shogi.policy_output_mapper import NUM_PLANES

WIDTH = LANES
HEAD_CHANNELS = 32
VALUE_CHANNELS = 4
_ZERO = np.float32(0)
_NO_BITS = np.uint16(0)


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

    legal [R, M] and counts [R]: moves, of which places say where in [81, 32] their logits are.
    stem: weights by plane, see `stem_kernels`; weights [L, ...] and heads as `pack_convolution`
    packs them. boards [R, L + 1, 112, W] with margins of 0 keep what went into each layer, or with
    [1, ...] that of one position.
    """
    of_no_bits = np.empty(9 * WIDTH, np.float32)
    stem_board = np.empty((STEM_SIDE, STEM_SIDE * WIDTH), np.float32)
    said = np.empty((81, HEAD_CHANNELS), np.float32)
    by_place = said.reshape(-1)
    for row in range(len(sets)):
        layers = boards[row % len(boards)]
        _add_even_planes(even[row], stem, of_no_bits)
        stem_board[:] = 0
        _add_square_planes(sets[row], stem, of_no_bits, stem_board)
        rectify_stem(stem_board, stem_bias, layers[0])
        for layer in range(0, len(weights), 2):
            below, inner, above = layers[layer], layers[layer + 1], layers[layer + 2]
            convolve_rectified(below, weights[layer], biases[layer], below, 0, inner, WIDTH)
            second = layer + 1
            convolve_rectified(inner, weights[second], biases[second], below, 1, above, WIDTH)
        convolve_points(layers[len(weights)], heads, heads_bias, said, WIDTH, HEAD_CHANNELS)
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

    After `tower_forward`, whose moves, boards and squares these are. of_weights: [L, 3, 3, W, W]
    float32, inputs before outputs; of_heads: [W, 32]. Two positions at a time.
    """
    last = len(back_weights)
    told = np.zeros((2, BOARD_SQUARES, HEAD_CHANNELS), np.uint16)
    slopes = np.zeros((2, BOARD_SQUARES, WIDTH), np.uint16)
    inner_slopes = np.zeros((2, BOARD_SQUARES, WIDTH), np.uint16)
    seen_twice = np.empty((BOARD_SQUARES, WIDTH), np.uint32)
    told_twice = np.empty((81, HEAD_CHANNELS), np.uint32)
    slopes_twice = np.empty((81, WIDTH), np.uint32)
    past = np.empty((2, 81, WIDTH), np.float32)
    of_all = np.empty(9 * WIDTH, np.float32)
    stem_board = np.zeros((STEM_SIDE, STEM_SIDE * WIDTH), np.float32)
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
        pair_boards(one[last], other[last], seen_twice, 1, WIDTH)
        pair_boards(told[0], told[1], told_twice, 0, HEAD_CHANNELS)
        add_correlated(seen_twice, told_twice, of_heads, of_heads_bias, WIDTH, HEAD_CHANNELS, 1)
        for which in range(2):
            after = (one if which == 0 else other)[last]
            convolve_back(
                told[which],
                back_heads,
                past[which],
                0,
                1,
                after,
                slopes[which],
                HEAD_CHANNELS,
                WIDTH,
                1,
            )
        for layer in range(last - 1, -1, -2):
            pair_boards(one[layer], other[layer], seen_twice, 1, WIDTH)
            pair_boards(slopes[0], slopes[1], slopes_twice, 0, WIDTH)
            _correlate(seen_twice, slopes_twice, of_weights[layer], of_biases[layer])
            for which in range(2):
                inner = (one if which == 0 else other)[layer]
                back = back_weights[layer]
                _go_back(slopes[which], back, past[which], inner, inner_slopes[which])
            pair_boards(one[layer - 1], other[layer - 1], seen_twice, 1, WIDTH)
            pair_boards(inner_slopes[0], inner_slopes[1], slopes_twice, 0, WIDTH)
            _correlate(seen_twice, slopes_twice, of_weights[layer - 1], of_biases[layer - 1])
            for which in range(2):
                outer = (one if which == 0 else other)[layer - 1]
                back = back_weights[layer - 1]
                _go_back_past(inner_slopes[which], back, past[which], outer, slopes[which])
        for which in range(count):
            put_on_stem_board(past[which], stem_board, of_stem_bias)
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
    nothing = np.zeros_like(of_no_bits)
    for square in range(81):
        first = (square // 9 * STEM_SIDE + square % 9) * WIDTH
        add_planes(sets[square, 0], stem, of_no_bits, board, first)
        for word in range(1, sets.shape[1]):
            if sets[square, word]:
                add_planes(sets[square, word], stem[WORD_BITS * word :], nothing, board, first)


@kernel
def _spread(sets, board, of_stem, of_all):
    twice = np.empty_like(of_all)  # what later words add to `of_all` once more
    for square in range(81):
        first = (square // 9 * STEM_SIDE + square % 9) * WIDTH
        spread_over_planes(sets[square, 0], board, first, of_stem, of_all)
        for word in range(1, sets.shape[1]):
            bits = sets[square, word]
            if bits:
                spread_over_planes(bits, board, first, of_stem[WORD_BITS * word :], twice)


@kernel
def _correlate(boards, gradients, of_weights, of_bias):
    add_correlated(boards, gradients, of_weights, of_bias, WIDTH, WIDTH, 3)


@kernel
def _go_back(slopes, weights, past, after, cut):
    """From the second convolution of a block to the first; what goes past both is left alone."""
    convolve_back(slopes, weights, past, 0, 0, after, cut, WIDTH, WIDTH, 3)


@kernel
def _go_back_past(slopes, weights, past, after, cut):
    """From the first convolution of a block to what is below it, with what went past both."""
    convolve_back(slopes, weights, past, 1, 1, after, cut, WIDTH, WIDTH, 3)


@kernel
def _on_board(square):
    return (square // 9 + 1) * BOARD_FILES + square % 9 + 1


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
