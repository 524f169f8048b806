"""`IQNetwork`: quantiles of the return of each action, and the loss that they are learnt by.

Dabney et al., Implicit Quantile Networks (2018), with dueling heads (Wang et al., 2016) and noisy
layers (Fortunato et al., 2018) behind the embedding.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from keisei.core.noisy_linear import NoisyLinear
from keisei.core.stacked_modules import stacked_linear

COSINES = 64


class Weights(NamedTuple):
    """What one pass computes with: weights [outputs, inputs] and biases [outputs] of four layers.

    Those of N networks at once are [N, outputs, inputs] and [N, outputs].
    """

    seen: tuple[Tensor, Tensor]
    embedding: tuple[Tensor, Tensor]
    mixed: tuple[Tensor, Tensor]
    heads: tuple[Tensor, Tensor]


class IQNetwork(nn.Module):
    """Quantiles at any tau: tau's cosine embedding, multiplied into what is seen.

    The noise comes from `generator`, which belongs to the network's model. With `mixed_precision`
    the wide layers compute in bfloat16 where the processor has it, 1.4 times as fast; the heads do
    not, as the returns of two actions may differ in the third digit.
    """

    frequencies: Tensor

    def __init__(
        self,
        inputs: int,
        actions: int,
        *,
        layer_size: int,
        generator: torch.Generator,
        mixed_precision: bool = False,
    ) -> None:
        super().__init__()
        bfloat16 = mixed_precision and torch.cpu._is_avx512_bf16_supported()
        self.wide_type = torch.bfloat16 if bfloat16 else torch.float32
        self.seen = nn.Linear(inputs, layer_size)
        self.embedding = nn.Linear(COSINES, layer_size)
        self.mixed = NoisyLinear(layer_size, layer_size, generator=generator)
        self.heads = NoisyLinear(layer_size, actions + 1, generator=generator)
        # The paper counts i from 0, where the cosine is always 1 and the bias says the same.
        frequencies = math.pi * torch.arange(1, COSINES + 1, dtype=torch.float32)
        self.register_buffer("frequencies", frequencies, persistent=False)

    def forward(self, states: Tensor, taus: Tensor) -> Tensor:
        """[B, Q, A] the quantiles at `taus` [B, Q] of the return of each action in `states` [B, _].

        taus [1, Q] asks for the same ones in all states, which saves their embedding.
        """
        return quantiles(self._weights(), states, taus, self.frequencies, self.wide_type)

    def values(self, states: Tensor, taus: Tensor) -> Tensor:
        """[B, A] the mean of the quantiles at `taus`, without noise."""
        layers = (self.seen, self.embedding, self.mixed, self.heads)
        weights = Weights(*((layer.weight, layer.bias) for layer in layers))
        return mean_quantiles(weights, states, taus, self.frequencies, self.wide_type)

    def _weights(self) -> Weights:
        seen, embedding = ((layer.weight, layer.bias) for layer in (self.seen, self.embedding))
        return Weights(seen, embedding, self.mixed.weights(), self.heads.weights())


def quantiles(
    weights: Weights, states: Tensor, taus: Tensor, frequencies: Tensor, wide_type: torch.dtype
) -> Tensor:
    """[B, Q, A] what the network with these weights says; see `IQNetwork.forward`.

    Of N networks at once every tensor but `frequencies` has one dimension more in front.
    """
    mixed = _mixed(weights, states, taus, frequencies, wide_type)
    outputs = _linear(mixed.flatten(-3, -2), weights.heads, torch.float32)
    return _dueling(outputs.view(*mixed.shape[:-1], -1))


def mean_quantiles(
    weights: Weights, states: Tensor, taus: Tensor, frequencies: Tensor, wide_type: torch.dtype
) -> Tensor:
    """[B, A] the mean of `quantiles` over taus.

    Behind the mixed layer all is linear, so that the mean is taken there, of far fewer rows.
    """
    mixed = _mixed(weights, states, taus, frequencies, wide_type)
    return _dueling(_linear(mixed.mean(-2, dtype=torch.float32), weights.heads, torch.float32))


def _mixed(
    weights: Weights, states: Tensor, taus: Tensor, frequencies: Tensor, wide_type: torch.dtype
) -> Tensor:
    """[B, Q, L] what goes into the heads."""
    cosines = torch.cos(taus.unsqueeze(-1) * frequencies)
    embedded = _linear(cosines.flatten(-3, -2), weights.embedding, wide_type).relu_()
    seen = _linear(states, weights.seen, wide_type).relu_().unsqueeze(-2)
    product = seen * embedded.view(*taus.shape, -1)
    return _linear(product.flatten(-3, -2), weights.mixed, wide_type).relu_().view(product.shape)


def _dueling(outputs: Tensor) -> Tensor:
    """[..., A] what actions return, of outputs [..., A + 1]: their advantages, then the value."""
    advantages, values = outputs[..., :-1], outputs[..., -1:]
    dueling: Tensor = values + advantages - advantages.mean(dim=-1, keepdim=True)
    return dueling


def _linear(inputs: Tensor, layer: tuple[Tensor, Tensor], kind: torch.dtype) -> Tensor:
    weight, bias, inputs = layer[0].to(kind), layer[1].to(kind), inputs.to(kind)
    if weight.dim() == 2:
        return functional.linear(inputs, weight, bias)
    return stacked_linear(inputs, weight, bias)


def of_actions(quantiles: Tensor, actions: Tensor) -> Tensor:
    """[B, Q] of `quantiles` [B, Q, A], those of each row's action; actions: [B]."""
    index = actions[..., None, None].expand(*quantiles.shape[:-1], 1)
    return quantiles.gather(-1, index).squeeze(-1)


def quantile_huber_loss(predicted: Tensor, taus: Tensor, targets: Tensor) -> Tensor:
    """Mean over the batch of the loss as published, with kappa 1.

    predicted and taus: [B, Q]; targets: [B, Q']. Huber's loss of every pair, weighed by how far the
    quantile is on the wrong side; summed over the predicted and averaged over the targets. Of N
    networks at once every tensor has one dimension more in front, and the losses are [N].
    """
    error = targets.unsqueeze(-2) - predicted.unsqueeze(-1)
    huber = functional.huber_loss(
        predicted.unsqueeze(-1).expand_as(error),
        targets.unsqueeze(-2).expand_as(error),
        reduction="none",
    )
    weights = (taus.unsqueeze(-1) - (error.detach() < 0).float()).abs()
    return (weights * huber).mean(dim=-1).sum(dim=-1).mean(dim=-1)
