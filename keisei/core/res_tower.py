"""`ActorCriticResTower`: the one network that learner, workers, evaluation and play use."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from keisei.config_schema import ModelConfig
from keisei.core.sparse_stem import is_sparse_stem_for, sparse_stem
from keisei.shogi.features import feature_set
from keisei.shogi.policy_output_mapper import NUM_PLANES

_VALUE_CHANNELS = 4
_SQUEEZE = 4


class _SqueezeExcitation(nn.Module):
    """Scales and shifts each channel by what the whole board looks like."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.squeeze = nn.Linear(width, max(width // _SQUEEZE, 4))
        self.excite = nn.Linear(self.squeeze.out_features, 2 * width)
        nn.init.zeros_(self.excite.weight)
        nn.init.zeros_(self.excite.bias)

    def forward(self, x: Tensor) -> Tensor:
        summary = functional.relu(self.squeeze(x.mean(dim=(2, 3))))
        scale, shift = self.excite(summary)[:, :, None, None].chunk(2, dim=1)
        return torch.addcmul(shift, x, torch.sigmoid(scale))


class _Block(nn.Module):
    """Two convolutions and a skip; the second starts at zero, so that a new block changes nothing.

    There is no normalisation layer: what the network says of a position never depends on the
    other positions of the batch, and playing is the same function as learning.
    """

    def __init__(self, width: int, *, squeeze_excitation: bool) -> None:
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1)
        self.second = nn.Conv2d(width, width, 3, padding=1)
        nn.init.zeros_(self.second.weight)
        nn.init.zeros_(self.second.bias)  # type: ignore[arg-type]
        self.excitation = _SqueezeExcitation(width) if squeeze_excitation else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        # In place, as nobody needs what was there before: the bits are the same, and two tensors
        # instead of five have to stay in the cache until the gradient is computed.
        y = self.second(functional.relu_(self.first(x)))
        return functional.relu_(self.excitation(y).add_(x))


class ActorCriticResTower(nn.Module):
    """Positions in; a logit for each of 27 x 81 policy planes and a value for the mover out."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.features = feature_set(config.features)
        self.stem = nn.Conv2d(self.features.num_planes, config.width, 3, padding=1)
        self.blocks = nn.Sequential(
            *(
                _Block(config.width, squeeze_excitation=config.squeeze_excitation)
                for _ in range(config.depth)
            )
        )
        self.policy = nn.Conv2d(config.width, NUM_PLANES, 1)
        self.value_squares = nn.Conv2d(config.width, _VALUE_CHANNELS, 1)
        self.value_hidden = nn.Linear(_VALUE_CHANNELS * 81, config.value_width)
        self.value = nn.Linear(config.value_width, 1)
        # The first policy is uniform over the legal moves and the first value a draw.
        for layer in (self.policy, self.value):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]

    def matrices(self) -> list[nn.Parameter]:
        """The weights of the tower's convolutions."""
        layers = (*self.stem.parameters(), *self.blocks.parameters())
        return [parameter for parameter in layers if parameter.dim() > 2]

    def forward(self, positions: Tensor, sets: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """[B, 100] int8 -> logits [B, 2187] and values [B] in [-1, 1], both float32.

        sets: see `FeatureSet.expand`.
        """
        planes, values = self.planes_and_values(positions, sets)
        return planes.flatten(1).float(), values

    def planes_and_values(
        self, positions: Tensor, sets: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The same with the logits [B, 27, 9, 9] as they are computed: nothing is copied."""
        x = self.blocks(self._first_layer(positions, sets))
        hidden = functional.relu_(self.value_squares(x)).flatten(1)
        value = self.value(functional.relu_(self.value_hidden(hidden))).squeeze(1)
        return self.policy(x), torch.tanh(value.float())

    def _first_layer(self, positions: Tensor, sets: Tensor | None) -> Tensor:
        arithmetic = _arithmetic(self.stem.weight)
        if is_sparse_stem_for(positions, arithmetic):
            return sparse_stem(self.features, positions, self.stem, arithmetic)
        planes = self.features.expand(positions, sets, dtype=arithmetic)
        return functional.relu(self.stem(planes.contiguous(memory_format=torch.channels_last)))


def _arithmetic(weight: Tensor) -> torch.dtype:
    """The type that convolutions with this weight compute in."""
    if torch.is_autocast_enabled(weight.device.type):
        return torch.get_autocast_dtype(weight.device.type)
    return weight.dtype


def model_factory(
    config: ModelConfig, *, device: torch.device | str = "cpu"
) -> ActorCriticResTower:
    """The network of a config, on a device; its first weights follow torch's random seed."""
    # Channels last is how both oneDNN and cuDNN convolve fastest: 1.2-1.5 x on a CPU.
    model = ActorCriticResTower(config).to(device)
    return model.to(memory_format=torch.channels_last)  # type: ignore[no-any-return, call-overload]
