"""`PPOStack`: PPO models of one shape that act and learn together, each from its own experience."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from keisei.core.ppo_model import Lesson, PPOModel, choices_of, clipped_losses
from keisei.core.stacked_modules import (
    RowBackup,
    StackedOptimizer,
    clip_each,
    gradients_of,
    rows_of,
    stack_parameters,
    stacked_linear,
)
from keisei.gridworld.model import States
from keisei.gridworld.stack import Failure, Figures

MOST_ROWS = 1024
"""Turns in the minibatches of models that learn together."""


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
        models = {n: self._models[n] for n in states}
        seen = np.stack([model.memory.current_state(states[n]) for n, model in models.items()])
        with torch.inference_mode():
            outputs = _forward(rows_of(self._parameters, list(states)), torch.from_numpy(seen))
        fractions = torch.empty(seen.shape[:2])
        for place, model in enumerate(models.values()):
            torch.rand(seen.shape[1], generator=model.generator, out=fractions[place])
        actions, log_probs = choices_of(outputs.flatten(0, 1), fractions.flatten())
        actions, log_probs = actions.reshape(fractions.shape), log_probs.reshape(fractions.shape)
        values = outputs[..., -1].numpy()
        for place, model in enumerate(models.values()):
            model.memory.expect(seen[place], log_probs[place], values[place])
        return dict(zip(states, actions, strict=True))

    def shares(self, lessons: Mapping[int, Lesson]) -> list[dict[int, Lesson]]:
        """The lessons, in parts that `learn` is fastest with, one after the other or in threads.

        Lessons of one length go together, as many as fill a processor's cache with their
        minibatches: 16 models with minibatches of 800 took 1.2 times as long as one by one.
        """
        by_length: dict[int, list[int]] = {}
        for number, lesson in sorted(lessons.items()):
            by_length.setdefault(len(lesson.actions), []).append(number)
        shares = []
        for length, numbers in by_length.items():
            minibatch = min(length, self._models[0].config.minibatch)
            together = max(MOST_ROWS // minibatch, 1)
            shares += [numbers[i : i + together] for i in range(0, len(numbers), together)]
        return [{number: lessons[number] for number in share} for share in shares]

    def learn(self, lessons: Mapping[int, Lesson]) -> dict[int, Figures | Failure]:
        """What `learn` of each of these models would do; threads may take different shares."""
        numbers = list(lessons)
        lengths = {len(lesson.actions) for lesson in lessons.values()}
        if len(lengths) > 1:
            raise ValueError(f"lessons of lengths {sorted(lengths)} are learned in several shares")
        return self._learn_together(numbers, lessons, lengths.pop())

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
        rows = [row.requires_grad_() for row in rows_of(self._parameters, due)]
        config = self._models[due[0]].config
        losses = clipped_losses(_forward(rows, together.states), together, config)
        gradients = gradients_of(losses["loss"].sum(), rows)
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
