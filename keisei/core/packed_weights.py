"""`PackedWeights`: a network's weights as the kernels of `tower_kernels` read them, and back."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from keisei.core.llvm_code import LANES
from keisei.core.res_tower import ActorCriticResTower
from keisei.core.stem_kernels import weights_by_channel, weights_by_plane
from keisei.core.tower_kernels import HEAD_CHANNELS, WIDTH, pack_convolution

Numbers = NDArray[np.float32]


class Gradients(NamedTuple):
    """Sums to add to, for one thread each: [P, ...]."""

    hidden: Numbers
    """Of the value's hidden layer: [P, H, 4 * 81]."""
    stem: Numbers
    """By plane: [P, C, 9 * 16]."""
    stem_bias: Numbers
    tower: Numbers
    """[P, L, 3, 3, 16, 16], inputs before outputs."""
    tower_biases: Numbers
    heads: Numbers
    """[P, 16, 32]."""
    heads_bias: Numbers

    def summed(self) -> Gradients:
        """Without the first dimension."""
        return Gradients(*(parts.sum(0) if len(parts) > 1 else parts[0] for parts in self))


class PackedWeights:
    """Copies of a model's weights; `read` makes them those of now."""

    def __init__(self, model: ActorCriticResTower) -> None:
        self._model = model
        self._tower = [layer for block in model.blocks for layer in _convolutions(block)]
        self._heads = (model.policy, model.value_squares)
        layers, hidden = len(self._tower), model.value_hidden.weight.shape
        features = model.features
        self._planes = features.square_planes, features.even_planes
        self.stem = np.empty((sum(map(len, self._planes)), 9 * WIDTH), np.float32)
        self.stem_bias = np.empty(WIDTH, np.float32)
        self.tower = np.empty((layers, WIDTH // LANES, 9, WIDTH // 2, LANES, 2), np.uint16)
        self.tower_back = np.empty_like(self.tower)
        self.tower_biases = np.empty((layers, WIDTH), np.float32)
        self.heads = np.empty((HEAD_CHANNELS // LANES, 1, WIDTH // 2, LANES, 2), np.uint16)
        self.heads_back = np.empty((WIDTH // LANES, 1, HEAD_CHANNELS // 2, LANES, 2), np.uint16)
        self.heads_bias = np.zeros(HEAD_CHANNELS, np.float32)
        self._heads_weight = np.zeros((HEAD_CHANNELS, 1, WIDTH), np.float32)
        self.hidden = np.empty(hidden[::-1], np.float32)
        self.hidden_back = np.empty(hidden, np.float32)

    def read(self) -> None:
        """Take over the model's weights."""
        weights_by_plane(_channels_last(self._model.stem), *self._planes, self.stem)
        self.stem_bias[:] = _bias(self._model.stem)
        for number, layer in enumerate(self._tower):
            weight = _channels_last(layer).reshape(WIDTH, 9, WIDTH)
            pack_convolution(weight, self.tower[number], self.tower_back[number])
            self.tower_biases[number] = _bias(layer)
        start = 0
        for head in self._heads:
            behind = start + head.out_channels
            self._heads_weight[start:behind, 0] = _array(head.weight)[:, :, 0, 0]
            self.heads_bias[start:behind] = _bias(head)
            start = behind
        pack_convolution(self._heads_weight, self.heads, self.heads_back)
        self.hidden_back[:] = _array(self._model.value_hidden.weight)
        self.hidden[:] = self.hidden_back.T

    def gradients(self, parts: int) -> Gradients:
        """All 0."""
        layers = len(self._tower)

        def zeros(*shape: int) -> Numbers:
            return np.zeros((parts, *shape), np.float32)

        return Gradients(
            hidden=zeros(*self.hidden_back.shape),
            stem=zeros(*self.stem.shape),
            stem_bias=zeros(WIDTH),
            tower=zeros(layers, 3, 3, WIDTH, WIDTH),
            tower_biases=zeros(layers, WIDTH),
            heads=zeros(WIDTH, HEAD_CHANNELS),
            heads_bias=zeros(HEAD_CHANNELS),
        )

    def give_back(self, gradients: Gradients) -> None:
        """Set those of the model's weights, as far as these go."""
        stem = self._model.stem
        by_channel = np.empty((WIDTH, 3, 3, stem.in_channels), np.float32)
        weights_by_channel(gradients.stem, *self._planes, by_channel)
        set_gradient(stem.weight, torch.from_numpy(by_channel).permute(0, 3, 1, 2))
        set_gradient(stem.bias, torch.from_numpy(gradients.stem_bias))
        for number, layer in enumerate(self._tower):
            of_layer = torch.from_numpy(gradients.tower[number])
            set_gradient(layer.weight, of_layer.permute(3, 2, 0, 1))
            set_gradient(layer.bias, torch.from_numpy(gradients.tower_biases[number]))
        start = 0
        for head in self._heads:
            behind = start + head.out_channels
            of_head = torch.from_numpy(gradients.heads[:, start:behind]).t()
            set_gradient(head.weight, of_head[:, :, None, None])
            set_gradient(head.bias, torch.from_numpy(gradients.heads_bias[start:behind]))
            start = behind
        set_gradient(self._model.value_hidden.weight, torch.from_numpy(gradients.hidden))


def set_gradient(parameter: Tensor | None, gradient: Tensor) -> None:
    """In place where there is one."""
    assert parameter is not None, "all layers of a network have a bias"
    if parameter.grad is None:
        parameter.grad = torch.empty_like(parameter)
    parameter.grad.copy_(gradient)


def _convolutions(block: Any) -> tuple[nn.Conv2d, nn.Conv2d]:
    return block.first, block.second


def _array(tensor: Tensor) -> NDArray[Any]:
    array: NDArray[Any] = tensor.detach().numpy()
    return array


def _bias(layer: nn.Conv2d) -> NDArray[Any]:
    assert layer.bias is not None
    return _array(layer.bias)


def _channels_last(layer: nn.Conv2d) -> NDArray[Any]:
    """[O, 3, 3, I], which is how the weight lies in memory."""
    return _array(layer.weight.permute(0, 2, 3, 1).contiguous())
