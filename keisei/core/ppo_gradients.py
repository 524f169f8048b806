"""`PPOGradients`: PPO's losses and their gradient on a CPU, without autograd.

Between the matrix products, which are torch's, each kernel of `ppo_kernels` does in one pass what
autograd does in many, and all arrays are used again from step to step. `clipped_losses` says the
same in the language of torch.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from keisei.core.ppo_kernels import clipped_gradient, rectified_backward
from keisei.core.ppo_lessons import Lesson

LOSSES = ("loss", "policy_loss", "value_loss", "entropy", "clip_share")


class PPOGradients:
    """The passes of one network over minibatches of one lesson.

    parameters: weight [outputs, inputs] and bias [outputs] of each layer, in their order.
    gradient: [M] by all of them, in the same order, as of the last `add_losses`.
    """

    def __init__(
        self,
        parameters: Sequence[Tensor],
        lesson: Lesson,
        *,
        clip: float,
        entropy: float,
        value_coefficient: float,
    ) -> None:
        self._weights = [weight.detach() for weight in parameters[::2]]
        self._layers = [
            (bias.detach(), weight.mT)
            for bias, weight in zip(parameters[1::2], self._weights, strict=True)
        ]
        self._states = lesson.states
        self._columns = tuple(column.numpy() for column in lesson[1:])
        self._check(lesson.actions)
        self._settings = (clip, entropy, value_coefficient)
        self._rooms: dict[int, _Room] = {}
        sizes = [parameter.numel() for parameter in parameters]
        gradient = torch.empty(sum(sizes))
        self.gradient: NDArray[np.float32] = gradient.numpy()
        parts = list(zip(torch.split(gradient, sizes), parameters, strict=True))
        self._of_weights = [part.view_as(weight) for part, weight in parts[::2]]
        self._of_biases = [part.numpy() for part, _ in parts[1::2]]

    def _check(self, actions: Tensor) -> None:
        """Kernels look at no bounds: an action that there is not would read what lies beside."""
        count = len(self._weights[-1]) - 1
        if int(actions.min()) < 0 or int(actions.max()) >= count:
            raise IndexError(f"actions are from 0 to {count - 1}, not up to {int(actions.max())}")

    def add_losses(self, turns: Tensor, sums: NDArray[np.float64]) -> None:
        """Fill `gradient` with that of the loss of the turns with these numbers, [R].

        sums: [5] to which their `LOSSES` are added.
        """
        room = self._room(len(turns))
        torch.index_select(self._states, 0, turns, out=room.values[0])
        self._go_forth(room)
        said, filled = room.value_arrays[-1], (room.slope_arrays[-1], self._of_biases[-1])
        clipped_gradient(said, turns.numpy(), *self._columns, *self._settings, *filled, sums)
        self._go_back(room)

    def _go_forth(self, room: _Room) -> None:
        """Fill what each layer makes of what goes into it."""
        values = room.values
        for layer, (bias, weight) in enumerate(self._layers):
            inputs = torch.relu_(values[layer]) if layer else values[layer]
            torch.addmm(bias, inputs, weight, out=values[layer + 1])

    def _go_back(self, room: _Room) -> None:
        """Fill the gradient of each layer, from the slopes by what the last one says."""
        for layer in reversed(range(len(self._weights))):
            slopes = room.slopes[layer]
            torch.mm(slopes.mT, room.values[layer], out=self._of_weights[layer])
            if layer:
                torch.mm(slopes, self._weights[layer], out=room.slopes[layer - 1])
                passed = (room.slope_arrays[layer - 1], room.value_arrays[layer])
                rectified_backward(*passed, self._of_biases[layer - 1])

    def _room(self, turns: int) -> _Room:
        """The arrays of minibatches of this size; those of a lesson are of two sizes at most."""
        if turns not in self._rooms:
            sizes = [self._states.shape[1], *(len(weight) for weight in self._weights)]
            self._rooms[turns] = _Room(turns, sizes)
        return self._rooms[turns]


class _Room:
    """The arrays of a pass over R turns.

    values: what goes into each layer, [R, inputs], and what the last one says, [R, A + 1].
    slopes: of the loss by what each layer says, [R, outputs].
    """

    def __init__(self, turns: int, sizes: Sequence[int]) -> None:
        self.values = [torch.empty(turns, size) for size in sizes]
        self.slopes = [torch.empty(turns, size) for size in sizes[1:]]
        self.value_arrays = [values.numpy() for values in self.values]
        self.slope_arrays = [slopes.numpy() for slopes in self.slopes]
