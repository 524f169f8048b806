"""The policy over the legal moves only: masked log-probabilities, sampling, entropy."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from keisei.core.legal_kernels import (
    choose_legal,
    gather_legal,
    legal_gradient,
    measure_legal,
    scatter_legal,
)
from keisei.shogi.policy_output_mapper import NUM_PLANES, PolicyOutputMapper


@cache
def plane_table(device: torch.device) -> Tensor:
    """[13527] int64: the policy plane of every action, on a device."""
    table = torch.from_numpy(PolicyOutputMapper.plane_indices.astype("int64"))
    return table.clamp(min=0).to(device)  # actions without a plane are never legal


@cache
def _places_channels_last() -> Tensor:
    """[13527] int64: where an action's logit is if those of a square stand together."""
    planes = plane_table(torch.device("cpu"))
    return planes % 81 * NUM_PLANES + planes // 81


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

    On a CPU logits may also be [B, 27, 9, 9] as a convolution gives them, in bfloat16 too, or
    [B, L], those of the legal moves alone.
    """
    if logits.device.type == "cpu":
        gathered = _of_legal(logits, legal, counts)
        return PlayedMoves(*_PlayedOnCpu.apply(gathered, legal, counts, actions))  # type: ignore[no-untyped-call]
    policy = legal_policy(logits, legal, counts)
    return PlayedMoves(log_prob_of(policy, logits, actions), entropy(policy))


def _of_legal(logits: Tensor, legal: Tensor, counts: Tensor) -> Tensor:
    """[B, L] those of the legal moves, if they are not these already."""
    if logits.shape == legal.shape:
        return logits
    if logits.dim() == 2 and logits.shape[1] != NUM_PLANES * 81:
        raise ValueError(f"logits {list(logits.shape)} are not of moves {list(legal.shape)}")
    gathered: Tensor = _Gathered.apply(logits, legal, counts)  # type: ignore[no-untyped-call]
    return gathered


class _Gathered(torch.autograd.Function):
    """The logits of legal moves, out of those of all moves."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, legal: Tensor, counts: Tensor) -> Tensor:
        gathered = torch.empty(legal.shape, dtype=_widened(logits.dtype))
        gather_legal(
            _rows(logits).numpy(), *_moves(legal, counts), _places(logits), gathered.numpy()
        )
        ctx.save_for_backward(logits, legal, counts)
        return gathered

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        logits, legal, counts = ctx.saved_tensors
        layout = torch.contiguous_format if logits.dim() == 2 else torch.channels_last
        gradient = torch.zeros_like(logits, memory_format=layout)
        told = gradients[0].contiguous().numpy()
        scatter_legal(told, *_moves(legal, counts), _places(logits), _rows(gradient).numpy())
        return gradient, None, None


class _PlayedOnCpu(torch.autograd.Function):
    """`played_moves` by kernels that look at each row's own moves only."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, legal: Tensor, counts: Tensor, actions: Tensor
    ) -> tuple[Tensor, Tensor]:
        rows = [torch.empty(len(counts), dtype=logits.dtype) for _ in range(3)]
        log_probs, entropies, normalisers = rows
        moves = *_moves(legal, counts), actions.numpy()
        measure_legal(logits.detach().numpy(), *moves, *(row.numpy() for row in rows))
        ctx.save_for_backward(logits, legal, counts, actions, normalisers, entropies)
        return log_probs, entropies

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        logits, legal, counts, actions, normalisers, entropies = ctx.saved_tensors
        gradient = torch.empty_like(logits)
        moves = *_moves(legal, counts), actions.numpy()
        rows = (normalisers, entropies, *(slopes.contiguous() for slopes in gradients))
        legal_gradient(
            logits.detach().numpy(), *moves, *(row.numpy() for row in rows), gradient.numpy()
        )
        return gradient, None, None, None


def _moves(legal: Tensor, counts: Tensor) -> tuple[NDArray[np.uint16], NDArray[Any]]:
    """As kernels see them; torch indexes with int16."""
    actions = legal.view(torch.uint16) if legal.dtype == torch.int16 else legal
    return actions.numpy(), counts.numpy()


def _rows(logits: Tensor) -> Tensor:
    """[B, 2187] as kernels see them: no copy of what a convolution gives in channels last."""
    logits = logits.detach()
    if logits.dim() == 4:
        logits = logits.permute(0, 2, 3, 1).reshape(len(logits), -1)
    return logits.view(torch.uint16) if logits.dtype == torch.bfloat16 else logits


def _places(logits: Tensor) -> NDArray[np.int64]:
    """[13527] where the logit of an action is in a row."""
    places = plane_table(logits.device) if logits.dim() == 2 else _places_channels_last()
    found: NDArray[np.int64] = places.numpy()
    return found


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
        choose_legal(
            _of_legal(logits, legal, counts).numpy(),
            *_moves(legal, counts),
            drawn.numpy(),
            temperature,
            actions.numpy(),
            log_probs.numpy(),
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
