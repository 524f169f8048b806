"""`Muon`: steps of the same size in all directions of a matrix, and AdamW for what is no matrix.

A gradient of a layer is mostly of a few directions, and Adam follows those. Muon (Jordan et al.,
"Muon: an optimizer for hidden layers in neural networks", 2024) takes the nearest orthogonal matrix
of the momentum instead. torch's own takes no convolutions, and one matrix at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

_MOMENTUM = 0.95
_STEP_SIZE = 0.2
"""Root mean square of a step for a learning rate of 1: about that of AdamW, whose learning rates
then suit (Liu et al., "Muon is scalable for LLM training", 2025)."""
_ITERATIONS = 5
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of the polynomial that moves all singular values towards 1, soonest from small ones."""


class Muon(torch.optim.AdamW):
    """For those of `parameters` that are `matrices`, [outputs, inputs, ...]; AdamW for others."""

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        matrices: Sequence[nn.Parameter],
        *,
        lr: float,
        weight_decay: float,
    ) -> None:
        apart = {id(matrix) for matrix in matrices}
        others = [parameter for parameter in parameters if id(parameter) not in apart]
        groups = [{"params": others}, {"params": list(matrices)}]
        super().__init__(groups, lr=lr, weight_decay=weight_decay, fused=True)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Follow the gradients; those of matrices are None behind it."""
        group = self.param_groups[1]
        matrices: list[Tensor] = group["params"]
        directions = self._directions(matrices)
        torch._foreach_mul_(matrices, 1 - group["lr"] * group["weight_decay"])
        torch._foreach_add_(matrices, _orthogonal_steps(directions), alpha=-group["lr"])
        for matrix in matrices:
            matrix.grad = None  # AdamW leaves what has none as it is
        return super().step(closure)

    def _directions(self, matrices: list[Tensor]) -> list[Tensor]:
        """Where Nesterov's momentum goes."""
        gradients = [matrix.grad for matrix in matrices if matrix.grad is not None]
        momenta = [self._momentum(matrix) for matrix in matrices]
        torch._foreach_mul_(momenta, _MOMENTUM)
        torch._foreach_add_(momenta, gradients)
        return list(torch._foreach_add(gradients, momenta, alpha=_MOMENTUM))

    def _momentum(self, matrix: Tensor) -> Tensor:
        kept: dict[str, Tensor] = self.state[matrix]
        if not kept:
            kept["momentum"] = torch.zeros_like(matrix)
        return kept["momentum"]


def _orthogonal_steps(directions: list[Tensor]) -> list[Tensor]:
    """The step for each direction, for a learning rate of 1; those of one shape at once."""
    steps = list(directions)
    by_shape: dict[torch.Size, list[int]] = {}
    for number, direction in enumerate(directions):
        by_shape.setdefault(direction.shape, []).append(number)
    for shape, numbers in by_shape.items():
        # The inputs come last in memory (`model_factory`): so nothing is copied twice.
        inputs_last = [directions[number].movedim(1, -1) for number in numbers]
        stacked = torch.stack([direction.flatten(1) for direction in inputs_last])
        scaled = orthogonalised(stacked).mul_(_STEP_SIZE * max(stacked.shape[1:]) ** 0.5)
        for number, step in zip(numbers, scaled.view(-1, *inputs_last[0].shape), strict=True):
            steps[number] = step.movedim(-1, 1)
        assert steps[numbers[0]].shape == shape
    return steps


def orthogonalised(matrices: Tensor) -> Tensor:
    """[M, R, C] float32: as `matrices`, with all singular values between about 0.7 and 1.2."""
    arithmetic = torch.bfloat16 if matrices.is_cuda else torch.float32
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices
    x = (x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)).to(arithmetic)
    linear, cubic, quintic = _COEFFICIENTS
    for _ in range(_ITERATIONS):
        square = x @ x.mT
        x = torch.baddbmm(
            x, torch.baddbmm(square, square, square, beta=cubic, alpha=quintic), x, beta=linear
        )
    return (x.mT if tall else x).float().contiguous()
