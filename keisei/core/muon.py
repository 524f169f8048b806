"""`Muon`: steps of the same size in all directions of a matrix, and AdamW for what is no matrix.

A gradient of a layer is mostly of a few directions, and Adam follows those. Muon (Jordan et al.,
"Muon: an optimizer for hidden layers in neural networks", 2024) takes the nearest orthogonal matrix
of the momentum instead. torch's own takes no convolutions, and one matrix at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import pad

from keisei.core.muon_kernels import COEFFICIENTS, ITERATIONS, LEAST_NORM, MOMENTUM, muon_step

_STEP_SIZE = 0.2
"""Root mean square of a step for a learning rate of 1: about that of AdamW, whose learning rates
then suit (Liu et al., "Muon is scalable for LLM training", 2025)."""


class Muon(torch.optim.Optimizer):
    """For those of `parameters` that are `matrices`, [outputs, inputs, ...]; AdamW for others."""

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        matrices: Sequence[nn.Parameter],
        *,
        lr: float,
        weight_decay: float,
    ) -> None:
        settings: dict[str, Any] = {"lr": lr, "weight_decay": weight_decay}
        apart = {id(matrix) for matrix in matrices}
        others = [parameter for parameter in parameters if id(parameter) not in apart]
        self._adamw = torch.optim.AdamW(others, **settings, fused=True)
        groups = [*self._adamw.param_groups, {"params": list(matrices)}]
        super().__init__(groups, settings)
        self._share()

    def _share(self) -> None:
        """What AdamW keeps is kept here."""
        self._adamw.state, self._adamw.param_groups = self.state, self.param_groups[:1]

    def __setstate__(self, state: dict[str, Any]) -> None:
        """As `load_state_dict` asks for."""
        super().__setstate__(state)
        self._share()

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """Follow the gradients of all parameters."""
        assert closure is None
        self._adamw.step()
        group = self.param_groups[1]
        follow = self._by_kernels if group["params"][0].device.type == "cpu" else self._by_torch
        follow(group["params"], group["lr"], group["weight_decay"])

    def _by_kernels(self, matrices: list[Tensor], rate: float, decay: float) -> None:
        """One matrix after the other."""
        for matrix in matrices:
            assert matrix.grad is not None
            tensors = (matrix, self._momentum(matrix), _like(matrix, matrix.grad))
            weight, momentum, gradient = (_in_place(tensor) for tensor in tensors)
            muon_step(weight, momentum, gradient, rate, decay, _step_size(weight.shape))

    def _by_torch(self, matrices: list[Tensor], rate: float, decay: float) -> None:
        """All at once."""
        steps = _orthogonal_steps(self._directions(matrices))
        torch._foreach_mul_(matrices, 1 - rate * decay)
        torch._foreach_add_(matrices, steps, alpha=-rate)

    def _directions(self, matrices: list[Tensor]) -> list[Tensor]:
        """Where Nesterov's momentum goes."""
        gradients = [matrix.grad for matrix in matrices if matrix.grad is not None]
        momenta = [self._momentum(matrix) for matrix in matrices]
        torch._foreach_mul_(momenta, MOMENTUM)
        torch._foreach_add_(momenta, gradients)
        return list(torch._foreach_add(gradients, momenta, alpha=MOMENTUM))

    def _momentum(self, matrix: Tensor) -> Tensor:
        kept: dict[str, Tensor] = self.state[matrix]
        momentum = kept.get("momentum")
        kept["momentum"] = torch.zeros_like(matrix) if momentum is None else _like(matrix, momentum)
        return kept["momentum"]


def _step_size(shape: Sequence[int]) -> float:
    """Of a matrix [R, C] in each of its directions, for a learning rate of 1."""
    return float(_STEP_SIZE * max(shape) ** 0.5)


def _orthogonal_steps(directions: list[Tensor]) -> list[Tensor]:
    """The step for each direction, for a learning rate of 1."""
    by_shape: dict[torch.Size, list[int]] = {}
    for number, direction in enumerate(directions):
        by_shape.setdefault(direction.shape, []).append(number)
    alike = [torch.stack([_matrix(directions[n]) for n in by_shape[shape]]) for shape in by_shape]
    steps = list(directions)
    for (shape, numbers), turned in zip(by_shape.items(), orthogonalised(alike), strict=True):
        scaled = turned * _step_size(turned.shape[1:])
        outputs, inputs, *kernel = shape
        for number, step in zip(numbers, scaled, strict=True):
            steps[number] = step.view(outputs, *kernel, inputs).movedim(-1, 1)
    return steps


def _matrix(weight: Tensor) -> Tensor:
    """[outputs, ...] of a weight [outputs, inputs, ...].

    Inputs last, as convolutions lie in memory (`model_factory`): the order of columns is the same
    to orthogonality, and nothing is copied.
    """
    return weight.movedim(1, -1).flatten(1)


def _like(matrix: Tensor, value: Tensor) -> Tensor:
    """A value that lies in memory as the matrix does."""
    return value if value.stride() == matrix.stride() else torch.empty_like(matrix).copy_(value)


def _in_place(weight: Tensor) -> NDArray[np.float32]:
    """[outputs, ...] the memory of a weight, however convolutions lie there."""
    weight = weight.detach()
    rows = weight.flatten(1) if weight.is_contiguous() else _matrix(weight)
    array: NDArray[np.float32] = rows.numpy()
    return array


def orthogonalised(alike: list[Tensor]) -> list[Tensor]:
    """Each [M, R, C] float32 with all singular values that are not 0 between about 0.7 and 1.2.

    An iteration multiplies a matrix X from the left by a polynomial of X X'. All these polynomials
    follow from the first X X', a small square matrix, so that X itself is multiplied only twice: a
    fifth of the time on a CPU. Zeros around a square matrix change nothing, so those of all shapes
    are one batch: the products are so small that a GPU takes as long for one as for all.
    """
    wide = [_scaled(m if m.shape[1] <= m.shape[2] else m.mT) for m in alike]
    rows = max(m.shape[1] for m in wide)
    square = torch.cat([pad(m @ m.mT, (0, rows - m.shape[1]) * 2) for m in wide])
    linear, cubic, quintic = COEFFICIENTS
    unit = linear * torch.eye(rows, device=square.device)
    factor = unit / linear
    for _ in range(ITERATIONS):
        polynomial = torch.baddbmm(square, square, square, beta=cubic, alpha=quintic) + unit
        factor = polynomial @ factor
        square = polynomial @ square @ polynomial
    parts = torch.split(factor, [len(m) for m in wide])
    turned = [part[:, : m.shape[1], : m.shape[1]] @ m for part, m in zip(parts, wide, strict=True)]
    return [
        part if part.shape == m.shape else part.mT.contiguous()
        for part, m in zip(turned, alike, strict=True)
    ]


def _scaled(matrices: Tensor) -> Tensor:
    """With singular values up to 1."""
    scaled: Tensor = matrices / matrices.norm(dim=(1, 2), keepdim=True).clamp(min=LEAST_NORM)
    return scaled
