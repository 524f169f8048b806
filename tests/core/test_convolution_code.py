"""Each loop that is written as LLVM code, against torch in float32."""

import numba
import numpy as np
import pytest
import torch
from torch.nn.functional import conv2d, conv_transpose2d, relu

from keisei.core.convolution_code import (
    BOARD_FILES,
    BOARD_SQUARES,
    add_correlated,
    convolve_back,
    convolve_points,
    convolve_rectified,
    pair_boards,
)
from keisei.core.stem_code import (
    STEM_SIDE,
    add_planes,
    put_on_stem_board,
    rectify_stem,
    spread_over_planes,
)
from keisei.core.tower_kernels import pack_convolution
from tests.core.small import needs_pair_products

pytestmark = needs_pair_products
ROUNDING = 2**-8
"""Half of the distance of neighbouring bfloat16, of numbers around 1, twice."""


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(5)


def rounded(*shape):
    """Numbers that bfloat16 has: [...] float32."""
    return torch.randn(*shape).bfloat16().float()


def board_of(squares):
    """[C, 9, 9] on a board [112, C] uint16."""
    board = torch.zeros(BOARD_SQUARES, len(squares), dtype=torch.bfloat16)
    places = board[: 11 * BOARD_FILES].view(11, BOARD_FILES, -1)
    places[1:10, 1:] = squares.permute(1, 2, 0).bfloat16()
    return board.view(torch.uint16).numpy()


def squares_of(board):
    """The way back; the margins have to be 0."""
    numbers = torch.from_numpy(board).view(torch.bfloat16).float()
    places = numbers[: 11 * BOARD_FILES].view(11, BOARD_FILES, -1)
    squares = places[1:10, 1:].permute(2, 0, 1)
    assert squares.count_nonzero() == numbers.count_nonzero()
    return squares


