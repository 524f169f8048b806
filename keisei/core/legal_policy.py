"""The policy over the legal moves only: masked log-probabilities, sampling, entropy."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from keisei.shogi.policy_output_mapper import PolicyOutputMapper


@cache
def plane_table(device: torch.device) -> Tensor:
    """[13527] int64: the policy plane of every action, on a device."""
    table = torch.from_numpy(PolicyOutputMapper.plane_indices.astype("int64"))
    return table.clamp(min=0).to(device)  # actions without a plane are never legal


class LegalPolicy(NamedTuple):
    """The policy of a batch over its legal moves."""

    log_probs: Tensor
    """[B, L] float32: of each legal move; -inf behind the last."""
    normaliser: Tensor
    """[B] float32: what is subtracted from a move's logit."""


def legal_policy(logits: Tensor, legal: Tensor, counts: Tensor) -> LegalPolicy:
    """The policy of logits [B, 2187] over the first counts [B] of the actions legal [B, L]."""
    planes = plane_table(logits.device)[legal.long()]
    beyond = torch.arange(legal.shape[1], device=logits.device) >= counts.unsqueeze(1)
    chosen = logits.gather(1, planes).masked_fill(beyond, float("-inf"))
    normaliser = chosen.logsumexp(dim=1)
    return LegalPolicy(chosen - normaliser.unsqueeze(1), normaliser)


def log_prob_of(policy: LegalPolicy, logits: Tensor, actions: Tensor) -> Tensor:
    """[B] log-probability of one legal action a row."""
    plane = plane_table(logits.device)[actions.long()]
    return logits.gather(1, plane.unsqueeze(1)).squeeze(1) - policy.normaliser


def entropy(policy: LegalPolicy) -> Tensor:
    """[B] entropy in nats; a single legal move has none."""
    finite = policy.log_probs.clamp(min=-1e4)  # exp() is 0 there, and 0 * -inf would be nan
    return -(finite.exp() * finite).sum(dim=1)


def sample(policy: LegalPolicy, fractions: Tensor) -> Tensor:
    """[B] index into the legal moves, by inversion of `fractions` [B] in [0, 1).

    The random numbers come from the games' own streams, so that what is played does not depend on
    which games share a batch.
    """
    cumulative = policy.log_probs.double().exp().cumsum(dim=1)
    wanted = (fractions * cumulative[:, -1]).unsqueeze(1)
    # Behind the last legal move the sum stays at its end, which is above every wanted value.
    return (cumulative <= wanted).sum(dim=1).clamp(max=policy.log_probs.shape[1] - 1)
