"""The policy over packed legal masks: rows of one width, so that a GPU is never asked to wait.

The same policy as `legal_policy`, which goes over lists of moves and suits a CPU.
"""

from __future__ import annotations

import torch
from torch import Tensor

from keisei.core.legal_policy import PlayedMoves
from keisei.core.packed_masks import OUTPUTS

_NOTHING = -1e30  # finite: 0 * -inf would be nan in the entropy
_WORD = 0xFFFFFFFF


def legal_planes(masks: Tensor) -> Tensor:
    """[B, 2187] bool of masks [B, 274] uint8."""
    plane = torch.arange(OUTPUTS, device=masks.device)
    bytes_of_planes = masks.index_select(1, plane >> 3)
    return (bytes_of_planes >> (plane & 7).to(torch.uint8)) & 1 > 0


def masked_log_probs(logits: Tensor, masks: Tensor) -> Tensor:
    """[B, 2187] float32: of the legal planes; about -1e30 elsewhere."""
    return torch.where(legal_planes(masks), logits, _NOTHING).log_softmax(dim=1)


def measure_planes(logits: Tensor, masks: Tensor, planes: Tensor) -> PlayedMoves:
    """How probable planes [B] int64 are and how uncertain the policy is; differentiable."""
    log_probs = masked_log_probs(logits, masks)
    played = log_probs.gather(1, planes.unsqueeze(1)).squeeze(1)
    return PlayedMoves(played, -(log_probs.exp() * log_probs).sum(dim=1))


def choose_planes(
    logits: Tensor, masks: Tensor, noise: Tensor | None, temperature: float = 1.0
) -> tuple[Tensor, Tensor]:
    """[B] a plane, int64, and its log-probability at temperature 1.

    Sampled by the Gumbel-max trick with `noise` [B, 2187]; None takes the most probable plane. A
    running sum, as `legal_policy.sample` has it, would be rounded differently by the threads of a
    GPU, and might end on an illegal plane.
    """
    log_probs = masked_log_probs(logits, masks)
    scores = log_probs if noise is None else log_probs / temperature + noise
    planes = scores.argmax(dim=1)
    return planes, log_probs.gather(1, planes.unsqueeze(1)).squeeze(1)


def gumbel_noise(words: Tensor, plane_words: Tensor) -> Tensor:
    """[B, 2187] float32: each number a hash of its row's word and of its plane's.

    words: [B] int64 of 32 random bits, one from each game's own stream, so that what is played
    does not depend on which games share a batch; plane_words: `PLANE_WORDS` on the same device.
    """
    uniform = between_0_and_1(_mixed(_mixed(words).unsqueeze(1) ^ plane_words))
    return -(-uniform.log()).log()


def between_0_and_1(words: Tensor) -> Tensor:
    """Float32 from 32 random bits in int64, never 0 or 1: their noise would be infinite.

    Of 24 bits and a half the largest would be rounded to 1, once in 16 million, and an illegal
    plane with infinite noise be played.
    """
    return ((words >> 9).float() + 0.5) * 2.0**-23


def _mixed(words: Tensor) -> Tensor:
    """Every bit of 32 in int64 spread over all of them (the finaliser of MurmurHash3)."""
    words = words ^ (words >> 16)
    words = (words * 0x85EBCA6B) & _WORD
    words = words ^ (words >> 13)
    words = (words * 0xC2B2AE35) & _WORD
    return words ^ (words >> 16)


PLANE_WORDS = _mixed(torch.arange(OUTPUTS) + 0x9E3779B9)
"""[2187] int64. Made once: inside a compiled function the sum overflows the GPU's counter."""
