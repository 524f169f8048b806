"""What a network says of leaves: a prior for each legal move and a value."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from keisei.core.legal_policy import legal_policy, plane_table
from keisei.core.legal_pool import padded_width
from keisei.core.ppo_agent import PPOAgent
from keisei.play.prior_kernel import write_priors

_BATCH_STEP = 8
"""Batches are filled up to multiples of this: oneDNN prepares itself anew for every size."""


@torch.inference_mode()
def evaluate_leaves(
    agent: PPOAgent,
    positions: NDArray[np.int8],
    legal: NDArray[np.uint16],
    counts: NDArray[np.int32],
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Priors [B, L] over the first counts [B] of legal [B, 593], and values [B] for the movers.

    positions: [B, 100]. What stands behind a row's last prior does not count.
    """
    logits, values = agent.answer(_filled_up(positions))
    if agent.device.type == "cpu":
        priors = _priors_on_cpu(logits, legal, counts)
    else:
        priors = _priors_on_device(logits[: len(counts)], legal, counts)
    return priors, values[: len(counts)].cpu().numpy()


def _filled_up(positions: NDArray[np.int8]) -> NDArray[np.int8]:
    missing = -len(positions) % _BATCH_STEP
    if missing == 0 or len(positions) == 1:
        return positions
    return np.concatenate([positions, np.repeat(positions[:1], missing, axis=0)])


def _priors_on_cpu(
    logits: Tensor, legal: NDArray[np.uint16], counts: NDArray[np.int32]
) -> NDArray[np.float32]:
    priors = np.empty((len(counts), int(counts.max())), np.float32)
    planes = plane_table(logits.device).numpy()
    write_priors(logits.numpy(), legal, counts, planes, priors)
    return priors


def _priors_on_device(
    logits: Tensor, legal: NDArray[np.uint16], counts: NDArray[np.int32]
) -> NDArray[np.float32]:
    listed = legal[:, : padded_width(counts)].view(np.int16)
    moves = torch.from_numpy(listed.copy()).to(logits.device)
    policy = legal_policy(logits, moves, torch.from_numpy(counts).to(logits.device))
    priors: NDArray[np.float32] = policy.log_probs.exp().cpu().numpy()
    return priors
