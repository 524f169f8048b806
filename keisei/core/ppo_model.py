"""`PPOModel`: one agent of a world that learns by PPO from flat observations.

Proximal policy optimization (Schulman et al., 2017): actions are sampled from the policy, and each
`train_step` is a whole update over all turns since the last one, which are then forgotten.

The defaults were tuned on treasurehunt, 2 agents in 64 copies, by the reward after 9 seconds of one
core, two seeds each: 355 as they are, 310 with a gamma of 0.99, and 355 with tanh, which computes
0.8 times as many steps and learns more from each.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from math import isfinite, prod
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from keisei.core.actor_critic import ActorCritic
from keisei.core.adam_memory import AdamMemory
from keisei.core.joint_fractions import JointFractions
from keisei.core.learner_state import (
    generator_array,
    load_generator,
    load_module,
    load_optimizer,
    module_arrays,
    named,
    optimizer_arrays,
)
from keisei.core.ppo_lessons import Lesson, Turns, clipped_losses
from keisei.core.ppo_steps import Minibatches, take_steps
from keisei.core.return_scale import ReturnScale
from keisei.core.rollout_kernels import choose_actions, find_trainable, returns_so_far, shuffle
from keisei.core.rollout_memory import RolloutMemory
from keisei.core.stacked_modules import NonFiniteGradientError, RowBackup
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

    @property
    def discounts(self) -> dict[str, float]:
        """What advantages depend on, by name."""
        return {"gamma": self.gamma, "gae_lambda": self.gae_lambda}

    @property
    def loss_settings(self) -> dict[str, float]:
        """What the loss depends on, by name."""
        return {
            "clip": self.clip,
            "entropy": self.entropy,
            "value_coefficient": self.value_coefficient,
        }


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
        self._parameters = tuple(self.network.parameters())
        self.optimizer = torch.optim.Adam(
            self._parameters, lr=self.config.learning_rate, eps=1e-5, fused=True
        )
        self._adam: AdamMemory | None = None
        self._generator = torch.Generator().manual_seed(seed)
        self._borrower: JointFractions | None = None
        self.memory = RolloutMemory(observation_shape, copies=copies, n_frames=self.config.n_frames)
        self._scale = ReturnScale()

    @property
    def generator(self) -> torch.Generator:
        """Its random numbers. To be asked for each time: a stack may have drawn ahead meanwhile."""
        if self._borrower is not None:
            self._borrower.settle()
        return self._generator

    def lend_generator(self, borrower: JointFractions) -> torch.Generator:
        """Its generator, to draw ahead from; `generator` settles that."""
        generator, self._borrower = self.generator, borrower
        return generator

    def take_action(self, states: States) -> NDArray[np.int64]:
        """[B] an action for each of `states` [B, ...], drawn from the policy.

        What the policy said is kept for the `memory.add` that follows.
        """
        stacked = self.memory.current_state(states)
        with torch.inference_mode():
            outputs = self.network(torch.from_numpy(stacked).to(self.device)).cpu().numpy()
        fractions = torch.rand(len(stacked), generator=self.generator).numpy()
        actions, log_probs = choices_of(outputs, fractions)
        self.memory.expect(stacked, log_probs, outputs[:, -1])
        return actions

    def start_epoch_action(self, epoch: int) -> None:
        """Episodes begin anew: the worlds have been reset."""
        self.memory.start_episodes()

    def end_epoch_action(self, epoch: int) -> None:
        """Nothing to finish."""

    def train_step(self) -> dict[str, float]:
        """Learn from all turns since the last update, and forget them; the update's figures."""
        turns = self.lend_lesson(1)
        return {} if turns is None else self.learn(turns)

    def draw_lesson(self, train_steps: int) -> Turns | None:
        """A copy of all turns since the last one, which are then forgotten; None without any.

        That is what one train step learns from: with `train_steps` 0 everything stays.
        """
        turns = self.lend_lesson(train_steps)
        return None if turns is None else turns.copy()

    def lend_lesson(self, train_steps: int) -> Turns | None:
        """The same without a copy: the memory's own, good until its next turn."""
        if train_steps == 0:
            return None
        turns = self._turns()
        self.memory.clear()  # forgets, and leaves the turns where they are
        return None if turns.count == 0 else turns

    def _turns(self) -> Turns:
        """The turns stored, whose returns the scale counts in."""
        stored = self.memory.stored_turns()
        rewards, active, starts = stored["rewards"], stored["active"], stored["starts"]
        so_far, trains = np.empty_like(rewards), np.empty_like(active)
        returns_so_far(rewards, active, starts, self.config.gamma, so_far)
        self._scale.see(so_far[active])
        find_trainable(stored["dones"], active, starts, trains)
        return Turns(
            **stored,
            trains=trains,
            reward_divisor=self._scale.divisor,
            version=self.memory.first_version,
        )

    def learn(self, turns: Turns) -> dict[str, float]:
        """One update.

        NonFiniteGradientError if a gradient is not finite, and all is as before the lesson.
        """
        chosen = self.shuffled(turns.count)
        learn = self._learn_by_kernels if self.device.type == "cpu" else self._learn_by_autograd
        return self.learned(turns, learn(turns, chosen))

    def _is_older(self, turns: Turns) -> bool:
        """Whether older weights played them."""
        return turns.version != self.memory.version

    def lesson_of(self, turns: Turns) -> Lesson:
        """What there is to learn from turns; as these weights see it, if older ones played them."""
        if self._is_older(turns):
            return turns.renewed_lesson(self.network, self.device, **self.config.discounts)
        return turns.lesson(**self.config.discounts)

    def learned(self, turns: Turns, losses: dict[str, float]) -> dict[str, float]:
        """Count the update; what there is to tell of it, given the means of its losses."""
        self.memory.version += 1
        return {**losses, "reward_divisor": turns.reward_divisor}

    def _learn_by_kernels(self, turns: Turns, chosen: Minibatches) -> dict[str, float]:
        """Take a step by each minibatch of these turns; the means of the losses."""
        if self._adam is None or not self._adam.is_current():
            self._adam = AdamMemory(self._parameters, self.optimizer)
        return take_steps(
            self._adam,
            turns,
            chosen,
            anew=self._is_older(turns),
            max_norm=self.config.max_grad_norm,
            **self.config.discounts,
            **self.config.loss_settings,
        )

    def _learn_by_autograd(self, turns: Turns, chosen: Minibatches) -> dict[str, float]:
        """The same on any device."""
        lesson = self.lesson_of(turns).to(self.device)
        with RowBackup(self.network, self.optimizer):
            parts = [self._learn(lesson.part(torch.from_numpy(part))) for part in chosen]
        return {
            name: float(torch.stack([part[name] for part in parts]).mean()) for name in parts[0]
        }

    def shuffled(self, turns: int) -> list[NDArray[np.int64]]:
        """The numbers of each minibatch's turns: all of them, in another order every epoch."""
        parts = max(round(turns / self.config.minibatch), 1)
        orders = np.empty((self.config.epochs, turns), np.int64)
        # One number of torch's: whoever calls it lets other threads have the interpreter.
        shuffle(int(torch.randint(2**62, (), generator=self.generator)), orders)
        return [part for order in orders for part in np.array_split(order, parts)]

    def _learn(self, lesson: Lesson) -> dict[str, Tensor]:
        """Take one gradient step; its losses."""
        losses = clipped_losses(self.network(lesson.states), lesson, **self.config.loss_settings)
        self.optimizer.zero_grad(set_to_none=True)
        losses["loss"].backward()  # type: ignore[no-untyped-call]
        norm = nn.utils.clip_grad_norm_(self.network.parameters(), self.config.max_grad_norm)
        if not isfinite(norm):
            raise NonFiniteGradientError(f"the norm of the gradient is {float(norm)}")
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
            torch._foreach_copy_(self._parameters, other._parameters)
        self.memory.version = other.memory.version

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


def choices_of(
    outputs: NDArray[np.float32], fractions: NDArray[np.float32]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Actions drawn by `fractions` from what networks say, and their log-probabilities.

    outputs: [B, A + 1] of one network, or [N, B, A + 1]; all else [B], or [N, B].
    """
    actions = np.empty(fractions.shape, np.int64)
    log_probs = np.empty(fractions.shape, np.float32)
    said = outputs.reshape(-1, outputs.shape[-1])
    choose_actions(said, fractions.reshape(-1), actions.reshape(-1), log_probs.reshape(-1))
    return actions, log_probs
