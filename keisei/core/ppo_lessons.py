"""What PPO learns from: `Turns` that were played, and the `Lesson` that is made of them.

Turns that were played by older weights than those that learn are looked at anew: the learner's
weights say what they are worth, and how probable each action has become. See `Turns.renewed`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from keisei.core.rollout_kernels import advantages_and_returns

_ROWS_AT_ONCE = 1024
"""Of a pass over all turns: what a layer says of them stays in a processor's cache."""


class Lesson(NamedTuple):
    """N turns to learn from."""

    states: Tensor
    """[N, F * S]"""
    actions: Tensor
    log_probs: Tensor
    advantages: Tensor
    """[N] with mean 0 and deviation 1"""
    returns: Tensor

    def part(self, chosen: Tensor) -> Lesson:
        """The turns with these numbers."""
        chosen = chosen.to(self.states.device)
        return Lesson(*(tensor.index_select(0, chosen) for tensor in self))

    def to(self, device: torch.device) -> Lesson:
        """The same on this device."""
        return Lesson(*(tensor.to(device) for tensor in self))


@dataclass(frozen=True)
class Turns:
    """T turns of an agent in B copies, with what the policy that played them said."""

    states: NDArray[np.float32]
    """[T, B, F * S]"""
    actions: NDArray[np.int64]
    """[T, B], as all that follow; see `RolloutMemory`."""
    log_probs: NDArray[np.float32]
    values: NDArray[np.float32]
    rewards: NDArray[np.float32]
    dones: NDArray[np.bool_]
    active: NDArray[np.bool_]
    starts: NDArray[np.bool_]
    trains: NDArray[np.bool_]
    """Which of them can be trained on."""
    reward_divisor: float
    """What rewards are divided by."""
    version: int
    """Of the weights that played the first of them."""

    @property
    def count(self) -> int:
        """Of the turns that can be trained on."""
        return int(np.count_nonzero(self.trains))

    def copy(self) -> Turns:
        """The same in memory of their own."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return Turns(**{name: _copied(value) for name, value in values.items()})

    def lesson(self, *, gamma: float, gae_lambda: float) -> Lesson:
        """The turns that can be trained on; views where those are all."""
        rewards = self.rewards / np.float32(self.reward_divisor)
        advantages, returns = np.empty_like(rewards), np.empty_like(rewards)
        ends = (self.dones, self.trains)
        advantages_and_returns(rewards, self.values, *ends, gamma, gae_lambda, advantages, returns)
        advantages = _normalized(advantages, self.trains)
        arrays = (self.states, self.actions, self.log_probs, advantages, returns)
        flat = (array.reshape(self.trains.size, *array.shape[2:]) for array in arrays)
        kept = slice(None) if self.trains.all() else self.trains.reshape(-1)
        return Lesson(*(torch.from_numpy(array[kept]) for array in flat))

    def renewed_lesson(
        self, network: nn.Module, device: torch.device, *, gamma: float, gae_lambda: float
    ) -> Lesson:
        """The same, as newer weights than those that played see it."""
        parts = torch.split(torch.from_numpy(self.states).flatten(0, 1), _ROWS_AT_ONCE)
        with torch.no_grad():
            outputs = torch.cat([network(part.to(device)).cpu() for part in parts])
        said = said_of(outputs, torch.from_numpy(self.actions).flatten())
        shape = self.actions.shape
        log_probs, values = (answers.view(shape).numpy() for answers in said)
        return self.seen_anew(log_probs, values, gamma=gamma, gae_lambda=gae_lambda)

    def seen_anew(
        self,
        log_probs: NDArray[np.float32],
        values: NDArray[np.float32],
        *,
        gamma: float,
        gae_lambda: float,
    ) -> Lesson:
        """The same, given what newer weights say of the actions and the states, [T, B] each.

        Values and log-probabilities are those that the network says now, so that a step is clipped
        by how far it goes from here (Hilton et al., Batch size-invariance for policy optimization,
        2022). A turn whose action has become less probable counts less, by the ratio of both
        probabilities; one that has become more probable counts no more.
        """
        ratios = np.minimum(np.exp(log_probs - self.log_probs), np.float32(1))
        newest = replace(self, log_probs=log_probs, values=values)
        lesson = newest.lesson(gamma=gamma, gae_lambda=gae_lambda)
        weights = torch.from_numpy(ratios[self.trains])
        return lesson._replace(advantages=lesson.advantages * weights)


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


def _normalized(advantages: NDArray[np.float32], trains: NDArray[np.bool_]) -> NDArray[np.float32]:
    """With mean 0 and deviation 1 over the turns that train."""
    chosen = advantages[trains]
    if len(chosen) == 0:
        return advantages
    normalized: NDArray[np.float32] = (advantages - chosen.mean()) / (chosen.std() + 1e-8)
    return normalized


def said_of(outputs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
    """[...] log-probabilities of actions [...] and values, by what networks say, [..., A + 1]."""
    log_probs = torch.log_softmax(outputs[..., :-1], dim=-1)
    return log_probs.gather(-1, actions.unsqueeze(-1)).squeeze(-1), outputs[..., -1].contiguous()


def clipped_losses(
    outputs: Tensor, lesson: Lesson, *, clip: float, entropy: float, value_coefficient: float
) -> dict[str, Tensor]:
    """PPO's objective and its parts, each a mean over N turns, differentiable in "loss".

    outputs: [N, A + 1] what the network says of the lesson's states. Of several models at once
    every tensor has one dimension more in front, [M, N, ...], and the losses are [M].
    """
    log_probs = torch.log_softmax(outputs[..., :-1], dim=-1)
    taken = log_probs.gather(-1, lesson.actions.unsqueeze(-1)).squeeze(-1)
    ratio = (taken - lesson.log_probs).exp()
    clipped = ratio.clamp(1 - clip, 1 + clip)
    gain = torch.minimum(ratio * lesson.advantages, clipped * lesson.advantages)
    value_loss = (outputs[..., -1] - lesson.returns).square().mean(-1)
    uncertainty = -(log_probs.exp() * log_probs).sum(-1).mean(-1)
    policy_loss = -gain.mean(-1)
    return {
        "loss": value_coefficient * value_loss + policy_loss - entropy * uncertainty,
        "policy_loss": policy_loss,
        "value_loss": value_loss,
        "entropy": uncertainty,
        "clip_share": ((ratio - 1).abs() > clip).float().mean(-1),
    }
