"""`IQNModel`: one agent of a world that learns by implicit quantile networks.

Off-policy: all turns go to a replay `Buffer`, and each `train_step` is one gradient step on a batch
drawn from it. Targets are n-step returns and quantiles of the target network for the action that
the online network prefers (double DQN, van Hasselt et al., 2016).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from contextlib import nullcontext
from math import prod
from typing import Annotated, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from keisei.core.exploration import SCHEDULES
from keisei.core.iqn_network import IQNetwork, of_actions, quantile_huber_loss
from keisei.core.iqn_steps import IQNSteps
from keisei.core.learner_state import (
    generator_array,
    load_generator,
    load_module,
    load_optimizer,
    module_arrays,
    named,
    optimizer_arrays,
)
from keisei.core.replay_buffer import Batch, NothingToSampleError
from keisei.core.stacked_modules import RowBackup
from keisei.core.thread_safe_buffer import ThreadSafeBuffer
from keisei.gridworld.model import States
from keisei.gridworld.stack import Figures, Stack
from keisei.prefixed_names import below

Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]


@dataclass(
    frozen=True,
    kw_only=True,
    config=ConfigDict(extra="forbid", strict=True, allow_inf_nan=False),
)
class IQNConfig:
    """How an agent learns by IQN; values are checked, and never change."""

    layer_size: Count = 250
    n_frames: Count = 5
    n_step: Count = 3
    batch_size: Count = 64
    memory_turns: Count = 1024
    learning_rate: Annotated[float, Field(gt=0, le=1)] = 2.5e-4
    tau: Share = 0.001
    gamma: Share = 0.99
    n_quantiles: Count = 12
    sync_interval: Count = 200
    max_grad_norm: Annotated[float, Field(gt=0)] = 10.0
    epsilon: Share = 0.6
    epsilon_schedule: Literal["geometric", "linear"] = "geometric"
    epsilon_decay: Share = 0.0005
    epsilon_floor: Share = 0.01
    mixed_precision: bool = True


SIZES_OF_PASSES = 4
"""Of those in which actions are chosen, whatever number of copies explores."""
Lesson = list[Batch]
"""The batches of so many train steps."""


class IQNModel:
    """The networks of one agent in B copies of its world, with their own random generators.

    device: where the networks are, which answer and learn there. Random numbers are drawn on the
    CPU, so that they are the same for any device.
    """

    def __init__(
        self,
        observation_shape: tuple[int, ...],
        actions: int,
        *,
        copies: int,
        seed: int,
        config: IQNConfig | None = None,
        device: str = "cpu",
    ) -> None:
        self.config = config or IQNConfig()
        self.device = torch.device(device)
        self._kind = (observation_shape, actions, copies)
        self.generator = torch.Generator().manual_seed(seed)
        inputs = self.config.n_frames * prod(observation_shape)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.network, self.target = (
                IQNetwork(
                    inputs,
                    actions,
                    layer_size=self.config.layer_size,
                    generator=self.generator,
                    mixed_precision=self.config.mixed_precision and device == "cpu",
                ).to(self.device)
                for _ in range(2)
            )
        self.target.requires_grad_(False)
        self._sync()
        self._weights: list[Tensor] = [*self.network.parameters()]
        self._target_weights: list[Tensor] = [*self.target.parameters()]
        self.optimizer = torch.optim.Adam(self._weights, lr=self.config.learning_rate, fused=True)
        self.memory = _memory(observation_shape, copies, seed, self.config)
        self._random = np.random.default_rng(seed)
        self._schedule = SCHEDULES[self.config.epsilon_schedule](
            start=self.config.epsilon,
            decay=self.config.epsilon_decay,
            floor=self.config.epsilon_floor,
        )
        self.epsilon = self._schedule(0)
        self._sync_period = 0

    def take_action(self, states: States) -> NDArray[np.int64]:
        """[B] an action for each of `states` [B, ...]: the best, or with epsilon a random one."""
        actions, greedy = self.explore(len(states))
        if len(greedy):
            seen = self.memory.current_state(states)
            asked = np.zeros((rows_of_a_pass(len(greedy), len(states)), seen.shape[1]), np.float32)
            asked[: len(greedy)] = seen[greedy]
            actions[greedy] = self._best_actions(self.on_device(asked))[: len(greedy)]
        return actions

    def explore(self, copies: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """[B] random actions, and the numbers of the copies in which the best is taken instead."""
        actions = self._random.integers(0, self._kind[1], copies)
        return actions, np.flatnonzero(self._random.random(copies) >= self.epsilon)

    @torch.inference_mode()
    def _best_actions(self, states: Tensor) -> NDArray[np.int64]:
        """[B] by the mean of the quantiles, without noise; one set of taus serves all states."""
        best = self.network.values(states, self.taus(1)).argmax(dim=1)
        answer: NDArray[np.int64] = best.cpu().numpy()
        return answer

    def taus(self, batch_size: int) -> Tensor:
        """[B, Q] random fractions."""
        taus = torch.rand(batch_size, self.config.n_quantiles, generator=self.generator)
        return taus.to(self.device)

    def on_device(self, array: NDArray[Any]) -> Tensor:
        """The array where the networks are; on the CPU it is not copied."""
        return torch.from_numpy(array).to(self.device)

    def start_epoch_action(self, epoch: int) -> None:
        """Episodes begin anew; epsilon falls, and the target is synced every so many epochs."""
        self.memory.start_episodes()
        self.epsilon = self._schedule(epoch)
        period = epoch // self.config.sync_interval
        if period != self._sync_period:  # a learner beside the collection does not see every epoch
            self._sync_period = period
            self._sync()

    def end_epoch_action(self, epoch: int) -> None:
        """Nothing to finish."""

    def _sync(self) -> None:
        self.target.load_state_dict(self.network.state_dict())

    def train_step(self) -> dict[str, float]:
        """Take one gradient step; nothing while there is less than a batch to draw from."""
        lesson = self.draw_lesson(1)
        return {} if lesson is None else self.learn(lesson)

    def draw_lesson(self, train_steps: int) -> Lesson | None:
        """A batch for each of so many train steps; None while there is less than one to draw."""
        if train_steps == 0 or len(self.memory) < self.config.batch_size:
            return None
        try:
            return [self.memory.sample(self.config.batch_size) for _ in range(train_steps)]
        except NothingToSampleError:
            return None

    def learn(self, lesson: Lesson) -> Figures:
        """A gradient step for each batch; means of their figures.

        If a gradient is not finite it raises a RuntimeError, and all is as before the lesson. What
        fails in the first step has changed nothing, so that one step alone needs no backup, which
        takes 0.4 ms for a network of 332,000 weights.
        """
        with self.backup() if len(lesson) > 1 else nullcontext():
            return self.learn_without_backup(lesson)

    def learn_without_backup(self, lesson: Lesson) -> Figures:
        """As `learn`; where it fails, steps before the failure have been taken."""
        take_step = self._steps(lesson).take if self.device.type == "cpu" else self._learn
        losses, norms = zip(*(take_step(batch) for batch in lesson), strict=True)
        return self.figures(sum(losses) / len(lesson), sum(norms) / len(lesson))

    def _steps(self, lesson: Lesson) -> IQNSteps:
        return IQNSteps(
            self.network,
            self.target,
            self.optimizer,
            self.generator,
            batch_size=len(lesson[0].actions),
            quantiles=self.config.n_quantiles,
            max_norm=self.config.max_grad_norm,
            tau=self.config.tau,
        )

    def backup(self) -> RowBackup:
        """Weights, those of the target too, and moments, to go back to."""
        return RowBackup(self.network, self.optimizer, self._target_weights)

    def figures(self, loss: float, grad_norm: float) -> Figures:
        """What there is to tell of a lesson, given the means of its steps."""
        return {"loss": loss, "grad_norm": grad_norm, "epsilon": self.epsilon}

    def _learn(self, batch: Batch) -> tuple[float, float]:
        """Take one gradient step by autograd; its loss and its gradient's norm."""
        loss = self.loss(batch)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        norm = nn.utils.clip_grad_norm_(
            self._weights, self.config.max_grad_norm, error_if_nonfinite=True
        )
        self.optimizer.step()
        self._follow()
        return loss.item(), float(norm)

    def loss(self, batch: Batch) -> Tensor:
        """The quantile Huber loss of a batch, differentiable; on a CPU `IQNSteps` does the same."""
        taus = self.taus(len(batch.actions))
        quantiles = self.network(self.on_device(batch.states), taus)
        predicted = of_actions(quantiles, self.on_device(batch.actions))
        return quantile_huber_loss(predicted, taus, self.targets(batch))

    @torch.no_grad()
    def targets(self, batch: Batch) -> Tensor:
        """[N, Q] returns, plus what the target network makes of the states behind them.

        One set of taus serves all states here, drawn anew for each network: their embedding would
        be a sixth of the arithmetic, and no state's target has another distribution for it.
        """
        next_states = self.on_device(batch.next_states)
        preferred = self.network(next_states, self.taus(1)).mean(dim=1).argmax(dim=1)
        quantiles = self.target(next_states, self.taus(1))
        weights = self.on_device(batch.discounts * (1 - batch.dones)).unsqueeze(1)
        returns = self.on_device(batch.returns).unsqueeze(1)
        return returns + weights * of_actions(quantiles, preferred)

    @torch.no_grad()
    def _follow(self) -> None:
        """Move the target's weights by the share tau towards the network's."""
        torch._foreach_lerp_(self._target_weights, self._weights, self.config.tau)

    def twin(self) -> IQNModel:
        """A model of the same kind with weights and moments of its own, equal to these.

        It goes on with the same random numbers, and has no memories.
        """
        twin = IQNModel(
            *self._kind[:2],
            copies=self._kind[2],
            seed=0,
            config=self.config,
            device=str(self.device),
        )
        arrays, values = self._learner_state()
        twin._load_learner(arrays, values)
        return twin

    @torch.no_grad()
    def adopt(self, other: IQNModel) -> None:
        """Take over the weights of a twin, those of its target too."""
        torch._foreach_copy_(self._weights, other._weights)
        torch._foreach_copy_(self._target_weights, other._target_weights)

    def stack_key(self) -> Hashable:
        """Equal for models that can act and learn together."""
        return type(self), self._kind, self.config, self.device

    def stack(self, models: Sequence[IQNModel]) -> Stack:
        """These models, of which this is one, as a stack."""
        from keisei.core.iqn_stack import IQNStack

        return IQNStack(models)

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Copies of all that the model goes on from: arrays by name, and JSON."""
        memory_arrays, memory_values = self.memory.state()
        arrays, values = self._learner_state()
        return {**arrays, **named("memory", memory_arrays)}, {**values, "memory": memory_values}

    def load_state(self, arrays: Mapping[str, NDArray[Any]], values: Mapping[str, Any]) -> None:
        """Go on from a copy of what `state` gave."""
        self._load_learner(arrays, values)
        self.memory.load_state(below("memory.", arrays), values["memory"])

    def _learner_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """All but the memory."""
        arrays = {
            **named("network", module_arrays(self.network)),
            **named("target", module_arrays(self.target)),
            **named("optimizer", optimizer_arrays(self.optimizer)),
            "generator": generator_array(self.generator),
        }
        return arrays, {
            "random": self._random.bit_generator.state,
            "epsilon": self.epsilon,
            "sync_period": self._sync_period,
        }

    def _load_learner(self, arrays: Mapping[str, NDArray[Any]], values: Mapping[str, Any]) -> None:
        load_module(self.network, below("network.", arrays))
        load_module(self.target, below("target.", arrays))
        load_optimizer(self.optimizer, below("optimizer.", arrays))
        load_generator(self.generator, arrays["generator"])
        self._random.bit_generator.state = values["random"]
        self.epsilon, self._sync_period = values["epsilon"], values["sync_period"]


def rows_of_a_pass(asked: int, copies: int) -> int:
    """In how many rows to ask for the best actions in `asked` of the copies; those behind are idle.

    A new number of rows is compiled for, and 1.1 MB of that kept: while epsilon falls, agents in
    256 copies would have ever more of them.
    """
    step = -(-copies // SIZES_OF_PASSES)
    return min(-(-asked // step) * step, copies)


def _memory(
    observation_shape: tuple[int, ...], copies: int, seed: int, config: IQNConfig
) -> ThreadSafeBuffer:
    return ThreadSafeBuffer(
        config.memory_turns,
        observation_shape,
        copies=copies,
        n_frames=config.n_frames,
        n_step=config.n_step,
        gamma=config.gamma,
        seed=seed,
    )
