"""Modules of one shape as one: their parameters are rows of common tensors [N, ...].

Every module keeps its own parameters, which are views of its rows: what one learns is seen by both
sides and by nobody else. Computing with the rows at once is faster than with one after the other,
because small matrix products are mostly overhead.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import ceil, isfinite
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.adam import adam

from keisei.gridworld.stack import Failure


class NonFiniteGradientError(RuntimeError):
    """A gradient with no finite norm; what would have learned from it is as it was."""


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
    if torch.is_grad_enabled():
        outputs: Tensor = _StackedLinear.apply(inputs, weight, bias)  # type: ignore[no-untyped-call]
        return outputs
    return torch.baddbmm(bias.unsqueeze(1), inputs, weight.mT)


class _StackedLinear(torch.autograd.Function):
    """With gradients of the weights that lie in memory as the weights do.

    torch's own lie transposed, and to turn those of one IQN network takes 150 µs.
    """

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(inputs, weight)
        return torch.baddbmm(bias.unsqueeze(1), inputs, weight.mT)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        [gradient], (inputs, weight) = gradients, ctx.saved_tensors
        of_inputs = torch.bmm(gradient, weight) if ctx.needs_input_grad[0] else None
        return of_inputs, torch.bmm(gradient.mT, inputs), gradient.sum(dim=1)


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
    chosen = torch.tensor(numbers, device=parameters[0].device)
    return [parameter.detach().index_select(0, chosen) for parameter in parameters]


def parts_of(numbers: Sequence[int], *, most: int, workers: int) -> list[Sequence[int]]:
    """The numbers in parts of at most so many, and for every worker one where they suffice."""
    size = min(most, ceil(len(numbers) / workers))
    return [numbers[start : start + size] for start in range(0, len(numbers), size)]


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


def failures_of(norms: Tensor, numbers: Sequence[int]) -> dict[int, Failure]:
    """The modules whose gradients have no finite norm, by their numbers; norms: [N]."""
    return {
        number: Failure(f"the norm of the gradient is {norm}", "")
        for number, norm in zip(numbers, norms.tolist(), strict=True)
        if not isfinite(norm)
    }


class StackedOptimizer:
    """One step for the modules that are due, with the moments that each module's optimizer keeps.

    Threads may step different modules at the same time.
    """

    def __init__(
        self, modules: Sequence[nn.Module], optimizers: Sequence[torch.optim.Adam]
    ) -> None:
        self._settings = optimizers[0].param_groups[0]
        self._optimizers = list(optimizers)
        self._parameters = [list(module.parameters()) for module in modules]

    def step(
        self, gradients: Sequence[Tensor], numbers: Sequence[int], but: Container[int] = ()
    ) -> None:
        """Move the modules with these numbers by their rows of the gradients [N, ...].

        Those in `but` stay as they are.
        """
        due = [(place, number) for place, number in enumerate(numbers) if number not in but]
        slots = [slot for _, number in due for slot in self._slots(number)]
        beta1, beta2 = self._settings["betas"]
        with torch.no_grad():
            adam(
                [parameter.data for _, number in due for parameter in self._parameters[number]],
                [gradient[place] for place, _ in due for gradient in gradients],
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

    def _slots(self, number: int) -> list[dict[str, Tensor]]:
        """What a module's optimizer keeps of each parameter.

        Looked up at each step, as an optimizer that loads a state begins with others.
        """
        state = self._optimizers[number].state
        for parameter in self._parameters[number]:
            if not state.get(parameter):
                state[parameter] = first_slots(parameter)
        return [state[parameter] for parameter in self._parameters[number]]


@contextmanager
def undone_by_errors(
    backups: Iterable[RowBackup], generators: Iterable[torch.Generator]
) -> Iterator[None]:
    """Go back to the backups, and to where the generators are now, where an exception leaves it."""
    before = [(generator, generator.get_state()) for generator in generators]
    try:
        yield
    except Exception:
        for backup in backups:
            backup.restore()
        for generator, state in before:
            generator.set_state(state)
        raise


def first_slots(parameter: nn.Parameter) -> dict[str, Tensor]:
    """What Adam keeps of a parameter before its first step."""
    return {
        "step": torch.zeros((), device=parameter.device),
        "exp_avg": torch.zeros_like(parameter),
        "exp_avg_sq": torch.zeros_like(parameter),
    }


class RowBackup:
    """A module's parameters and moments, and other tensors, as they are now, to go back to.

    As a context it goes back where an exception leaves it.
    """

    def __init__(
        self, module: nn.Module, optimizer: torch.optim.Optimizer, others: Iterable[Tensor] = ()
    ) -> None:
        self._state = optimizer.state
        self._parameters = list(module.parameters())
        self._without_moments = [p for p in self._parameters if not optimizer.state.get(p)]
        moments = [t for p in self._parameters for t in optimizer.state.get(p, {}).values()]
        self._tensors = [*(p.data for p in self._parameters), *moments, *(t.data for t in others)]
        self._copies = [tensor.clone() for tensor in self._tensors]

    def restore(self) -> None:
        """Go back, in place."""
        torch._foreach_copy_(self._tensors, self._copies)
        for parameter in self._without_moments:
            self._state.pop(parameter, None)

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.restore()
