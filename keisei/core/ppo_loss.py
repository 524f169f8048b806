"""PPO's clipped objective, as a function of what the network says of a steps."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from keisei.config_schema import PPOConfig
from keisei.core.legal_policy import PlayedMoves

LOSSES = ("loss", "policy_loss", "value_loss", "entropy", "kl", "clip_share")
"""The names of what `ppo_losses` gives, in its order."""
MOST_WEIGHT = 2.0


class Steps(Protocol):
    """What B steps were when they were played, and what came of them; [B] each."""

    @property
    def log_probs(self) -> Tensor:
        """Of the moves, by the policy that played them."""

    @property
    def advantages(self) -> Tensor:
        """Normalised."""

    @property
    def returns(self) -> Tensor:
        """What the value should have been."""

    @property
    def lags(self) -> Tensor:
        """How many versions older the weights were that played."""


def ppo_losses(
    played: PlayedMoves,
    values: Tensor,
    steps: Steps,
    config: PPOConfig,
    entropy_weight: float | Tensor,
) -> dict[str, Tensor]:
    """The objective and its parts, each a mean over the minibatch, differentiable in "loss".

    played and values [B]: what the network says now of what was played.

    Clipping keeps the policy near the one that the update began with. Where weights `lag` versions
    older have played, that one is taken to lie 1 / (1 + lag) of the way from the policy now back
    to theirs, and the step counts by how much more probable it made the move, at most `MOST_WEIGHT`
    times. With no lag this is plain PPO, bit for bit.
    """
    since_played = played.log_probs - steps.log_probs
    before_update = since_played.detach() * (steps.lags / (1 + steps.lags))
    log_ratio = since_played - before_update
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1 - config.clip, 1 + config.clip)
    gain = torch.minimum(ratio * steps.advantages, clipped * steps.advantages)
    policy_loss = -(gain * before_update.exp().clamp(max=MOST_WEIGHT)).mean()
    value_loss = (values - steps.returns).square().mean()
    bonus = played.entropies.mean()
    losses = (
        policy_loss + config.value_coefficient * value_loss - entropy_weight * bonus,
        policy_loss,
        value_loss,
        bonus,
        (ratio - 1 - log_ratio).mean(),
        ((ratio - 1).abs() > config.clip).float().mean(),
    )
    return dict(zip(LOSSES, losses, strict=True))
