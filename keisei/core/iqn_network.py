"""`IQNetwork`: quantiles of the return of each action, and the loss that they are learnt by.

Dabney et al., Implicit Quantile Networks (2018), with dueling heads (Wang et al., 2016) and noisy
layers (Fortunato et al., 2018) behind the embedding.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from keisei.core.noisy_linear import NoisyLinear

COSINES = 64


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
        self._bfloat16 = mixed_precision and torch.cpu._is_avx512_bf16_supported()
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
        cosines = torch.cos(taus.unsqueeze(-1) * self.frequencies)
        with torch.autocast("cpu", torch.bfloat16, enabled=self._bfloat16):
            embedded = torch.relu(self.embedding(cosines))
            seen = torch.relu(self.seen(states)).unsqueeze(1)
            mixed = torch.relu(self.mixed(seen * embedded))
        outputs = self.heads(mixed.float())
        advantages, values = outputs[..., :-1], outputs[..., -1:]
        dueling: Tensor = values + advantages - advantages.mean(dim=-1, keepdim=True)
        return dueling


def quantile_huber_loss(predicted: Tensor, taus: Tensor, targets: Tensor) -> Tensor:
    """Mean over the batch of the loss as published, with kappa 1.

    predicted and taus: [B, Q]; targets: [B, Q']. Huber's loss of every pair, weighed by how far the
    quantile is on the wrong side; summed over the predicted and averaged over the targets.
    """
    error = targets.unsqueeze(1) - predicted.unsqueeze(2)
    huber = nn.functional.huber_loss(
        predicted.unsqueeze(2).expand_as(error),
        targets.unsqueeze(1).expand_as(error),
        reduction="none",
    )
    weights = (taus.unsqueeze(2) - (error.detach() < 0).float()).abs()
    return (weights * huber).mean(dim=2).sum(dim=1).mean()
