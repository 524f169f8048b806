"""PPO's clipped objective, as a function of what the network says of a minibatch."""

from __future__ import annotations

import torch
from torch import Tensor

from keisei.config_schema import PPOConfig
from keisei.core.legal_policy import played_moves
from keisei.core.minibatch import Minibatch

LOSSES = ("loss", "policy_loss", "value_loss", "entropy", "kl", "clip_share")
"""The names of what `ppo_losses` gives, in its order."""
MOST_WEIGHT = 2.0


def ppo_losses(
    logits: Tensor,
    values: Tensor,
    minibatch: Minibatch,
    config: PPOConfig,
    entropy_weight: float,
) -> dict[str, Tensor]:
    """The objective and its parts, each a mean over the minibatch, differentiable in "loss".

    logits: [B, 2187], values: [B].

    Clipping keeps the policy near the one that the update began with. Where weights `lag` versions
    older have played, that one is taken to lie 1 / (1 + lag) of the way from the policy now back
    to theirs, and the step counts by how much more probable it made the move, at most `MOST_WEIGHT`
    times. With no lag this is plain PPO, bit for bit.
    """
    played = played_moves(logits, minibatch.legal, minibatch.counts, minibatch.actions)
    since_played = played.log_probs - minibatch.log_probs
    before_update = since_played.detach() * (minibatch.lags / (1 + minibatch.lags))
    log_ratio = since_played - before_update
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1 - config.clip, 1 + config.clip)
    gain = torch.minimum(ratio * minibatch.advantages, clipped * minibatch.advantages)
    policy_loss = -(gain * before_update.exp().clamp(max=MOST_WEIGHT)).mean()
    value_loss = (values - minibatch.returns).square().mean()
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
