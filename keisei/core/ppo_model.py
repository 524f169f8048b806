"""`PPOModel`: one agent of a world that learns by PPO from flat observations.

Proximal policy optimization (Schulman et al., 2017): actions are sampled from the policy, and each
`train_step` is a whole update over all turns since the last one, which are then forgotten.

The defaults were tuned on treasurehunt, 2 agents in 64 copies, by the reward after 9 seconds of one
core, two seeds each: 355 as they are, 310 with a gamma of 0.99, and 355 with tanh, which computes
0.8 times as many steps and learns more from each.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from math import prod
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from keisei.core.actor_critic import ActorCritic
from keisei.core.learner_state import (
    generator_array,
    load_generator,
    load_module,
    load_optimizer,
    module_arrays,
    named,
    optimizer_arrays,
)
from keisei.core.return_scale import ReturnScale
from keisei.core.rollout_kernels import advantages_and_returns, choose_actions, returns_so_far
from keisei.core.rollout_memory import RolloutMemory
from keisei.core.stacked_modules import RowBackup
from keisei.gridworld.model import States
from keisei.gridworld.stack import Stack
from keisei.prefixed_names import below

Width = Annotated[int, Field(ge=1, le=65536, strict=True)]


@dataclass(
    frozen=True,
    kw_only=True,
    config=ConfigDict(extra="forbid", strict=True, allow_inf_nan=False),
)
class PPOModelConfig:
    """How an agent learns by PPO; values are checked, and never change."""

    hidden: Annotated[tuple[Width, ...], Field(min_length=1, strict=False)] = (128, 128)
    learning_rate: Annotated[float, Field(gt=0, le=1)] = 2e-3
    gamma: Annotated[float, Field(ge=0, le=1)] = 0.95
    gae_lambda: Annotated[float, Field(ge=0, le=1)] = 0.9
    clip: Annotated[float, Field(gt=0, lt=1)] = 0.2
    epochs: Annotated[int, Field(ge=1, le=100)] = 2
    minibatch: Annotated[int, Field(ge=1)] = 800
    entropy: Annotated[float, Field(ge=0, le=10)] = 0.01
    value_coefficient: Annotated[float, Field(ge=0, le=100)] = 0.5
    max_grad_norm: Annotated[float, Field(gt=0)] = 1.0
    n_frames: Annotated[int, Field(ge=1, le=64)] = 1


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


class PPOModel:
    """The policy of one agent in B copies of its world, with its own random generator.

    device: where the network is, which answers and learns there. Random numbers are drawn on the
    CPU, so that they are the same for any device.
    """

    def __init__(
        self,
        observation_shape: tuple[int, ...],
        actions: int,
        *,
        copies: int,
        seed: int,
        config: PPOModelConfig | None = None,
        device: str = "cpu",
    ) -> None:
        self.config = config or PPOModelConfig()
        self.device = torch.device(device)
        self._kind = (observation_shape, actions, copies)
        inputs = self.config.n_frames * prod(observation_shape)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.network = ActorCritic(inputs, actions, self.config.hidden).to(self.device)
        self.optimizer = torch.optim.Adam(
            self.network.parameters(), lr=self.config.learning_rate, eps=1e-5, fused=True
        )
        self.generator = torch.Generator().manual_seed(seed)
        self.memory = RolloutMemory(observation_shape, copies=copies, n_frames=self.config.n_frames)
        self._scale = ReturnScale()

    def take_action(self, states: States) -> NDArray[np.int64]:
        """[B] an action for each of `states` [B, ...], drawn from the policy.

        What the policy said is kept for the `memory.add` that follows.
        """
        stacked = self.memory.current_state(states)
        with torch.inference_mode():
            outputs = self.network(torch.from_numpy(stacked).to(self.device)).cpu()
        actions, log_probs = choices_of(outputs, torch.rand(len(stacked), generator=self.generator))
        self.memory.expect(stacked, log_probs, outputs[:, -1].numpy())
        return actions

    def start_epoch_action(self, epoch: int) -> None:
        """Episodes begin anew: the worlds have been reset."""
        self.memory.start_episodes()

    def end_epoch_action(self, epoch: int) -> None:
        """Nothing to finish."""

    def train_step(self) -> dict[str, float]:
        """Learn from all turns since the last update, and forget them; the update's figures."""
        lesson = self._lesson()
        self.memory.clear()  # forgets, and leaves what the lesson is made of where it is
        return {} if len(lesson.actions) == 0 else self.learn(lesson)

    def draw_lesson(self, train_steps: int) -> Lesson | None:
        """A copy of all turns since the last one, which are then forgotten; None without any.

        That is what one train step learns from: with `train_steps` 0 everything stays.
        """
        if train_steps == 0:
            return None
        lesson = self._lesson()
        self.memory.clear()
        return None if len(lesson.actions) == 0 else Lesson(*(column.clone() for column in lesson))

    def learn(self, lesson: Lesson) -> dict[str, float]:
        """One update.

        If a gradient is not finite torch raises RuntimeError, and all is as before the lesson.
        """
        sums: dict[str, float] = {}
        lesson = lesson.to(self.device)
        chosen = list(self.shuffled(len(lesson.actions)))
        with RowBackup(self.network, self.optimizer):
            parts = [self._learn(lesson.part(numbers)) for numbers in chosen]
        for losses in parts:
            sums |= {name: sums.get(name, 0.0) + float(value) for name, value in losses.items()}
        return self.figures({name: total / len(parts) for name, total in sums.items()})

    def figures(self, losses: dict[str, float]) -> dict[str, float]:
        """What there is to tell of an update, given the means of its losses."""
        return {**losses, "reward_divisor": self._scale.divisor}

    def _lesson(self) -> Lesson:
        """The turns stored that can be trained on."""
        memory, turns = self.memory, slice(self.memory.turns)
        advantages, returns, trains = self._advantages()
        chosen = advantages[trains]
        advantages = (
            (advantages - chosen.mean()) / (chosen.std() + 1e-8) if len(chosen) else advantages
        )
        columns = (memory.states, memory.actions, memory.log_probs)
        arrays = (*(column[turns] for column in columns), advantages, returns)
        flat = (array.reshape(trains.size, *array.shape[2:]) for array in arrays)
        kept = slice(None) if trains.all() else trains.reshape(-1)
        return Lesson(*(torch.from_numpy(array[kept]) for array in flat))

    def _advantages(
        self,
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_]]:
        """[T, B] each: advantages, returns, and the turns that can be trained on."""
        memory, turns, gamma = self.memory, slice(self.memory.turns), self.config.gamma
        rewards, active, starts = memory.rewards[turns], memory.active[turns], memory.starts[turns]
        so_far = np.empty_like(rewards)
        returns_so_far(rewards, active, starts, gamma, so_far)
        self._scale.see(so_far[active])
        advantages, returns = np.empty_like(rewards), np.empty_like(rewards)
        trains = np.empty_like(active)
        advantages_and_returns(
            rewards / np.float32(self._scale.divisor),
            memory.values[turns],
            memory.dones[turns],
            active,
            starts,
            gamma,
            self.config.gae_lambda,
            advantages,
            returns,
            trains,
        )
        return advantages, returns, trains

    def shuffled(self, turns: int) -> Iterator[Tensor]:
        """The numbers of each minibatch's turns: all of them, in another order every epoch."""
        parts = max(round(turns / self.config.minibatch), 1)
        for _ in range(self.config.epochs):
            yield from torch.randperm(turns, generator=self.generator).tensor_split(parts)

    def _learn(self, lesson: Lesson) -> dict[str, Tensor]:
        """Take one gradient step; torch raises RuntimeError if the gradient is not finite."""
        losses = clipped_losses(self.network(lesson.states), lesson, self.config)
        self.optimizer.zero_grad(set_to_none=True)
        losses["loss"].backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(
            self.network.parameters(), self.config.max_grad_norm, error_if_nonfinite=True
        )
        self.optimizer.step()
        return {name: value.detach() for name, value in losses.items()}

    def twin(self) -> PPOModel:
        """A model of the same kind with weights and moments of its own, equal to these."""
        twin = PPOModel(
            *self._kind[:2],
            copies=self._kind[2],
            seed=0,
            config=self.config,
            device=str(self.device),
        )
        twin.load_state(*self.state())
        twin.memory.clear()  # what it learns from is handed to it
        return twin

    def adopt(self, other: PPOModel) -> None:
        """Take over the weights of a twin."""
        with torch.no_grad():
            ours, theirs = self.network.parameters(), other.network.parameters()
            torch._foreach_copy_(list(ours), list(theirs))

    def stack_key(self) -> Hashable:
        """Equal for models that can act and learn together."""
        return type(self), self._kind, self.config, self.device

    def stack(self, models: Sequence[PPOModel]) -> Stack:
        """These models, of which this is one, as a stack."""
        from keisei.core.ppo_stack import PPOStack

        return PPOStack(models)

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Copies of all that the model goes on from: arrays by name, and JSON."""
        arrays = {
            **named("network", module_arrays(self.network)),
            **named("optimizer", optimizer_arrays(self.optimizer)),
            **named("memory", self.memory.state()),
            "generator": generator_array(self.generator),
        }
        return arrays, {"scale": self._scale.state()}

    def load_state(self, arrays: Mapping[str, NDArray[Any]], values: Mapping[str, Any]) -> None:
        """Go on from a copy of what `state` gave."""
        load_module(self.network, below("network.", arrays))
        load_optimizer(self.optimizer, below("optimizer.", arrays))
        self.memory.load_state(below("memory.", arrays))
        load_generator(self.generator, arrays["generator"])
        self._scale.load_state(values["scale"])


def choices_of(outputs: Tensor, fractions: Tensor) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """[B] actions drawn by `fractions` [B] from what a network says [B, A + 1]; [B] log-probs."""
    actions = np.empty(len(fractions), np.int64)
    log_probs = np.empty(len(fractions), np.float32)
    choose_actions(outputs.numpy(), fractions.numpy(), actions, log_probs)
    return actions, log_probs


def clipped_losses(outputs: Tensor, lesson: Lesson, config: PPOModelConfig) -> dict[str, Tensor]:
    """PPO's objective and its parts, each a mean over N turns, differentiable in "loss".

    outputs: [N, A + 1] what the network says of the lesson's states. Of several models at once
    every tensor has one dimension more in front, [M, N, ...], and the losses are [M].
    """
    log_probs = torch.log_softmax(outputs[..., :-1], dim=-1)
    taken = log_probs.gather(-1, lesson.actions.unsqueeze(-1)).squeeze(-1)
    ratio = (taken - lesson.log_probs).exp()
    clipped = ratio.clamp(1 - config.clip, 1 + config.clip)
    gain = torch.minimum(ratio * lesson.advantages, clipped * lesson.advantages)
    value_loss = (outputs[..., -1] - lesson.returns).square().mean(-1)
    entropy = -(log_probs.exp() * log_probs).sum(-1).mean(-1)
    policy_loss = -gain.mean(-1)
    loss = config.value_coefficient * value_loss + policy_loss - config.entropy * entropy
    return {
        "loss": loss,
        "policy_loss": policy_loss,
        "value_loss": value_loss,
        "entropy": entropy,
        "clip_share": ((ratio - 1).abs() > config.clip).float().mean(-1),
    }
