"""A network's first convolution and its ReLU, on planes that are sets of bits.

Of a position's planes, 46 to 176, a square has three or so in the mean. A convolution of 3 x 3 adds
what each of them weighs to nine squares; what is 0 costs nothing, and even planes are added up once
for all squares. The weights of a plane are [3, 3, W] for the nine squares around, each row of them
backwards: so they lie in memory as the squares that they go to. Boards have a margin of one square,
so that none of these is missing.
"""

from __future__ import annotations

import numpy as np

from keisei.compiled.kernels import kernel
from keisei.core.float_bits import narrowed, widened
from keisei.shogi.bitboard import lowest_bit
from keisei.shogi.plane_kernel import WORD_BITS

_SIDE = 11


@kernel(entry=True)
def weights_by_plane(weights, square_planes, even_planes, by_plane):
    """Set by_plane [C, 9 * W] float32 from a convolution's weights [W, 3, 3, C]."""
    width = len(weights)
    for index in range(len(by_plane)):
        plane = _plane(index, square_planes, even_planes)
        for rank in range(3):
            for file in range(3):
                first = (3 * rank + 2 - file) * width
                for channel in range(width):
                    by_plane[index, first + channel] = widened(weights[channel, rank, file, plane])


@kernel(entry=True)
def weights_by_channel(by_plane, square_planes, even_planes, weights):
    """The way back."""
    width = len(weights)
    for index in range(len(by_plane)):
        plane = _plane(index, square_planes, even_planes)
        for rank in range(3):
            for file in range(3):
                first = (3 * rank + 2 - file) * width
                for channel in range(width):
                    value = by_plane[index, first + channel]
                    weights[channel, rank, file, plane] = narrowed(value, weights[0, 0, 0, 0])


@kernel
def _plane(index, square_planes, even_planes):
    if index < len(square_planes):
        return square_planes[index]
    return even_planes[index - len(square_planes)]


@kernel
def _list_planes(words, listed):
    """Set the numbers of the planes that have a bit in words [W]; how many."""
    count = 0
    for word in range(len(words)):
        bits = words[word]
        while bits:
            listed[count] = WORD_BITS * word + lowest_bit(bits)
            bits &= bits - 1
            count += 1
    return count


@kernel(entry=True)
def stem_forward(sets, even, weights, bias, answers):
    """Set answers [B, 81, W], of W channels, from sets, even planes [B, E] and what they weigh."""
    width = len(bias)
    squares = len(weights) - even.shape[1]
    of_no_bits, around = np.empty(9 * width, np.float32), np.empty(9 * width, np.float32)
    board = np.empty((_SIDE, _SIDE * width), np.float32)
    listed = np.empty(WORD_BITS * sets.shape[2], np.int64)
    for row in range(len(sets)):
        of_no_bits[:] = 0
        for index in range(even.shape[1]):
            value = even[row, index]
            if value != 0:
                for number in range(9 * width):
                    of_no_bits[number] += value * weights[squares + index, number]
        for rank in range(_SIDE):
            for file in range(_SIDE):
                for channel in range(width):
                    board[rank, file * width + channel] = widened(bias[channel])
        for square in range(81):
            # Two planes at a time: each pass loads and stores the sum, and half as many passes make
            # this 1.2 to 1.5 times as fast.
            count = _list_planes(sets[row, square], listed)
            if count % 2:
                for number in range(9 * width):
                    around[number] = of_no_bits[number] + weights[listed[0], number]
            else:
                for number in range(9 * width):
                    around[number] = of_no_bits[number]
            for index in range(count % 2, count, 2):
                plane, other = listed[index], listed[index + 1]
                for number in range(9 * width):
                    total = around[number] + weights[plane, number]
                    around[number] = total + weights[other, number]
            rank, first = square // 9, (square % 9) * width
            for neighbour in range(3):
                for number in range(3 * width):
                    board[rank + 2 - neighbour, first + number] += around[
                        3 * width * neighbour + number
                    ]
        for square in range(81):
            rank, first = square // 9 + 1, (square % 9 + 1) * width
            for channel in range(width):
                value = board[rank, first + channel]
                value = np.float32(0) if value < 0 else value  # what is no number stays none
                answers[row, square, channel] = narrowed(value, answers[0, 0, 0])


@kernel(entry=True)
def stem_backward(sets, even, answers, gradients, of_weights, of_bias):
    """Add to the gradients of weights by plane and of the bias [W], from those of the answers."""
    width = len(of_bias)
    squares = len(of_weights) - even.shape[1]
    around, of_all = np.empty(9 * width, np.float32), np.empty(9 * width, np.float32)
    board = np.zeros((_SIDE, _SIDE * width), np.float32)
    listed = np.empty(WORD_BITS * sets.shape[2], np.int64)
    for row in range(len(sets)):
        for square in range(81):
            rank, first = square // 9 + 1, (square % 9 + 1) * width
            for channel in range(width):
                passes = widened(answers[row, square, channel]) > 0
                gradient = widened(gradients[row, square, channel])
                gradient = gradient if passes else np.float32(0)
                board[rank, first + channel] = gradient
                of_bias[channel] += gradient
        of_all[:] = 0
        for square in range(81):
            rank, first = square // 9, (square % 9) * width
            for neighbour in range(3):
                for number in range(3 * width):
                    around[3 * width * neighbour + number] = board[
                        rank + 2 - neighbour, first + number
                    ]
            for number in range(9 * width):
                of_all[number] += around[number]
            for index in range(_list_planes(sets[row, square], listed)):
                plane = listed[index]
                for number in range(9 * width):
                    of_weights[plane, number] += around[number]
        for index in range(even.shape[1]):
            value = even[row, index]
            if value != 0:
                for number in range(9 * width):
                    of_weights[squares + index, number] += value * of_all[number]
