"""`FusedNetwork`: a small network on a CPU by kernels of our own, in bfloat16."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from keisei.core.convolution_code import BOARD_SQUARES
from keisei.core.half_copy import HalfCopy
from keisei.core.llvm_code import has_pair_products
from keisei.core.matrix_products import add_product
from keisei.core.packed_weights import PackedWeights, set_gradient
from keisei.core.res_tower import ActorCriticResTower
from keisei.core.row_threads import in_threads, number_of_parts
from keisei.core.tower_kernels import (
    HEAD_CHANNELS,
    VALUE_CHANNELS,
    WIDTH,
    tower_backward,
    tower_forward,
)
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
        self._weights = PackedWeights(model)
        self._boards = np.zeros((0, *self._board_shape()), np.uint16)
        self._lesson: _Lesson | None = None
        self.threads: int | None = None
        """None: as many as torch has."""

    @property
    def _threads(self) -> int:
        return torch.get_num_threads() if self.threads is None else self.threads

    @staticmethod
    def is_for(model: ActorCriticResTower) -> bool:
        """Whether there is code for this model and this processor, and torch is slower.

        Where processors multiply whole tiles (AMX) torch does, and its gradients take 0.80 of the
        time of ours.
        """
        if torch.cpu._is_amx_tile_supported() or not has_pair_products():
            return False
        plain = all(isinstance(block.excitation, nn.Identity) for block in model.blocks)
        return model.stem.out_channels == WIDTH and plain

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
        weights, last = self._weights, self._model.value
        weights.read()
        planes = self._model.features.sparse(positions.numpy())
        rows, learns = len(positions), torch.is_grad_enabled()
        logits = np.empty(moves.legal.shape, np.float32)
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
                weights.stem,
                weights.stem_bias,
                weights.tower,
                weights.tower_biases,
                weights.heads,
                weights.heads_bias,
                self._boards_of_one() if boards is None else boards[part],
                logits[part],
                squares[part],
            )
            add_product(squares[part], weights.hidden, hidden.numpy()[part])

        in_threads(rows, self._threads, answer)
        told = torch.from_numpy(logits)
        if boards is not None:
            told.requires_grad_()
            hidden.requires_grad_()
            self._lesson = _Lesson(planes, moves, boards, told, squares, hidden)
        values = (functional.relu(hidden) * last.weight).sum(1) + last.bias
        return told, torch.tanh(values)

    def backward(self, loss: Tensor) -> None:
        """Set the gradients of the model's weights, in place where there are some."""
        lesson, self._lesson = self._lesson, None
        assert lesson is not None, "nothing was said to learn from"
        last, weights = self._model.value, self._weights
        by_logits, by_hidden, of_last, of_last_bias = torch.autograd.grad(
            loss, (lesson.logits, lesson.hidden, last.weight, last.bias)
        )
        gradients = weights.gradients(number_of_parts(len(by_logits), self._threads))

        def add(part: slice, number: int) -> None:
            of_hidden, *of_others = (sums[number] for sums in gradients)
            slopes, squares = by_hidden.numpy()[part], lesson.squares[part]
            by_squares = np.zeros_like(squares)
            add_product(slopes, weights.hidden_back, by_squares)
            add_product(np.ascontiguousarray(slopes.T), squares, of_hidden)
            tower_backward(
                lesson.planes.sets[part],
                lesson.planes.even[part],
                lesson.moves.legal[part],
                lesson.moves.counts[part],
                lesson.moves.places,
                lesson.boards[part],
                squares,
                weights.tower_back,
                weights.heads_back,
                by_logits.numpy()[part],
                by_squares,
                *of_others,
            )

        in_threads(len(by_logits), self._threads, add)
        weights.give_back(gradients.summed())
        set_gradient(self._model.value_hidden.bias, by_hidden.sum(0))
        set_gradient(last.weight, of_last)
        set_gradient(last.bias, of_last_bias)

    def _board_shape(self) -> tuple[int, ...]:
        """Of what a position makes of all layers."""
        return (2 * len(self._model.blocks) + 1, BOARD_SQUARES, WIDTH)

    def _boards_of_one(self) -> NDArray[np.uint16]:
        return np.zeros((1, *self._board_shape()), np.uint16)

    def _boards_for(self, rows: int) -> NDArray[np.uint16]:
        """Memory with margins of 0, the same again if it is asked for as many."""
        if len(self._boards) != rows:
            self._boards = np.zeros((rows, *self._board_shape()), np.uint16)
        return self._boards


@cache
def _places_of_planes() -> NDArray[np.uint16]:
    """[2187]"""
    planes = np.arange(81 * NUM_PLANES)
    return (planes % 81 * HEAD_CHANNELS + planes // 81).astype(np.uint16)


@cache
def _places_of_actions() -> NDArray[np.uint16]:
    """[13527]; actions without a plane are never legal."""
    places: NDArray[np.uint16] = _places_of_planes()[PolicyOutputMapper.plane_indices.clip(min=0)]
    return places
