"""Modules of one shape as one: their parameters are rows of common tensors [N, ...].

Every module keeps its own parameters, which are views of its rows: what one learns is seen by both
sides and by nobody else. Computing with the rows at once is faster than with one after the other,
because small matrix products are mostly overhead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import ceil, isfinite
from types import TracebackType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

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
    where = _place(numbers, parameters[0].device)
    return [parameter.detach()[where] for parameter in parameters]


def _place(numbers: Sequence[int], device: torch.device) -> slice | Tensor:
    """Where the rows of these modules are: an index that gives views where they lie together."""
    first, count = numbers[0], len(numbers)
    if list(numbers) == list(range(first, first + count)):
        return slice(first, first + count)
    return torch.tensor(numbers, device=device)


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
    """The modules whose gradients had no finite norm, by their numbers; norms: [steps, N]."""
    failed = {}
    for number, its_norms in zip(numbers, norms.T.tolist(), strict=True):
        wrong = [norm for norm in its_norms if not isfinite(norm)]
        if wrong:
            failed[number] = Failure(f"the norm of the gradient is {wrong[0]}", "")
    return failed


class StackedOptimizer:
    """Adam's step for the modules that are due, with the moments that each one's optimizer keeps.

    parameters: the common tensors of the modules. The moments are rows of common tensors too, and
    what the optimizers keep are views of them. Threads may step different modules at the same time.
    """

    def __init__(
        self,
        parameters: Sequence[Tensor],
        modules: Sequence[nn.Module],
        optimizers: Sequence[torch.optim.Adam],
    ) -> None:
        self._settings = optimizers[0].param_groups[0]
        self._optimizers = list(optimizers)
        self._modules = [list(module.parameters()) for module in modules]
        self._common = [_Common.beside(parameter.detach()) for parameter in parameters]
        self._slots = [
            [common.slots(number) for common in self._common] for number in range(len(modules))
        ]

    def step(self, gradients: Sequence[Tensor], numbers: Sequence[int]) -> None:
        """Move the modules with these numbers by their rows of the gradients [N, ...]."""
        for number in numbers:
            self._keep_here(number, even_without=True)
        where = _place(numbers, gradients[0].device)
        with torch.no_grad():
            for common, gradient in zip(self._common, gradients, strict=True):
                rows = _Common(*(tensor[where] for tensor in common))
                rows.follow(gradient, self._settings)
                if isinstance(where, Tensor):  # the rows are copies
                    for tensor, row in zip(common, rows, strict=True):
                        tensor[where] = row

    def backup(self, numbers: Sequence[int], others: Iterable[Tensor] = ()) -> StackBackup:
        """These modules, their moments, and their rows of other tensors [N, ...] as they are."""
        for number in numbers:
            self._keep_here(number, even_without=False)
        tensors = [tensor for common in self._common for tensor in common]
        tensors += [other.detach() for other in others]
        without = [n for n in numbers if not self._optimizers[n].state.get(self._modules[n][0])]
        return StackBackup(tensors, numbers, {n: self._forget(n) for n in without})

    def _forget(self, number: int) -> Callable[[], None]:
        def forget() -> None:
            for parameter in self._modules[number]:
                self._optimizers[number].state.pop(parameter, None)

        return forget

    def _keep_here(self, number: int, *, even_without: bool) -> None:
        """See that what a module's optimizer keeps are views of the common tensors.

        Looked at each time, as an optimizer that loads a state begins with others. Where nothing
        is kept yet, that becomes the zeros that Adam begins with, `even_without` or not at all.
        """
        state = self._optimizers[number].state
        for parameter, ours in zip(self._modules[number], self._slots[number], strict=True):
            kept = state.get(parameter)
            if kept is ours or not (kept or even_without):
                continue
            for name, tensor in ours.items():
                if kept:
                    tensor.copy_(kept[name])
                else:
                    tensor.zero_()
            state[parameter] = ours


class _Common(NamedTuple):
    """One parameter of N modules and what Adam keeps of it, [N, ...] each."""

    parameter: Tensor
    step: Tensor
    exp_avg: Tensor
    exp_avg_sq: Tensor

    @classmethod
    def beside(cls, parameter: Tensor) -> _Common:
        """What there is before the first step."""
        steps = torch.zeros(len(parameter), device=parameter.device)
        return cls(parameter, steps, torch.zeros_like(parameter), torch.zeros_like(parameter))

    def slots(self, number: int) -> dict[str, Tensor]:
        """What the optimizer of one module keeps, in torch's names."""
        kept = {"step": self.step, "exp_avg": self.exp_avg, "exp_avg_sq": self.exp_avg_sq}
        return {name: tensor[number] for name, tensor in kept.items()}

    def follow(self, gradient: Tensor, settings: dict[str, Any]) -> None:
        """Adam's step (Kingma and Ba, 2015), in place."""
        beta1, beta2 = settings["betas"]
        self.step.add_(1)
        self.exp_avg.lerp_(gradient, 1 - beta1)
        self.exp_avg_sq.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        taken = self.step.double().view(-1, *(1,) * (gradient.dim() - 1))
        of_mean, of_square = (1 - beta**taken for beta in (beta1, beta2))
        divisor = self.exp_avg_sq.sqrt().div_(of_square.sqrt().float()).add_(settings["eps"])
        self.parameter.addcmul_(self.exp_avg / divisor, (-settings["lr"] / of_mean).float())


class StackBackup:
    """Some rows of common tensors as they were, to go back to.

    undo: what else has to be done for a module that goes back, by its number.
    """

    def __init__(
        self,
        tensors: Sequence[Tensor],
        numbers: Sequence[int],
        undo: Mapping[int, Callable[[], None]],
    ) -> None:
        self._tensors, self._numbers, self._undo = list(tensors), list(numbers), undo
        where = _place(numbers, tensors[0].device)
        self._copies = [tensor[where].clone() for tensor in tensors]

    def restore(self, numbers: Iterable[int] | None = None) -> None:
        """Have these modules, or all, go back."""
        back = self._numbers if numbers is None else list(numbers)
        for number in back:
            row = self._numbers.index(number)
            for tensor, copy in zip(self._tensors, self._copies, strict=True):
                tensor[number] = copy[row]
            self._undo.get(number, lambda: None)()


@contextmanager
def undone_by_errors(
    backups: Iterable[RowBackup | StackBackup], generators: Iterable[torch.Generator]
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
