"""`IQNStack`: IQN models of one shape that act and learn together, each from its own experience."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from keisei.core.iqn_model import IQNModel, Lesson, rows_of_a_pass
from keisei.core.iqn_network import (
    Weights,
    mean_quantiles,
    of_actions,
    quantile_huber_loss,
    quantiles,
)
from keisei.core.noisy_linear import layer_noise
from keisei.core.replay_buffer import Batch
from keisei.core.stacked_modules import (
    NonFiniteGradientError,
    StackedOptimizer,
    clip_each,
    failures_of,
    gradients_of,
    parts_of,
    rows_of,
    stack_parameters,
    undone_by_errors,
)
from keisei.gridworld.joint_turn import Turn
from keisei.gridworld.model import AllActions, AllStates, States
from keisei.gridworld.stack import Failure, Figures

Rows = dict[str, Tensor]
"""The parameters of N networks by name, [N, ...]."""

MOST_TOGETHER = 8
"""Models that compute at once, whose weights and activations a processor's cache still holds.

A GPU takes all at once.
"""


class IQNStack:
    """The networks of N models as rows of common tensors; all else stays the models' own."""

    def __init__(self, models: Sequence[IQNModel]) -> None:
        self._models, self._device = list(models), models[0].device
        self._together = self._device.type != "cpu"  # whether lessons are learned so
        self._most = len(models) if self._together else MOST_TOGETHER
        self._parameters = stack_parameters([model.network for model in models])
        self._targets = stack_parameters([model.target for model in models])

    @cached_property
    def _optimizer(self) -> StackedOptimizer:
        """Made when models learn together."""
        networks = [model.network for model in self._models]
        optimizers = [model.optimizer for model in self._models]
        return StackedOptimizer(list(self._parameters.values()), networks, optimizers)

    def take_actions(self, states: Mapping[int, States]) -> dict[int, NDArray[np.int64]]:
        """What `take_action` of each of these models would give: one forward pass for many.

        Eight models at once took half as long as one by one in 8 copies, all 64 of them longer.
        """
        actions, greedy = {}, {}
        for n in states:
            actions[n], chosen = self._models[n].explore(len(states[n]))
            if len(chosen):
                greedy[n] = chosen
        numbers = list(greedy)
        for i in range(0, len(numbers), self._most):
            asked = {n: (states[n], greedy[n]) for n in numbers[i : i + self._most]}
            for n, best in self._best_actions(asked).items():
                actions[n][greedy[n]] = best
        return actions

    def take_all_actions(self, states: AllStates) -> AllActions:
        """The same of all models."""
        return list(self.take_actions(dict(enumerate(states))).values())

    def remember(self, turn: Turn) -> None:
        """What `memory.add` of each model would do."""
        for model, *its_turn in zip(self._models, *turn, strict=True):
            model.memory.add(*its_turn)

    @torch.inference_mode()
    def _best_actions(
        self, asked: Mapping[int, tuple[States, NDArray[np.int64]]]
    ) -> dict[int, NDArray[np.int64]]:
        """[G] for each model, given its states [B, ...] and the G copies of them that are asked."""
        numbers = list(asked)
        size = self._parameters["seen.weight"].shape[2]
        most = max(len(chosen) for _, chosen in asked.values())
        rows = rows_of_a_pass(most, len(asked[numbers[0]][0]))
        seen = np.zeros((len(numbers), rows, size), np.float32)
        for place, (n, (states, chosen)) in enumerate(asked.items()):
            seen[place, : len(chosen)] = self._models[n].memory.current_state(states)[chosen]
        weights, network = _weights(self._rows(self._parameters, numbers)), self._models[0].network
        asked_at = (self._on_device(seen), self._taus(numbers, 1), network.frequencies)
        best = mean_quantiles(weights, *asked_at, network.wide_type).argmax(dim=-1).cpu().numpy()
        return {n: best[place, : len(asked[n][1])] for place, n in enumerate(numbers)}

    def shares(self, lessons: Mapping[int, Lesson], *, workers: int = 1) -> list[dict[int, Lesson]]:
        """The lessons, in parts that `learn` is fastest with, for so many threads at once.

        Lessons of one length go together.
        """
        by_length: dict[int, list[int]] = {}
        for number, lesson in sorted(lessons.items()):
            by_length.setdefault(len(lesson), []).append(number)
        return [
            {number: lessons[number] for number in share}
            for numbers in by_length.values()
            for share in parts_of(numbers, most=self._most, workers=workers)
        ]

    def learn(self, lessons: Mapping[int, Lesson]) -> dict[int, Figures | Failure]:
        """What `learn` of each of these models would do; threads may take different shares."""
        lengths = {len(lesson) for lesson in lessons.values()}
        if len(lengths) > 1:
            raise ValueError(f"lessons of lengths {sorted(lengths)} are learned in several shares")
        return self._learn_together(lessons) if self._together else self._learn_in_turn(lessons)

    def _learn_in_turn(self, lessons: Mapping[int, Lesson]) -> dict[int, Figures | Failure]:
        """Model by model: the steps of `IQNSteps` have little overhead that could be shared."""
        backups = {n: self._models[n].backup() for n in lessons}
        outcomes: dict[int, Figures | Failure] = {}
        with undone_by_errors(backups.values(), self._generators(lessons)):
            for n, lesson in lessons.items():
                try:
                    outcomes[n] = self._models[n].learn_without_backup(lesson)
                except NonFiniteGradientError as error:
                    outcomes[n] = Failure(str(error), "")
                    backups[n].restore()
        return outcomes

    def _generators(self, numbers: Iterable[int]) -> list[torch.Generator]:
        return [self._models[n].generator for n in numbers]

    def _learn_together(self, lessons: Mapping[int, Lesson]) -> dict[int, Figures | Failure]:
        """All models step by step at once.

        A model that fails computes on beside the others and goes back at the end, so that what they
        compute has the same shapes, and the same bits, as without the failure.
        """
        numbers = list(lessons)
        backup = self._optimizer.backup(numbers, self._targets.values())
        with undone_by_errors([backup], self._generators(numbers)):
            batches_of_steps = zip(*lessons.values(), strict=True)
            steps = [torch.stack(self._step(numbers, batches)) for batches in batches_of_steps]
            figures = torch.stack(steps).cpu()
        failed = failures_of(figures[:, 1], numbers)
        backup.restore(failed)
        losses, norms = figures.mean(0).tolist()
        means = zip(numbers, losses, norms, strict=True)
        return {n: failed.get(n) or self._models[n].figures(loss, norm) for n, loss, norm in means}

    def _step(self, numbers: list[int], batches: Sequence[Batch]) -> tuple[Tensor, Tensor]:
        """One gradient step; [N] losses and gradients' norms."""
        rows = self._rows(self._parameters, numbers)
        for row in rows.values():
            row.requires_grad_()
        losses = self._losses(numbers, rows, _together(batches))
        gradients = gradients_of(losses.sum(), list(rows.values()))
        norms = clip_each(gradients, self._models[0].config.max_grad_norm)
        self._optimizer.step(gradients, numbers)
        self._follow([self._models[n] for n in numbers])
        return losses.detach(), norms

    @torch.no_grad()
    def _follow(self, models: list[IQNModel]) -> None:
        """Move the targets of these models by the share tau towards their networks."""
        torch._foreach_lerp_(
            [weight for model in models for weight in model.target.parameters()],
            [weight for model in models for weight in model.network.parameters()],
            self._models[0].config.tau,
        )

    def _losses(self, numbers: list[int], rows: Rows, batch: Batch) -> Tensor:
        """[N] as `IQNModel.loss`, with the same random numbers."""
        states, actions = self._on_device(batch.states), self._on_device(batch.actions)
        taus = self._taus(numbers, actions.shape[1])
        said = self._quantiles(self._with_noise(numbers, rows), states, taus)
        return quantile_huber_loss(
            of_actions(said, actions), taus, self._aims(numbers, rows, batch)
        )

    @torch.no_grad()
    def _aims(self, numbers: list[int], rows: Rows, batch: Batch) -> Tensor:
        """[N, B, Q] as `IQNModel.targets`."""
        following, targets = self._on_device(batch.next_states), self._rows(self._targets, numbers)
        said = []
        for weights in (rows, targets):
            taus = self._taus(numbers, 1)
            said.append(self._quantiles(self._with_noise(numbers, weights), following, taus))
        preferred = said[0].mean(dim=-2).argmax(dim=-1)
        weights_of_aims = self._on_device(batch.discounts * (1 - batch.dones)).unsqueeze(-1)
        returns = self._on_device(batch.returns).unsqueeze(-1)
        return returns + weights_of_aims * of_actions(said[1], preferred)

    def _on_device(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(self._device)

    def _rows(self, parameters: Rows, numbers: list[int]) -> Rows:
        rows = rows_of(list(parameters.values()), numbers)
        return dict(zip(parameters, rows, strict=True))

    def _taus(self, numbers: list[int], batch_size: int) -> Tensor:
        """[N, B, Q] each model's own."""
        return torch.stack([self._models[n].taus(batch_size) for n in numbers])

    def _with_noise(self, numbers: list[int], rows: Rows) -> Weights:
        """The weights of one pass, with each model's own noise, drawn in `NoisyLinear`'s order."""
        with_noise = {}
        for layer in ("mixed", "heads"):
            weight, bias = f"{layer}.weight", f"{layer}.bias"
            noise = [layer_noise(self._models[n].generator, rows[weight][0]) for n in numbers]
            for name, values in zip((weight, bias), zip(*noise, strict=True), strict=True):
                sigma = rows[f"{name}_sigma"]
                with_noise[name] = torch.addcmul(rows[name], sigma, torch.stack(values))
        return _weights({**rows, **with_noise})

    def _quantiles(self, weights: Weights, states: Tensor, taus: Tensor) -> Tensor:
        network = self._models[0].network
        return quantiles(weights, states, taus, network.frequencies, network.wide_type)


def _weights(rows: Rows) -> Weights:
    return Weights(*((rows[f"{name}.weight"], rows[f"{name}.bias"]) for name in Weights._fields))


def _together(batches: Sequence[Batch]) -> Batch:
    """[N, B, ...] the batches of N models as one."""
    return Batch(*(np.stack(column) for column in zip(*batches, strict=True)))
