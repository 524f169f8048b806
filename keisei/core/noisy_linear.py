"""`NoisyLinear`: a linear layer that explores with its weights.

Fortunato et al., Noisy Networks for Exploration (2018), the variant with independent Gaussian noise
for every weight and its initial values (section 3.2).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from keisei.core.gaussian_noise import gaussian_noise

INITIAL_SIGMA = 0.017


class NoisyLinear(nn.Module):
    """weight + sigma * noise, with new noise from `generator` at every pass while training.

    Out of training mode the noise is left out.
    """

    def __init__(self, inputs: int, outputs: int, *, generator: torch.Generator) -> None:
        super().__init__()
        bound = math.sqrt(3 / inputs)
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound))
        self.weight_sigma = nn.Parameter(torch.full((outputs, inputs), INITIAL_SIGMA))
        self.bias_sigma = nn.Parameter(torch.full((outputs,), INITIAL_SIGMA))
        self._generator = generator

    def forward(self, inputs: Tensor) -> Tensor:
        """[B, outputs] from `inputs` [B, inputs]."""
        return functional.linear(inputs, *self.weights())

    def weights(self) -> tuple[Tensor, Tensor]:
        """[outputs, inputs] weight and [outputs] bias of one pass, with its noise."""
        if not self.training:
            return self.weight, self.bias
        weight_noise, bias_noise = layer_noise(self._generator, self.weight)
        return (
            torch.addcmul(self.weight, self.weight_sigma, weight_noise),
            torch.addcmul(self.bias, self.bias_sigma, bias_noise),
        )


def layer_noise(generator: torch.Generator, weight: Tensor) -> tuple[Tensor, Tensor]:
    """For a weight [outputs, inputs] and its bias, the noise of one pass.

    Made on the CPU, so that it is the same for any device.
    """
    noise = gaussian_noise(generator, weight.numel() + len(weight)).to(weight.device)
    return noise[: weight.numel()].view(weight.shape), noise[weight.numel() :]
