"""`PackedWeights`: a network's weights as the kernels of `tower_kernels` read them, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from keisei.core.answer_kernels import Floats, Weights
from keisei.core.lesson_kernels import Gradients
from keisei.core.llvm_code import LANES
from keisei.core.res_tower import ActorCriticResTower
from keisei.core.stem_kernels import weights_by_channel, weights_by_plane
from keisei.core.tower_kernels import HEAD_CHANNELS, WIDTH, pack_convolution


class PackedWeights:
    """Copies of a model's weights; `read` makes them those of now."""

    def __init__(self, model: ActorCriticResTower) -> None:
        self._model = model
        self._tower = [layer for block in model.blocks for layer in _convolutions(block)]
        self._heads = (model.policy, model.value_squares)
        features = model.features
        self._planes = features.square_planes, features.even_planes
        self._heads_weight = np.zeros((HEAD_CHANNELS, 1, WIDTH), np.float32)
        layers, units, squares = len(self._tower), *model.value_hidden.weight.shape
        tower = (layers, WIDTH // LANES, 9, WIDTH // 2, LANES, 2)
        self.weights = Weights(
            stem=np.empty((sum(map(len, self._planes)), 9 * WIDTH), np.float32),
            stem_bias=np.empty(WIDTH, np.float32),
            tower=np.empty(tower, np.uint16),
            tower_back=np.empty(tower, np.uint16),
            tower_biases=np.empty((layers, WIDTH), np.float32),
            heads=np.empty((HEAD_CHANNELS // LANES, 1, WIDTH // 2, LANES, 2), np.uint16),
            heads_back=np.empty((WIDTH // LANES, 1, HEAD_CHANNELS // 2, LANES, 2), np.uint16),
            heads_bias=np.zeros(HEAD_CHANNELS, np.float32),
            hidden=np.empty((squares, units), np.float32),
            hidden_back=np.empty((units, squares), np.float32),
            hidden_bias=np.empty(units, np.float32),
            last=np.empty(units, np.float32),
            last_bias=np.empty(1, np.float32),
        )

    def read(self) -> None:
        """Take over the model's weights."""
        model, packed = self._model, self.weights
        weights_by_plane(_channels_last(model.stem), *self._planes, packed.stem)
        packed.stem_bias[:] = _array(model.stem.bias)
        for number, layer in enumerate(self._tower):
            weight = _channels_last(layer).reshape(WIDTH, 9, WIDTH)
            pack_convolution(weight, packed.tower[number], packed.tower_back[number])
            packed.tower_biases[number] = _array(layer.bias)
        start = 0
        for head in self._heads:
            behind = start + head.out_channels
            self._heads_weight[start:behind, 0] = _array(head.weight)[:, :, 0, 0]
            packed.heads_bias[start:behind] = _array(head.bias)
            start = behind
        pack_convolution(self._heads_weight, packed.heads, packed.heads_back)
        packed.hidden_back[:] = _array(model.value_hidden.weight)
        packed.hidden[:] = packed.hidden_back.T
        packed.hidden_bias[:] = _array(model.value_hidden.bias)
        packed.last[:] = _array(model.value.weight)[0]
        packed.last_bias[:] = _array(model.value.bias)

    def gradients(self) -> Gradients:
        """All 0."""
        packed = self.weights
        alike = (packed.hidden_back, packed.hidden_bias, packed.last, packed.last_bias)
        return Gradients(
            np.zeros_like(packed.stem),
            np.zeros_like(packed.stem_bias),
            np.zeros((len(self._tower), 3, 3, WIDTH, WIDTH), np.float32),
            np.zeros_like(packed.tower_biases),
            np.zeros((WIDTH, HEAD_CHANNELS), np.float32),
            np.zeros_like(packed.heads_bias),
            *(np.zeros_like(array) for array in alike),
        )

    def give_back(self, gradients: Gradients) -> None:
        """Set those of the model's weights."""
        model = self._model
        by_channel = np.empty((WIDTH, 3, 3, model.stem.in_channels), np.float32)
        weights_by_channel(gradients.stem, *self._planes, by_channel)
        _set_gradient(model.stem.weight, torch.from_numpy(by_channel).permute(0, 3, 1, 2))
        _set_gradient(model.stem.bias, torch.from_numpy(gradients.stem_bias))
        for number, layer in enumerate(self._tower):
            of_layer = torch.from_numpy(gradients.tower[number])
            _set_gradient(layer.weight, of_layer.permute(3, 2, 0, 1))
            _set_gradient(layer.bias, torch.from_numpy(gradients.tower_biases[number]))
        start = 0
        for head in self._heads:
            behind = start + head.out_channels
            of_head = torch.from_numpy(gradients.heads[:, start:behind]).t()
            _set_gradient(head.weight, of_head[:, :, None, None])
            _set_gradient(head.bias, torch.from_numpy(gradients.heads_bias[start:behind]))
            start = behind
        _set_gradient(model.value_hidden.weight, torch.from_numpy(gradients.hidden))
        _set_gradient(model.value_hidden.bias, torch.from_numpy(gradients.hidden_bias))
        _set_gradient(model.value.weight, torch.from_numpy(gradients.last).unsqueeze(0))
        _set_gradient(model.value.bias, torch.from_numpy(gradients.last_bias))


def _set_gradient(parameter: Tensor | None, gradient: Tensor) -> None:
    """In place where there is one."""
    assert parameter is not None, "all layers of a network have a bias"
    if parameter.grad is None:
        parameter.grad = torch.empty_like(parameter)
    parameter.grad.copy_(gradient)


def summed(gradients: list[Gradients]) -> Gradients:
    """The sums of all."""
    first, *others = gradients
    for other in others:
        for total, array in zip(first, other, strict=True):
            np.add(total, array, out=total)
    return first


def _convolutions(block: Any) -> tuple[nn.Conv2d, nn.Conv2d]:
    return block.first, block.second


def _array(tensor: Tensor | None) -> NDArray[Any]:
    assert tensor is not None, "all layers of a network have a bias"
    array: NDArray[Any] = tensor.detach().numpy()
    return array


def _channels_last(layer: nn.Conv2d) -> Floats:
    """[O, 3, 3, I], which is how the weight lies in memory."""
    return _array(layer.weight.permute(0, 2, 3, 1).contiguous())
