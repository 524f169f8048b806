"""The policy over the legal moves only: masked log-probabilities, sampling, entropy."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import torch
from numpy.typing import NDArray
from torch import Tensor

from keisei.core.legal_kernels import choose_legal, legal_gradient, measure_legal
from keisei.shogi.policy_output_mapper import NUM_PLANES, PolicyOutputMapper


@cache
def plane_table(device: torch.device) -> Tensor:
    """[13527] int64: the policy plane of every action, on a device."""
    table = torch.from_numpy(PolicyOutputMapper.plane_indices.astype("int64"))
    return table.clamp(min=0).to(device)  # actions without a plane are never legal


@cache
def _places_by_square(size: int) -> Tensor:
    """[13527] int64: where an action's logit is if those of a square stand first of `size`."""
    planes = plane_table(torch.device("cpu"))
    return planes % 81 * size + planes // 81


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


class PlayedMoves(NamedTuple):
    """What the policy of a batch says of the moves that were played."""

    log_probs: Tensor
    """[B] of the move."""
    entropies: Tensor
    """[B] of the whole policy."""


def played_moves(logits: Tensor, legal: Tensor, counts: Tensor, actions: Tensor) -> PlayedMoves:
    """How probable actions [B] are and how uncertain the policy is; differentiable in `logits`.

    On a CPU logits may also be [B, 27, 9, 9] as a convolution gives them, in bfloat16 too, or the
    first 27 of the last dimension of [B, 81, C].
    """
    if logits.device.type == "cpu":
        return PlayedMoves(*_PlayedOnCpu.apply(logits, legal, counts, actions))  # type: ignore[no-untyped-call]
    policy = legal_policy(logits, legal, counts)
    return PlayedMoves(log_prob_of(policy, logits, actions), entropy(policy))


class _PlayedOnCpu(torch.autograd.Function):
    """`played_moves` by kernels that look at each row's own moves only."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, legal: Tensor, counts: Tensor, actions: Tensor
    ) -> tuple[Tensor, Tensor]:
        rows = [torch.empty(len(counts), dtype=_widened(logits.dtype)) for _ in range(3)]
        log_probs, entropies, normalisers = rows
        moves = _arrays(logits, legal, counts, actions)
        measure_legal(*moves, *(row.numpy() for row in rows))
        ctx.save_for_backward(logits, legal, counts, actions, normalisers, entropies)
        return log_probs, entropies

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        *moves, normalisers, entropies = ctx.saved_tensors
        layout = torch.channels_last if moves[0].dim() == 4 else torch.contiguous_format
        gradient = torch.zeros_like(moves[0], memory_format=layout)
        rows = (normalisers, entropies, *gradients)
        legal_gradient(
            *_arrays(*moves), *(row.contiguous().numpy() for row in rows), _rows(gradient).numpy()
        )
        return gradient, None, None, None


def _arrays(logits: Tensor, legal: Tensor, counts: Tensor, actions: Tensor) -> list[NDArray[Any]]:
    places = _places(logits)
    moves = legal.view(torch.uint16) if legal.dtype == torch.int16 else legal
    tensors = (_rows(logits.detach()), moves, counts, actions, places)
    return [tensor.numpy() for tensor in tensors]


def _places(logits: Tensor) -> Tensor:
    if logits.dim() == 2:
        return plane_table(logits.device)
    return _places_by_square(NUM_PLANES if logits.dim() == 4 else logits.shape[2])


def _rows(logits: Tensor) -> Tensor:
    """[B, P] as kernels see them: no copy of what a convolution gives in channels last."""
    if logits.dim() == 4:
        logits = logits.permute(0, 2, 3, 1)
    logits = logits.reshape(len(logits), -1)
    return logits.view(torch.uint16) if logits.dtype == torch.bfloat16 else logits


def _widened(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype == torch.bfloat16 else dtype


def choose_moves(
    logits: Tensor,
    legal: Tensor,
    counts: Tensor,
    fractions: Tensor | None,
    *,
    temperature: float,
) -> tuple[Tensor, Tensor]:
    """[B] an action and its log-probability; see `PPOAgent.select_actions` and `played_moves`."""
    if logits.device.type == "cpu":
        actions, log_probs = (
            torch.empty(len(counts), dtype=torch.int64),
            torch.empty(len(counts), dtype=_widened(logits.dtype)),
        )
        drawn = torch.empty(0, dtype=torch.float64) if fractions is None else fractions
        arrays = _arrays(logits, legal, counts, actions)
        choose_legal(
            *arrays[:3], drawn.numpy(), temperature, arrays[4], actions.numpy(), log_probs.numpy()
        )
        return actions, log_probs
    policy = legal_policy(logits, legal, counts)
    if fractions is None:
        index = policy.log_probs.argmax(dim=1)
    else:
        index = sample(policy._replace(log_probs=policy.log_probs / temperature), fractions)
    chosen = index.unsqueeze(1)
    return legal.gather(1, chosen).squeeze(1).long(), policy.log_probs.gather(1, chosen).squeeze(1)


def sample(policy: LegalPolicy, fractions: Tensor) -> Tensor:
    """[B] index into the legal moves, by inversion of `fractions` [B] in [0, 1).

    The random numbers come from the games' own streams, so that what is played does not depend on
    which games share a batch.
    """
    cumulative = policy.log_probs.double().exp().cumsum(dim=1)
    wanted = (fractions * cumulative[:, -1]).unsqueeze(1)
    # Behind the last legal move the sum stays at its end, which is above every wanted value.
    return (cumulative <= wanted).sum(dim=1).clamp(max=policy.log_probs.shape[1] - 1)
