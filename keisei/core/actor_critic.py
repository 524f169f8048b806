"""`ActorCritic`: the network that PPO trains on flat observations."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class ActorCritic(nn.Module):
    """Layers of `hidden` units under one head: A logits, and behind them the value."""

    def __init__(self, inputs: int, actions: int, hidden: tuple[int, ...]) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for width in hidden:
            layers += [_linear(inputs, width, gain=2**0.5), nn.ReLU()]
            inputs = width
        head = _linear(inputs, actions + 1, gain=1.0)
        with torch.no_grad():
            head.weight[:actions] *= 0.01  # all actions begin with the same probability
        self.layers = nn.Sequential(*layers, head)

    def forward(self, states: Tensor) -> Tensor:
        """[B, A + 1] from `states` [B, inputs]."""
        outputs: Tensor = self.layers(states)
        return outputs


def _linear(inputs: int, outputs: int, *, gain: float) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer
