"""Gradients of parts of a minibatch, in memory that all learner processes share.

The rollout and the weights are there once: the optimizer changes the weights in place while the
helpers wait, so nothing is copied for a minibatch but which steps it takes. Each process writes its
gradient to a row of its own. Every array begins a cache line, in every process alike, because the
last bits of a matrix product may depend on how its arguments are aligned.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from keisei.config_schema import ModelConfig, PPOConfig
from keisei.core.experience_buffer import ExperienceBuffer
from keisei.core.half_copy import gradients_there
from keisei.core.minibatch import Lesson
from keisei.core.ppo_agent import PPOAgent
from keisei.core.ppo_loss import LOSSES
from keisei.training.parallel.order_board import OrderBoard, order_board_layout
from keisei.training.parallel.shared_memory import ArraySpec, SharedMemory, size_of

_FLOATS_A_LINE = 16


class LearnerShape(NamedTuple):
    """What every learner process has to know to lay out the same memory."""

    model: ModelConfig
    ppo: PPOConfig
    mixed_precision: bool
    steps: int
    games: int
    learners: int
    minibatches: int
    """How many are computed at once."""
    patience: float
    """Seconds that orders and answers are looked out for before somebody falls asleep."""


class Part(NamedTuple):
    """Which of the chosen steps belong to a part, and what the update is about.

    `ticket` numbers the rounds of orders: an answer to one that was abandoned is told from the
    next.
    """

    ticket: int
    first: int
    behind: int
    advantage_mean: float
    advantage_scale: float
    entropy_weight: float
    version: int

    @property
    def size(self) -> int:
        """How many steps; none where a minibatch has fewer steps than there are learners."""
        return self.behind - self.first

    def encode(self) -> bytes:
        """As bytes."""
        return _PART.pack(*self)

    @classmethod
    def decode(cls, data: bytes) -> Part:
        """What `encode` gave."""
        return cls(*_PART.unpack(data))


_PART = struct.Struct("<qqqdddq")


def memory_for(agent: PPOAgent, shape: LearnerShape) -> SharedMemory:
    """Memory for an agent and its rollout; `SharedMemoryError` when there is not enough."""
    return SharedMemory(size_of(_rollout_layout(shape)) + size_of(_learning_layout(agent, shape)))


def _rollout_layout(shape: LearnerShape) -> list[ArraySpec]:
    return [ArraySpec(*array) for array in ExperienceBuffer.layout(shape.steps, shape.games)]


def _learning_layout(agent: PPOAgent, shape: LearnerShape) -> list[ArraySpec]:
    """For L learners and P numbers of weights: what does not belong to the rollout."""
    numbers = sum(_room_for(parameter) for parameter in agent.model.parameters())
    return [
        ArraySpec("weights", np.float32, (numbers,)),
        ArraySpec("gradients", np.float32, (shape.learners, numbers)),
        ArraySpec("losses", np.float32, (shape.learners, len(LOSSES))),
        ArraySpec("chosen", np.int64, (shape.minibatches * shape.steps * shape.games,)),
        *order_board_layout(shape.learners, _PART.size),
    ]


class GradientParts:
    """An agent whose weights lie in the shared memory, and the gradients beside them.

    With `keep_weights` its weights are written there; else it takes over those it finds.
    """

    def __init__(
        self, agent: PPOAgent, memory: SharedMemory, shape: LearnerShape, *, keep_weights: bool
    ) -> None:
        rollout = _rollout_layout(shape)
        arrays = memory.arrays(_learning_layout(agent, shape), size_of(rollout))
        self.buffer = ExperienceBuffer(shape.steps, shape.games, arrays=memory.arrays(rollout))
        self.chosen: NDArray[np.int64] = arrays["chosen"]
        """The numbers of the minibatches' steps, one minibatch behind the other."""
        self.board = OrderBoard(arrays, _PART.size, patience=shape.patience)
        self._agent = agent
        self._parameters = list(agent.model.parameters())
        self._gradients = torch.from_numpy(arrays["gradients"])
        self._rows = [_views(row, self._parameters) for row in self._gradients]
        self._losses = torch.from_numpy(arrays["losses"])
        self._sum = torch.zeros_like(self._gradients[0])
        self._views_of_sum = _views(self._sum, self._parameters)
        self._move_weights(torch.from_numpy(arrays["weights"]), keep=keep_weights)

    def _move_weights(self, memory: Tensor, *, keep: bool) -> None:
        for parameter, view in zip(self._parameters, _views(memory, self._parameters), strict=True):
            if keep:
                view.copy_(parameter.data)
            parameter.data = view

    def compute(self, number: int, part: Part) -> None:
        """Write losses and gradient of a part to the row of learner `number`."""
        lesson = Lesson(self.buffer, *part[3:])
        row = self._rows[number]
        _set_gradients(self._parameters, row)
        losses = self._agent.gradients(lesson, self.chosen[part.first : part.behind])
        torch.stack([losses[name] for name in LOSSES], out=self._losses[number])
        if self._parameters[0].grad is not row[0]:  # they were not written there
            torch._foreach_copy_(row, gradients_there(self._parameters))

    def add_up(self, sizes: Mapping[int, int]) -> dict[str, Tensor]:
        """Give the agent the mean of some learners' gradients; the losses too.

        sizes: of the learners' parts, by which they are weighted. Always in their order, whoever
        was ready first: the same bits every time.
        """
        with_steps = [number for number, size in sizes.items() if size]
        if len(with_steps) == 1:  # a whole minibatch: what lies there is the mean
            (number,) = with_steps
            _set_gradients(self._parameters, self._rows[number])
            return dict(zip(LOSSES, self._losses[number].clone().unbind(), strict=True))
        total = sum(sizes.values())
        self._sum.zero_()
        losses = torch.zeros_like(self._losses[0])
        for number in with_steps:
            self._sum.add_(self._gradients[number], alpha=sizes[number] / total)
            losses.add_(self._losses[number], alpha=sizes[number] / total)
        _set_gradients(self._parameters, self._views_of_sum)
        return dict(zip(LOSSES, losses.unbind(), strict=True))


def _set_gradients(parameters: Sequence[Tensor], gradients: Sequence[Tensor]) -> None:
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient


def _views(flat: Tensor, parameters: Sequence[Tensor]) -> list[Tensor]:
    """`flat` as tensors of the shapes and strides of `parameters`, each on lines of its own."""
    views, offset = [], int(flat.storage_offset())
    for parameter in parameters:
        views.append(flat.as_strided(parameter.shape, parameter.stride(), offset))
        offset += _room_for(parameter)
    return views


def _room_for(parameter: Tensor) -> int:
    return -(-parameter.numel() // _FLOATS_A_LINE) * _FLOATS_A_LINE