def packed(weight):
    """A weight [O, I, S, S] for the way forth and back."""
    outputs, inputs, side, _ = weight.shape
    shapes = [
        (outputs // 16, side**2, inputs // 2, 16, 2),
        (inputs // 16, side**2, outputs // 2, 16, 2),
    ]
    forth, back = (np.empty(shape, np.uint16) for shape in shapes)
    taps = weight.permute(0, 2, 3, 1).reshape(outputs, side**2, inputs).contiguous()
    pack_convolution(taps.numpy(), forth, back)
    return forth, back


def flat(squares):
    """[C, 9, 9] as kernels have sums: [81, C] float32."""
    return squares.permute(1, 2, 0).reshape(81, -1).contiguous().numpy()


@pytest.mark.parametrize("adds", [False, True], ids=["plain", "with a board added"])
def test_a_convolution_and_its_relu(adds):
    @numba.njit
    def plain(board, weights, bias, added, after):
        convolve_rectified(board, weights, bias, added, 0, after, 16)

    @numba.njit
    def adding(board, weights, bias, added, after):
        convolve_rectified(board, weights, bias, added, 1, after, 16)

    seen, added, weight, bias = (
        rounded(16, 9, 9),
        rounded(16, 9, 9),
        rounded(16, 16, 3, 3),
        rounded(16),
    )
    after = np.zeros((BOARD_SQUARES, 16), np.uint16)
    convolve = adding if adds else plain
    convolve(board_of(seen), packed(weight)[0], bias.numpy(), board_of(added), after)
    expected = relu(conv2d(seen, weight, bias, padding=1) + added * adds)
    torch.testing.assert_close(squares_of(after), expected, rtol=ROUNDING, atol=1e-4)
    assert 0.3 < (expected > 0).float().mean() < 0.7


def test_a_convolution_of_each_square_by_itself():
    @numba.njit
    def convolve(board, weights, bias, said):
        convolve_points(board, weights, bias, said, 16, 32)

    seen, weight, bias = rounded(16, 9, 9), rounded(32, 16, 1, 1), rounded(32)
    said = np.empty((81, 32), np.float32)
    convolve(board_of(seen), packed(weight)[0], bias.numpy(), said)
    np.testing.assert_allclose(said, flat(conv2d(seen, weight, bias)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("keeps", [False, True], ids=["past none", "past a block"])
def test_gradients_go_down_where_something_came_up(keeps):
    @numba.njit
    def back(slopes, weights, past, after, cut):
        convolve_back(slopes, weights, past, 0, 0, after, cut, 16, 16, 3)

    @numba.njit
    def back_and_past(slopes, weights, past, after, cut):
        convolve_back(slopes, weights, past, 1, 1, after, cut, 16, 16, 3)

    slopes, weight, past = rounded(16, 9, 9), rounded(16, 16, 3, 3), torch.randn(16, 9, 9)
    came_up = relu(rounded(16, 9, 9))
    cut, kept = np.zeros((BOARD_SQUARES, 16), np.uint16), flat(past).copy()
    go = back_and_past if keeps else back
    go(board_of(slopes), packed(weight)[1], kept, board_of(came_up), cut)
    expected = (conv_transpose2d(slopes, weight, padding=1) + past * keeps) * (came_up > 0)
    torch.testing.assert_close(squares_of(cut), expected, rtol=ROUNDING, atol=1e-4)
    np.testing.assert_allclose(kept, flat(expected if keeps else past), rtol=1e-4, atol=1e-4)


def test_gradients_of_single_squares_go_down():
    @numba.njit
    def back(slopes, weights, past, after, cut):
        convolve_back(slopes, weights, past, 0, 1, after, cut, 32, 16, 1)

    slopes, weight, came_up = rounded(32, 9, 9), rounded(32, 16, 1, 1), relu(rounded(16, 9, 9))
    cut, kept = np.zeros((BOARD_SQUARES, 16), np.uint16), np.empty((81, 16), np.float32)
    back(board_of(slopes), packed(weight)[1], kept, board_of(came_up), cut)
    expected = conv_transpose2d(slopes, weight) * (came_up > 0)
    np.testing.assert_allclose(kept, flat(expected), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(squares_of(cut), expected, rtol=ROUNDING, atol=1e-4)


@pytest.mark.parametrize(("outputs", "side"), [(16, 3), (32, 1)])
def test_gradients_of_weights_of_two_positions_at_once(outputs, side):
    @numba.njit
    def correlate_small(seen, slopes, of_weights, of_bias, pairs, slope_pairs):
        pair_boards(seen[0], seen[1], pairs, 1, 16)
        pair_boards(slopes[0], slopes[1], slope_pairs, 0, 16)
        add_correlated(pairs, slope_pairs, of_weights, of_bias, 16, 16, 3)

    @numba.njit
    def correlate_heads(seen, slopes, of_weights, of_bias, pairs, slope_pairs):
        pair_boards(seen[0], seen[1], pairs, 1, 16)
        pair_boards(slopes[0], slopes[1], slope_pairs, 0, 32)
        add_correlated(pairs, slope_pairs, of_weights, of_bias, 16, 32, 1)

    seen, slopes = rounded(2, 16, 9, 9), rounded(2, outputs, 9, 9)
    weight = torch.zeros(outputs, 16, side, side, requires_grad=True)
    bias = torch.zeros(outputs, requires_grad=True)
    (conv2d(seen, weight, bias, padding=side // 2) * slopes).sum().backward()
    of_weights = np.ones((side, side, 16, outputs), np.float32)  # it adds to what is there
    of_bias = np.ones(outputs, np.float32)
    pairs = np.empty((BOARD_SQUARES, 16), np.uint32), np.empty((81, outputs), np.uint32)
    boards = [np.stack([board_of(one) for one in both]) for both in (seen, slopes)]
    correlate = correlate_small if side == 3 else correlate_heads
    correlate(*boards, of_weights, of_bias, *pairs)
    expected = weight.grad.permute(2, 3, 1, 0).numpy()
    np.testing.assert_allclose(of_weights - 1, expected, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(of_bias - 1, bias.grad.numpy(), rtol=1e-4, atol=1e-3)


def test_planes_of_a_square_weigh_on_those_around():
    @numba.njit
    def add(bits, weights, start, board, first):
        add_planes(bits, weights, start, board, first)

    @numba.njit
    def spread(bits, board, first, of_weights, of_all):
        spread_over_planes(bits, board, first, of_weights, of_all)

    weights, start = rounded(5, 144).numpy(), rounded(144).numpy()
    board = rounded(STEM_SIDE, STEM_SIDE * 16).numpy()
    first = 3 * STEM_SIDE * 16 + 4 * 16
    added = board.copy()
    add(0b10110, weights, start, added, first)
    total = (start + weights[[1, 2, 4]].sum(0)).reshape(3, 48)[::-1]  # ranks are backwards
    expected = board.copy()
    expected[3:6, 64:112] += total
    np.testing.assert_allclose(added, expected, rtol=1e-5, atol=1e-5)

    of_weights, of_all = np.zeros_like(weights), np.ones_like(start)
    spread(0b10110, board, first, of_weights, of_all)
    around = board[3:6, 64:112][::-1].reshape(-1)
    for plane in range(5):
        np.testing.assert_array_equal(of_weights[plane], around * (plane in (1, 2, 4)))
    np.testing.assert_allclose(of_all, around + 1, rtol=1e-6)


def test_the_board_of_the_stem_and_the_others():
    @numba.njit
    def rectify(sums, bias, board):
        rectify_stem(sums, bias, board)

    @numba.njit
    def put(slopes, board, of_bias):
        put_on_stem_board(slopes, board, of_bias)

    sums, bias = torch.randn(STEM_SIDE, STEM_SIDE, 16), rounded(16)
    board = np.zeros((BOARD_SQUARES, 16), np.uint16)
    rectify(sums.reshape(STEM_SIDE, -1).numpy(), bias.numpy(), board)
    expected = relu(sums[1:10, 1:10] + bias).permute(2, 0, 1)
    torch.testing.assert_close(squares_of(board), expected, rtol=ROUNDING, atol=0)

    slopes, of_bias = torch.randn(81, 16), np.ones(16, np.float32)
    stem_board = np.zeros((STEM_SIDE, STEM_SIDE * 16), np.float32)
    put(slopes.numpy(), stem_board, of_bias)
    there = stem_board.reshape(STEM_SIDE, STEM_SIDE, 16)
    np.testing.assert_array_equal(there[1:10, 1:10].reshape(81, 16), slopes.numpy())
    assert np.count_nonzero(there) == slopes.count_nonzero()
    np.testing.assert_allclose(of_bias - 1, slopes.sum(0), rtol=1e-4, atol=1e-4)


def test_widths_have_to_be_constants():
    @numba.njit
    def convolve(board, weights, bias, after, width):
        convolve_rectified(board, weights, bias, board, 0, after, width)

    board = np.zeros((BOARD_SQUARES, 16), np.uint16)
    weights = packed(rounded(16, 16, 3, 3))[0]
    with pytest.raises(AssertionError, match="constants"):
        convolve(board, weights, np.zeros(16, np.float32), board, 16)
