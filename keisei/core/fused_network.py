"""`FusedNetwork`: a small network on a CPU by kernels of our own, in bfloat16."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from keisei.core.half_copy import HalfCopy
from keisei.core.matrix_products import add_product
from keisei.core.res_tower import ActorCriticResTower
from keisei.core.row_threads import in_threads, number_of_parts
from keisei.core.stem_kernels import weights_by_channel, weights_by_plane
from keisei.core.tower_kernels import (
    HEAD_CHANNELS,
    VALUE_CHANNELS,
    WIDTHS,
    pack_convolution,
    tower_backward,
    tower_forward,
)
from keisei.core.vector_code import BOARD_SQUARES, LANES, has_pair_products
from keisei.shogi.features import SparsePlanes
from keisei.shogi.policy_output_mapper import NUM_PLANES, PolicyOutputMapper


def half_network(model: ActorCriticResTower) -> FusedNetwork | HalfCopy:
    """The model in bfloat16 on a CPU, whichever way is fastest."""
    return FusedNetwork(model) if FusedNetwork.is_for(model) else HalfCopy(model)


class _Moves(NamedTuple):
    """The moves of B positions whose logits are wanted."""

    legal: NDArray[np.uint16]
    """[B, L]"""
    counts: NDArray[np.int64]
    """[B]"""
    places: NDArray[np.uint16]
    """Where the logit of each is among what the heads say, [81, 32]."""


class _Lesson(NamedTuple):
    """What a pass leaves for `backward`."""

    planes: SparsePlanes
    moves: _Moves
    boards: NDArray[np.uint16]
    logits: Tensor
    squares: NDArray[np.float32]
    hidden: Tensor


class FusedNetwork:
    """Says of positions what the model says, and gives its gradients.

    The weights may change at any time between two passes, by other processes too. What it says of a
    position does not depend on the others, to the last bit. The value's own layers are in float32.
    """

    def __init__(self, model: ActorCriticResTower) -> None:
        self._model = model
        self._convolutions = [
            layer for block in model.blocks for layer in (block.first, block.second)
        ]
        width, layers = model.stem.out_channels, len(self._convolutions)
        squares, even = model.features.square_planes, model.features.even_planes
        self._stem = np.empty((len(squares) + len(even), 9 * width), np.float32)
        blocks, pairs = width // LANES, width // 2
        self._weights = np.empty((layers, blocks, 9, pairs, LANES, 2), np.uint16)
        self._back_weights = np.empty_like(self._weights)
        self._biases = np.empty((layers, width), np.float32)
        head_blocks, head_pairs = HEAD_CHANNELS // LANES, HEAD_CHANNELS // 2
        self._heads = np.empty((head_blocks, 1, pairs, LANES, 2), np.uint16)
        self._back_heads = np.empty((blocks, 1, head_pairs, LANES, 2), np.uint16)
        self._head_weight = np.zeros((HEAD_CHANNELS, 1, width), np.float32)
        self._head_bias = np.zeros(HEAD_CHANNELS, np.float32)
        self._boards = np.zeros((0, layers + 1, BOARD_SQUARES, width), np.uint16)
        self._hidden_weight = np.empty(model.value_hidden.weight.shape[::-1], np.float32)
        self._lesson: _Lesson | None = None

    @staticmethod
    def is_for(model: ActorCriticResTower) -> bool:
        """Whether there is code for this model and this processor."""
        plain = all(isinstance(block.excitation, nn.Identity) for block in model.blocks)
        return has_pair_products() and model.stem.out_channels in WIDTHS and plain

    def __call__(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """[B, 100] int8 -> logits [B, 2187] and values [B], both float32."""
        planes = np.tile(np.arange(81 * NUM_PLANES, dtype=np.uint16), (len(positions), 1))
        counts = np.full(len(positions), planes.shape[1])
        return self._say(positions, _Moves(planes, counts, _places_of_planes()))

    def of_moves(self, positions: Tensor, legal: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [B, L] of the first counts [B] of the actions legal [B, L], and values [B].

        Differentiable, by `backward`, until the next pass.
        """
        actions = legal.view(torch.uint16) if legal.dtype == torch.int16 else legal
        moves = _Moves(actions.numpy(), counts.long().numpy(), _places_of_actions())
        return self._say(positions, moves)

    def _say(self, positions: Tensor, moves: _Moves) -> tuple[Tensor, Tensor]:
        self._read_weights()
        planes = self._model.features.sparse(positions.numpy())
        rows, learns = len(positions), torch.is_grad_enabled()
        logits = torch.empty(moves.legal.shape)
        squares = np.empty((rows, VALUE_CHANNELS * 81), np.float32)
        hidden = self._model.value_hidden.bias.detach().repeat(rows, 1)
        boards = self._boards_for(rows) if learns else None

        def answer(part: slice, _: int) -> None:
            tower_forward(
                planes.sets[part],
                planes.even[part],
                moves.legal[part],
                moves.counts[part],
                moves.places,
                self._stem,
                _array(self._model.stem.bias),
                self._weights,
                self._biases,
                self._heads,
                self._head_bias,
                np.zeros((1, *self._boards.shape[1:]), np.uint16)
                if boards is None
                else boards[part],
                _array(logits)[part],
                squares[part],
            )
            add_product(squares[part], self._hidden_weight, _array(hidden)[part])

        in_threads(rows, answer)
        if boards is not None:
            logits.requires_grad_()
            hidden.requires_grad_()
            self._lesson = _Lesson(planes, moves, boards, logits, squares, hidden)
        last = self._model.value
        values = (functional.relu(hidden) * last.weight).sum(1) + last.bias
        return logits, torch.tanh(values)

    def backward(self, loss: Tensor) -> None:
        """Set the gradients of the model's weights, in place where there are some."""
        lesson, self._lesson = self._lesson, None
        assert lesson is not None, "nothing was said to learn from"
        last = self._model.value
        by_logits, by_hidden, of_last, of_last_bias = torch.autograd.grad(
            loss, (lesson.logits, lesson.hidden, last.weight, last.bias)
        )
        rows, parts = len(by_logits), number_of_parts(len(by_logits))
        hidden_weight = _array(self._model.value_hidden.weight)
        shapes = (
            hidden_weight.shape,
            self._stem.shape,
            self._biases.shape[1:],
            (len(self._biases), 3, 3, self._biases.shape[1], self._biases.shape[1]),
            self._biases.shape,
            (self._biases.shape[1], HEAD_CHANNELS),
            (HEAD_CHANNELS,),
        )
        sums = [np.zeros((parts, *shape), np.float32) for shape in shapes]

        def add(part: slice, number: int) -> None:
            of_hidden, *totals = (total[number] for total in sums)
            slopes, squares = _array(by_hidden)[part], lesson.squares[part]
            by_squares = np.zeros_like(squares)
            add_product(slopes, hidden_weight, by_squares)
            add_product(np.ascontiguousarray(slopes.T), squares, of_hidden)
            tower_backward(
                lesson.planes.sets[part],
                lesson.planes.even[part],
                lesson.moves.legal[part],
                lesson.moves.counts[part],
                lesson.moves.places,
                lesson.boards[part],
                squares,
                self._back_weights,
                self._back_heads,
                _array(by_logits)[part],
                by_squares,
                *totals,
            )

        in_threads(rows, add)
        of_hidden, *totals = (total.sum(0) if parts > 1 else total[0] for total in sums)
        self._set_gradients(totals)
        _set(self._model.value_hidden.weight, torch.from_numpy(of_hidden))
        _set(self._model.value_hidden.bias, by_hidden.sum(0))
        _set(last.weight, of_last)
        _set(last.bias, of_last_bias)

    def _read_weights(self) -> None:
        model = self._model
        weights_by_plane(
            _channels_last(model.stem.weight),
            model.features.square_planes,
            model.features.even_planes,
            self._stem,
        )
        for number, layer in enumerate(self._convolutions):
            weight = _channels_last(layer.weight).reshape(len(layer.weight), 9, -1)
            pack_convolution(weight, self._weights[number], self._back_weights[number])
            self._biases[number] = _array(layer.bias)
        self._hidden_weight[:] = _array(model.value_hidden.weight).T
        start = 0
        for head in (model.policy, model.value_squares):
            behind = start + head.out_channels
            self._head_weight[start:behind, 0] = _array(head.weight)[:, :, 0, 0]
            self._head_bias[start:behind] = _array(head.bias)
            start = behind
        pack_convolution(self._head_weight, self._heads, self._back_heads)

    def _boards_for(self, rows: int) -> NDArray[np.uint16]:
        """Memory with margins of 0, the same again if it is asked for as many."""
        if len(self._boards) != rows:
            self._boards = np.zeros((rows, *self._boards.shape[1:]), np.uint16)
        return self._boards

    def _set_gradients(self, totals: list[NDArray[np.float32]]) -> None:
        of_stem, of_stem_bias, of_weights, of_biases, of_heads, of_head_bias = totals
        model, stem = self._model, self._model.stem
        by_channel = np.empty((stem.out_channels, 3, 3, model.features.num_planes), np.float32)
        weights_by_channel(
            of_stem, model.features.square_planes, model.features.even_planes, by_channel
        )
        _set(stem.weight, torch.from_numpy(by_channel).permute(0, 3, 1, 2))
        _set(stem.bias, torch.from_numpy(of_stem_bias))
        for number, layer in enumerate(self._convolutions):
            _set(layer.weight, torch.from_numpy(of_weights[number]).permute(3, 2, 0, 1))
            _set(layer.bias, torch.from_numpy(of_biases[number]))
        start = 0
        for head in (model.policy, model.value_squares):
            behind = start + head.out_channels
            of_head = torch.from_numpy(of_heads[:, start:behind]).t()
            _set(head.weight, of_head[:, :, None, None])
            _set(head.bias, torch.from_numpy(of_head_bias[start:behind]))
            start = behind


@cache
def _places_of_planes() -> NDArray[np.uint16]:
    """[2187]"""
    planes = np.arange(81 * NUM_PLANES)
    return (planes % 81 * HEAD_CHANNELS + planes // 81).astype(np.uint16)


@cache
def _places_of_actions() -> NDArray[np.uint16]:
    """[13527]; actions without a plane are never legal."""
    return _places_of_planes()[PolicyOutputMapper.plane_indices.clip(min=0)]


def _array(tensor: Tensor) -> NDArray[Any]:
    array: NDArray[Any] = tensor.detach().numpy()
    return array


def _channels_last(weight: Tensor) -> NDArray[np.float32]:
    return _array(weight.permute(0, 2, 3, 1).contiguous())


def _set(parameter: Tensor, gradient: Tensor) -> None:
    if parameter.grad is None:
        parameter.grad = torch.empty_like(parameter)
    parameter.grad.copy_(gradient)
