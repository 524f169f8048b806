"""What a pass of an IQN network takes, in the forms that products and kernels want."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from keisei.core.gaussian_noise import noise_seeds
from keisei.core.iqn_network import IQNetwork

Array = NDArray[np.float32]


class Wide(NamedTuple):
    """Memory that torch sees as a tensor, and kernels as an array of float32 or uint16.

    turned: the tensor with rows and columns exchanged, made once and not at every product.
    """

    tensor: Tensor
    turned: Tensor
    array: NDArray[Any]

    @classmethod
    def empty(cls, *shape: int, kind: torch.dtype) -> Wide:
        """New memory of float32 or bfloat16."""
        tensor = torch.empty(shape, dtype=kind)
        bits = tensor.view(torch.uint16) if kind == torch.bfloat16 else tensor
        return cls(tensor, tensor.mT, bits.numpy())

    def rows(self, start: int, stop: int) -> Wide:
        """Some rows of it."""
        return Wide(self.tensor[start:stop], self.turned[:, start:stop], self.array[start:stop])


class Chance(NamedTuple):
    """What is random in one pass: taus [B or 1, Q], and the seeds of the noise of two layers."""

    taus: Array
    seeds: tuple[int, int]

    @classmethod
    def drawn(cls, generator: torch.Generator, states: int, quantiles: int) -> Chance:
        """As `IQNModel.loss` draws it for a pass: taus, then the noise of layer by layer."""
        taus = torch.rand(states, quantiles, generator=generator).numpy()
        mixed, heads = noise_seeds(generator, 2)
        return cls(taus, (mixed, heads))


class NetworkArrays:
    """The parameters of a network as products and kernels take them: views of its memory.

    mixed and heads: weight, bias and the sigma of each.
    """

    def __init__(self, network: IQNetwork) -> None:
        self.seen, self.embedding = network.seen.weight.detach(), network.embedding.weight.detach()
        self.seen_bias, self.embedding_bias = arrays_of([network.seen.bias, network.embedding.bias])
        self.mixed = arrays_of([*network.mixed.parameters()])
        self.heads = arrays_of([*network.heads.parameters()])


def arrays_of(tensors: list[Any]) -> tuple[Array, ...]:
    """Views of the memory of each."""
    return tuple(tensor.detach().numpy() for tensor in tensors)
