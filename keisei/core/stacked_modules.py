"""Modules of one shape as one: their parameters are rows of common tensors [N, ...].

Every module keeps its own parameters, which are views of its rows: what one learns is seen by both
sides and by nobody else. Computing with the rows at once is faster than with one after the other,
because small matrix products are mostly overhead.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.optim.adam import adam


def stack_parameters(modules: Sequence[nn.Module]) -> dict[str, Tensor]:
    """Common tensors [N, ...] by name; the parameters of the modules become views of their rows."""
    stacked = {}
    for name, first in modules[0].named_parameters():
        rows = [module.get_parameter(name) for module in modules]
        common = torch.stack([row.detach() for row in rows])
        for number, row in enumerate(rows):
            row.data = common[number]
        stacked[name] = common.requires_grad_(first.requires_grad)
    return stacked


def stacked_linear(inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """[N, B, outputs] of inputs [N, B, inputs], weight [N, outputs, inputs], bias [N, outputs]."""
    return torch.baddbmm(bias.unsqueeze(1), inputs, weight.transpose(1, 2))


def gradients_of(loss: Tensor, parameters: Sequence[Tensor]) -> list[Tensor]:
    """The gradient of each parameter, laid out in memory as the parameter is.

    Those of transposed matrices come transposed, and the fused optimizer pairs what lies at the
    same place in memory, whatever the strides say.
    """
    return [gradient.contiguous() for gradient in torch.autograd.grad(loss, parameters)]


def rows_of(parameters: Sequence[Tensor], numbers: Sequence[int]) -> list[Tensor]:
    """The rows of some modules: as they are where they lie together, else copies."""
    first, count = numbers[0], len(numbers)
    if list(numbers) == list(range(first, first + count)):
        return [parameter.detach()[first : first + count] for parameter in parameters]
    chosen = torch.tensor(numbers)
    return [parameter.detach().index_select(0, chosen) for parameter in parameters]


def clip_each(gradients: Sequence[Tensor], max_norm: float) -> Tensor:
    """Scale the gradients [N, ...] of each module to a norm of at most `max_norm`; [N] the norms.

    As `clip_grad_norm_` does for one module; rows that are not finite stay as they are.
    """
    parts = torch.stack([gradient.flatten(1).norm(dim=1) for gradient in gradients])
    norms: Tensor = parts.norm(dim=0)
    scales = (max_norm / (norms + 1e-6)).clamp(max=1.0).nan_to_num(nan=1.0)
    for gradient in gradients:
        gradient.mul_(scales.view(-1, *(1,) * (gradient.dim() - 1)))
    return norms


class StackedOptimizer:
    """One step for the modules that are due, with the moments that each module's optimizer keeps.

    Threads may step different modules at the same time.
    """

    def __init__(
        self, modules: Sequence[nn.Module], optimizers: Sequence[torch.optim.Adam]
    ) -> None:
        self._settings = optimizers[0].param_groups[0]
        self._parameters = [list(module.parameters()) for module in modules]
        self._slots: list[list[dict[str, Tensor]]] = []
        for parameters, own in zip(self._parameters, optimizers, strict=True):
            for parameter in parameters:
                if not own.state.get(parameter):
                    own.state[parameter] = _first_slots(parameter)
            self._slots.append([own.state[parameter] for parameter in parameters])

    def step(self, gradients: Sequence[Tensor], due: Sequence[int]) -> None:
        """Move the modules numbered `due` by their rows of the gradients [len(due), ...]."""
        slots = [slot for number in due for slot in self._slots[number]]
        beta1, beta2 = self._settings["betas"]
        with torch.no_grad():
            adam(
                [parameter.data for number in due for parameter in self._parameters[number]],
                [gradient[place] for place in range(len(due)) for gradient in gradients],
                [slot["exp_avg"] for slot in slots],
                [slot["exp_avg_sq"] for slot in slots],
                [],
                [slot["step"] for slot in slots],
                fused=True,
                amsgrad=False,
                beta1=beta1,
                beta2=beta2,
                lr=self._settings["lr"],
                weight_decay=0.0,
                eps=self._settings["eps"],
                maximize=False,
            )


def _first_slots(parameter: nn.Parameter) -> dict[str, Tensor]:
    """What Adam keeps of a parameter before its first step."""
    return {
        "step": torch.zeros(()),
        "exp_avg": torch.zeros_like(parameter),
        "exp_avg_sq": torch.zeros_like(parameter),
    }


class RowBackup:
    """A module's parameters and moments as they are now, to go back to."""

    def __init__(self, module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self._tensors = [
            tensor
            for parameter in module.parameters()
            for tensor in (parameter.data, *optimizer.state[parameter].values())
        ]
        self._copies = [tensor.clone() for tensor in self._tensors]

    def restore(self) -> None:
        """Go back, in place."""
        for tensor, copy in zip(self._tensors, self._copies, strict=True):
            tensor.copy_(copy)
