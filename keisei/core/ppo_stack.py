"""`PPOStack`: PPO models of one shape that act and learn together, each from its own experience."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from keisei.core.joint_fractions import JointFractions
from keisei.core.joint_rollouts import JointRollouts
from keisei.core.ppo_lessons import Lesson, Turns, clipped_losses, said_of
from keisei.core.ppo_model import PPOModel, choices_of
from keisei.core.stacked_modules import (
    NonFiniteGradientError,
    StackedOptimizer,
    clip_each,
    failures_of,
    gradients_of,
    parts_of,
    rows_of,
    stack_parameters,
    stacked_linear,
    undone_by_errors,
)
from keisei.gridworld.joint_turn import Turn
from keisei.gridworld.model import AllStates, States
from keisei.gridworld.stack import Failure, Figures

_MOST_IN_A_SHARE = 4
"""Lessons that a thread takes at once; a GPU takes all."""
_FEW_COPIES = 8
"""With more, the products are most of the work, and NumPy might share one out to threads."""


class PPOStack:
    """The networks of N models as rows of common tensors; all else stays the models' own."""

    def __init__(self, models: Sequence[PPOModel]) -> None:
        self._models = list(models)
        parameters = list(stack_parameters([model.network for model in models]).values())
        self._parameters, self._all = parameters, list(range(len(models)))
        self._device = models[0].device
        self._together = self._device.type != "cpu"  # whether lessons are learned so
        self._layers = [
            (bias.detach().unsqueeze(1), weight.detach().mT)
            for weight, bias in zip(parameters[::2], parameters[1::2], strict=True)
        ]
        """[N, 1, outputs] and [N, inputs, outputs] of each layer, views of the same weights: made
        once, as torch takes 1 µs to make one."""
        self._arrays = [] if self._together else [(b.numpy(), w.numpy()) for b, w in self._layers]
        self._ahead = JointFractions(models)
        self._memories = JointRollouts([model.memory for model in models])

    @cached_property
    def _optimizer(self) -> StackedOptimizer:
        """Made when models learn together."""
        networks = [model.network for model in self._models]
        optimizers = [model.optimizer for model in self._models]
        return StackedOptimizer(self._parameters, networks, optimizers)

    def take_actions(self, states: Mapping[int, States]) -> dict[int, NDArray[np.int64]]:
        """What `take_action` of each of these models would give: one forward pass for all."""
        numbers = list(states)
        seen = np.stack([self._models[n].memory.current_state(states[n]) for n in numbers])
        return dict(zip(numbers, self._chosen(numbers, seen), strict=True))

    def take_all_actions(self, states: AllStates) -> NDArray[np.int64]:
        """[N, B] the same of all models."""
        return self._chosen(self._all, self._memories.current_states(states))

    def _chosen(self, numbers: list[int], seen: NDArray[np.float32]) -> NDArray[np.int64]:
        """[N, B] what these models choose, given [N, B, inputs]; their memories are told of it."""
        outputs = self._answers(numbers, seen)
        actions, log_probs = choices_of(outputs, self._fractions(numbers, outputs.shape[1]))
        self._memories.expect(numbers, (seen, log_probs, outputs[..., -1]))
        return actions

    def _fractions(self, numbers: list[int], copies: int) -> NDArray[np.float32]:
        """[N, B] random numbers of these models, each from its own generator."""
        if numbers == self._all:
            return self._ahead.draw(copies)
        drawn = torch.empty(len(numbers), copies)
        for n, row in zip(numbers, drawn, strict=True):
            row.uniform_(generator=self._models[n].generator)  # as `torch.rand`, in 0.7 times
        return drawn.numpy()

    def _answers(self, numbers: list[int], states: NDArray[np.float32]) -> NDArray[np.float32]:
        """[N, B, A + 1] what the networks of these models say of `states` [N, B, inputs]."""
        if self._arrays and numbers == self._all and states.shape[1] <= _FEW_COPIES:
            return _small_forward(self._arrays, states)
        with torch.inference_mode():
            seen = torch.from_numpy(states).to(self._device)
            if numbers != self._all:
                return _forward(rows_of(self._parameters, numbers), seen).cpu().numpy()
            outputs = seen
            for layer, (bias, weight) in enumerate(self._layers):
                outputs = torch.baddbmm(bias, outputs.relu_() if layer else outputs, weight)
            return outputs.cpu().numpy()

    def remember(self, turn: Turn) -> None:
        """What `memory.add` of each model would do, at once."""
        self._memories.add(turn)

    def shares(self, lessons: Mapping[int, Turns], *, workers: int = 1) -> list[dict[int, Turns]]:
        """The lessons, in parts that `learn` is fastest with, for so many threads at once.

        Lessons of one length go together.
        """
        by_length: dict[int, list[int]] = {}
        for number, lesson in sorted(lessons.items()):
            by_length.setdefault(lesson.count, []).append(number)
        shares: list[Sequence[int]] = []
        for numbers in by_length.values():
            if self._together:
                shares.append(numbers)
            else:
                shares += parts_of(numbers, most=_MOST_IN_A_SHARE, workers=workers)
        return [{number: lessons[number] for number in share} for share in shares]

    def learn(self, lessons: Mapping[int, Turns]) -> dict[int, Figures | Failure]:
        """What `learn` of each of these models would do; threads may take different shares."""
        lengths = {lesson.count for lesson in lessons.values()}
        if len(lengths) > 1:
            raise ValueError(f"lessons of lengths {sorted(lengths)} are learned in several shares")
        if self._together:
            return self._learn_together(lessons, lengths.pop())
        return {n: self._learn_alone(n, lesson) for n, lesson in lessons.items()}

    def _learn_alone(self, number: int, lesson: Turns) -> Figures | Failure:
        """On a CPU a lesson is one kernel: there is little overhead that could be shared."""
        try:
            return self._models[number].learn(lesson)
        except NonFiniteGradientError as error:
            return Failure(str(error), "")
        except Exception as error:  # one agent's fault is not another's
            return Failure.of(error)

    def _learn_together(
        self, turns: Mapping[int, Turns], length: int
    ) -> dict[int, Figures | Failure]:
        """All models step by step at once.

        A model that fails computes on beside the others and goes back at the end, so that what they
        compute has the same shapes, and the same bits, as without the failure.
        """
        models, numbers = self._models, list(turns)
        flat, first = self._lesson_of_all(turns), length * torch.arange(len(numbers)).unsqueeze(1)
        backup = self._optimizer.backup(numbers)
        with undone_by_errors([backup], [models[n].generator for n in numbers]):
            steps = []
            for chosen in zip(*(models[n].shuffled(length) for n in numbers), strict=True):
                part = flat.part((torch.from_numpy(np.stack(chosen)) + first).flatten())
                steps.append(self._step(numbers, part))
            names = list(steps[0])
            figures = torch.stack([torch.stack(list(step.values())) for step in steps]).cpu()
        failed = failures_of(figures[:, names.index("grad_norm")], numbers)
        backup.restore(failed)
        means = dict(zip(names, figures.mean(0).tolist(), strict=True))
        del means["grad_norm"]
        outcomes: dict[int, Figures | Failure] = {**failed}
        for place, n in enumerate(numbers):
            if n not in failed:
                its_means = {name: mean[place] for name, mean in means.items()}
                outcomes[n] = models[n].learned(turns[n], its_means)
        return outcomes

    def _lesson_of_all(self, turns: Mapping[int, Turns]) -> Lesson:
        """What these models have to learn, one behind the other; see `PPOModel.lesson_of`.

        Where all have played alike, their states go to the device once and are looked at there.
        """
        models, numbers = self._models, list(turns)
        shapes = {its_turns.actions.shape for its_turns in turns.values()}
        if len(shapes) > 1 or not all(its_turns.trains.all() for its_turns in turns.values()):
            lessons = [models[n].lesson_of(turns[n]) for n in numbers]
            return Lesson(*map(torch.cat, zip(*lessons, strict=True))).to(self._device)
        states = np.stack([its_turns.states for its_turns in turns.values()])
        seen = torch.from_numpy(states).flatten(1, 2).to(self._device)
        older = [
            place for place, n in enumerate(numbers) if turns[n].version != models[n].memory.version
        ]
        said = self._said_now(
            {numbers[place]: turns[numbers[place]] for place in older},
            seen if len(older) == len(numbers) else seen[older],
        )
        gamma, gae_lambda = models[0].config.gamma, models[0].config.gae_lambda
        lessons = [
            its_turns.seen_anew(*said[n], gamma=gamma, gae_lambda=gae_lambda)
            if n in said
            else its_turns.lesson(gamma=gamma, gae_lambda=gae_lambda)
            for n, its_turns in turns.items()
        ]
        _, *columns = zip(*lessons, strict=True)  # states are on the device already
        together = (torch.cat(column).to(self._device) for column in columns)
        return Lesson(seen.flatten(0, 1), *together)

    @torch.inference_mode()
    def _said_now(
        self, turns: Mapping[int, Turns], states: Tensor
    ) -> dict[int, tuple[NDArray[np.float32], NDArray[np.float32]]]:
        """[T, B] log-probabilities and values by these models' weights of now.

        states: [N, T * B, inputs] of these turns, on the device.
        """
        if not turns:
            return {}
        actions = np.stack([its_turns.actions for its_turns in turns.values()])
        outputs = _forward(rows_of(self._parameters, list(turns)), states)
        said = said_of(outputs, torch.from_numpy(actions).flatten(1).to(self._device))
        log_probs, values = (answers.cpu().numpy().reshape(actions.shape) for answers in said)
        return dict(zip(turns, zip(log_probs, values, strict=True), strict=True))

    def _step(self, numbers: list[int], part: Lesson) -> dict[str, Tensor]:
        """One gradient step; [N] losses and gradients' norms by name.

        part: a minibatch of each model, one behind the other.
        """
        shape = (len(numbers), len(part.actions) // len(numbers))
        together = Lesson(*(column.view(*shape, *column.shape[1:]) for column in part))
        rows = [row.requires_grad_() for row in rows_of(self._parameters, numbers)]
        config = self._models[0].config
        said = _forward(rows, together.states)
        losses = clipped_losses(said, together, **config.loss_settings)
        gradients = gradients_of(losses["loss"].sum(), rows)
        norms = clip_each(gradients, config.max_grad_norm)
        self._optimizer.step(gradients, numbers)
        return {**{name: value.detach() for name, value in losses.items()}, "grad_norm": norms}


def _small_forward(
    layers: Sequence[tuple[NDArray[np.float32], NDArray[np.float32]]], states: NDArray[np.float32]
) -> NDArray[np.float32]:
    """As `_forward`, of few rows: NumPy has less to do before and after a product than torch."""
    outputs = states
    for layer, (bias, weight) in enumerate(layers):
        if layer:
            np.maximum(outputs, 0, out=outputs)
        outputs = np.matmul(outputs, weight)
        outputs += bias
    return outputs


def _forward(parameters: Sequence[Tensor], states: Tensor) -> Tensor:
    """[N, B, A + 1] what the networks say of `states` [N, B, inputs]; see `ActorCritic`."""
    outputs = states
    for layer in range(0, len(parameters), 2):
        if layer:
            outputs = torch.relu(outputs)
        outputs = stacked_linear(outputs, parameters[layer], parameters[layer + 1])
    return outputs
