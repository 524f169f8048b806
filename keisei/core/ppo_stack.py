"""`PPOStack`: PPO models of one shape that act and learn together, each from its own experience."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from keisei.core.ppo_model import Lesson, PPOModel, clipped_losses
from keisei.core.stacked_modules import (
    RowBackup,
    StackedOptimizer,
    clip_each,
    stack_parameters,
    stacked_linear,
)
from keisei.gridworld.model import States
from keisei.gridworld.stack import Failure, Figures


class PPOStack:
    """The networks of N models as rows of common tensors; all else stays the models' own."""

    def __init__(self, models: Sequence[PPOModel]) -> None:
        self._models = list(models)
        networks = [model.network for model in models]
        parameters = list(stack_parameters(networks).values())
        self._parameters = parameters
        self._optimizer = StackedOptimizer(networks, [model.optimizer for model in models])

    def take_actions(self, states: Mapping[int, States]) -> dict[int, NDArray[np.int64]]:
        """What `take_action` of each of these models would give: one forward pass for all."""
        seen = {n: self._models[n].memory.current_state(states[n]) for n in states}
        with torch.inference_mode():
            inputs = torch.from_numpy(np.stack(list(seen.values())))
            outputs = _forward(self._rows(list(seen)), inputs).numpy()
        return {
            n: self._models[n].choose(seen[n], outputs[place]) for place, n in enumerate(seen)
        }

    def _rows(self, numbers: Sequence[int]) -> list[Tensor]:
        """The parameters [len(numbers), ...] of some models: all of them as they are, or copies."""
        if len(numbers) == len(self._models):
            return self._parameters
        chosen = torch.tensor(numbers)
        return [parameter.detach().index_select(0, chosen) for parameter in self._parameters]

    def learn(self, lessons: Mapping[int, Lesson]) -> dict[int, Figures | Failure]:
        """What `learn` of each of these models would do: lessons of one length go together."""
        by_length: dict[int, list[int]] = {}
        for number, lesson in lessons.items():
            by_length.setdefault(len(lesson.actions), []).append(number)
        outcomes: dict[int, Figures | Failure] = {}
        for length, numbers in by_length.items():
            outcomes |= self._learn_together(numbers, lessons, length)
        return outcomes

    def _learn_together(
        self, numbers: list[int], lessons: Mapping[int, Lesson], length: int
    ) -> dict[int, Figures | Failure]:
        models = self._models
        backups = {n: RowBackup(models[n].network, models[n].optimizer) for n in numbers}
        sums: dict[int, dict[str, float]] = {n: {} for n in numbers}
        outcomes: dict[int, Figures | Failure] = {}
        steps = 0
        for parts in zip(*(models[n].shuffled(length) for n in numbers), strict=True):
            steps += 1
            due = [n for n in numbers if n not in outcomes]
            if not due:
                break
            chosen = dict(zip(numbers, parts, strict=True))
            norms, losses = self._step(due, [lessons[n].part(chosen[n]) for n in due])
            for place, n in enumerate(due):
                if not np.isfinite(norms[place]):
                    backups[n].restore()
                    outcomes[n] = Failure(f"the gradient's norm is {norms[place]}", "")
                for name, values in losses.items():
                    sums[n][name] = sums[n].get(name, 0.0) + float(values[place])
        for n in numbers:
            if n not in outcomes:
                means = {name: total / steps for name, total in sums[n].items()}
                outcomes[n] = models[n].figures(means)
        return outcomes

    def _step(
        self, due: list[int], parts: list[Lesson]
    ) -> tuple[NDArray[np.float32], dict[str, NDArray[np.float32]]]:
        """One gradient step of the models `due`: their gradients' norms, and losses by name."""
        together = Lesson(*(torch.stack(column) for column in zip(*parts, strict=True)))
        rows = [row.requires_grad_() for row in self._rows(due)]
        config = self._models[due[0]].config
        losses = clipped_losses(_forward(rows, together.states), together, config)
        gradients = torch.autograd.grad(losses["loss"].sum(), rows)
        norms = clip_each(gradients, config.max_grad_norm)
        finite = norms.isfinite()
        if finite.all():
            self._optimizer.step(gradients, due)
        else:
            kept = finite.nonzero().flatten()
            self._optimizer.step([g[kept] for g in gradients], [due[i] for i in kept.tolist()])
        return norms.numpy(), {name: value.detach().numpy() for name, value in losses.items()}


def _forward(parameters: Sequence[Tensor], states: Tensor) -> Tensor:
    """[N, B, A + 1] what the networks say of `states` [N, B, inputs]; see `ActorCritic`."""
    outputs = states
    for layer in range(0, len(parameters), 2):
        if layer:
            outputs = torch.relu(outputs)
        outputs = stacked_linear(outputs, parameters[layer], parameters[layer + 1])
    return outputs
