"""Modules as rows: gradients, clipping and Adam's steps are those of the modules apart."""

import numpy as np
import pytest
import torch
from torch import nn

from keisei.core.stacked_modules import (
    RowBackup,
    StackedOptimizer,
    clip_each,
    failures_of,
    gradients_of,
    parts_of,
    rows_of,
    stack_parameters,
    stacked_linear,
)
from tests.core.small import bits


def modules(count=3, seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return [nn.Linear(5, 4) for _ in range(count)]


def adams(stack, **settings):
    return [
        torch.optim.Adam(m.parameters(), **{"lr": 0.01, "fused": True} | settings) for m in stack
    ]


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_parameters_become_views_of_common_rows():
    stack = modules()
    before = [bits(module.state_dict()) for module in stack]
    stacked = stack_parameters(stack)
    assert list(stacked) == ["weight", "bias"]
    assert [bits(module.state_dict()) for module in stack] == before
    for number, module in enumerate(stack):
        for name, common in stacked.items():
            assert module.get_parameter(name).data_ptr() == common[number].data_ptr()
            assert common.requires_grad
    stack[1].requires_grad_(False).weight.fill_(7)
    assert (stacked["weight"][1] == 7).all()


def test_parameters_that_do_not_learn_are_stacked_as_such():
    stacked = stack_parameters([module.requires_grad_(False) for module in modules()])
    assert not any(common.requires_grad for common in stacked.values())


def test_stacked_layers_compute_what_each_does():
    stack, inputs = modules(), random(3, 6, 5)
    stacked = stack_parameters(stack)
    outputs = stacked_linear(inputs, stacked["weight"], stacked["bias"])
    for number, module in enumerate(stack):
        assert torch.allclose(outputs[number], module(inputs[number]), atol=1e-6)


def test_rows_that_lie_together_are_not_copied():
    common = [random(5, 2, 3), random(5, 2)]
    for numbers in ([1, 2, 3], [4], [0, 1, 2, 3, 4]):
        for row, whole in zip(rows_of(common, numbers), common, strict=True):
            assert row.data_ptr() == whole[numbers[0]].data_ptr()
            assert torch.equal(row, whole[numbers])
    for numbers in ([0, 2], [2, 1]):
        for row, whole in zip(rows_of(common, numbers), common, strict=True):
            assert torch.equal(row, whole[numbers])


def test_parts_are_no_larger_than_allowed_and_there_is_one_for_every_worker():
    assert parts_of(range(5), most=8, workers=1) == [range(5)]
    assert parts_of([3, 4, 9], most=8, workers=2) == [[3, 4], [9]]
    assert parts_of([3, 4, 9], most=1, workers=2) == [[3], [4], [9]]
    assert parts_of([3, 4], most=8, workers=16) == [[3], [4]]


@pytest.mark.parametrize("max_norm", [0.1, 1.0, 1000.0])
def test_each_module_is_clipped_as_torch_clips_one(max_norm):
    gradients = [random(3, 4, 5), 20 * random(3, 4, seed=1)]
    expected = []
    for number in range(3):
        alone = [nn.Parameter(torch.zeros_like(gradient[number])) for gradient in gradients]
        for parameter, gradient in zip(alone, gradients, strict=True):
            parameter.grad = gradient[number].clone()
        norm = nn.utils.clip_grad_norm_(alone, max_norm)
        expected.append((norm, [parameter.grad for parameter in alone]))
    norms = clip_each(gradients, max_norm)
    for number, (norm, clipped) in enumerate(expected):
        assert norms[number].item() == pytest.approx(norm.item(), rel=1e-6)
        for gradient, wanted in zip(gradients, clipped, strict=True):
            assert torch.allclose(gradient[number], wanted, rtol=1e-6)


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf])
def test_a_row_that_is_not_finite_leaves_the_others_as_they_would_be(wrong):
    clean, faulty = ([random(3, 4, 5), random(3, 4, seed=1)] for _ in range(2))
    faulty[0][1, 2, 2] = wrong
    norms, with_fault = clip_each(clean, 0.5), clip_each(faulty, 0.5)
    for number in (0, 2):
        assert norms[number] == with_fault[number]
        for gradient, other in zip(clean, faulty, strict=True):
            assert torch.equal(gradient[number], other[number])
    assert list(failures_of(with_fault[None], [7, 8, 9])) == [8]
    assert failures_of(with_fault[None], [7, 8, 9])[8].reason.endswith(str(float(wrong)))
    assert failures_of(norms[None], [7, 8, 9]) == {}


def test_gradients_lie_in_memory_as_their_parameters_do():
    """Without `contiguous` those of a transposed factor are transposed, and Adam mixes them up."""
    weight, inputs = random(3, 4, 5).requires_grad_(), random(3, 6, 5)
    loss = torch.bmm(inputs, weight.transpose(1, 2)).square().sum()
    [plain] = torch.autograd.grad(loss, [weight], retain_graph=True)
    assert plain.stride() != weight.stride()
    [gradient] = gradients_of(loss, [weight])
    assert gradient.stride() == weight.stride()
    assert torch.equal(gradient, plain)


def losses_apart(stack, inputs):
    return [module(seen).square().mean() for module, seen in zip(stack, inputs, strict=True)]


@pytest.mark.parametrize("settings", [{}, {"eps": 1e-5, "betas": (0.5, 0.7)}])
def test_steps_are_those_of_adam_for_each_module(settings):
    stack, others = modules(), modules()
    stacked = stack_parameters(stack)
    together = StackedOptimizer([*stacked.values()], stack, adams(stack, **settings))
    apart = adams(others, **settings)
    for step in range(20):
        due = [[0, 1, 2], [2], [0, 2], [1, 0]][step % 4]
        inputs = random(len(due), 6, 5, seed=step)
        rows = [row.requires_grad_() for row in rows_of(list(stacked.values()), due)]
        loss = stacked_linear(inputs, *rows).square().mean(dim=(1, 2)).sum()
        together.step(gradients_of(loss, rows), due)
        for number, alone in zip(due, losses_apart([others[n] for n in due], inputs), strict=True):
            apart[number].zero_grad()
            alone.backward()
            apart[number].step()
    for module, other in zip(stack, others, strict=True):
        for name, parameter in module.named_parameters():
            assert torch.allclose(parameter, other.get_parameter(name), rtol=0, atol=1e-6), name


def test_a_module_that_is_left_out_keeps_its_weights_and_moments():
    stack = modules()
    stacked = stack_parameters(stack)
    optimizers = adams(stack)
    together = StackedOptimizer([*stacked.values()], stack, optimizers)
    gradients = [torch.ones_like(common) for common in stacked.values()]
    together.step(gradients, [0, 1, 2])
    before = [bits(module.state_dict()) for module in stack]
    together.step([gradient[[0, 2]] for gradient in gradients], [0, 2])
    after = [bits(module.state_dict()) for module in stack]
    assert [one == other for one, other in zip(before, after, strict=True)] == [False, True, False]
    pairs = zip(optimizers, stack, strict=True)
    steps = [optimizer.state[module.bias]["step"].item() for optimizer, module in pairs]
    assert steps == [2, 1, 2]


def test_moments_that_are_loaded_are_gone_on_from():
    stack = modules(1)
    stacked = stack_parameters(stack)
    [optimizer] = optimizers = adams(stack)
    together = StackedOptimizer([*stacked.values()], stack, optimizers)
    gradients = [torch.ones_like(common) for common in stacked.values()]
    together.step(gradients, [0])
    kept = {name: value.clone() for name, value in optimizer.state[stack[0].weight].items()}
    together.step(gradients, [0])
    saved = optimizer.state_dict()
    saved["state"][0] = {name: value.clone() for name, value in kept.items()}
    optimizer.load_state_dict(saved)
    together.step(gradients, [0])
    assert optimizer.state[stack[0].weight]["step"].item() == 2
    assert optimizer.state[stack[0].bias]["step"].item() == 3


def stepped(module, optimizer, others=()):
    optimizer.zero_grad()
    module(torch.ones(1, 5)).sum().backward()
    optimizer.step()
    for tensor in others:
        tensor.data.add_(1)


@pytest.mark.parametrize("steps_before", [0, 2])
def test_a_backup_goes_back_where_an_exception_leaves_it(steps_before):
    [module], other = modules(1), torch.ones(3)
    [optimizer] = adams([module])
    for _ in range(steps_before):
        stepped(module, optimizer)
    weights, moments = bits(module.state_dict()), str(optimizer.state_dict()["state"])
    with pytest.raises(ArithmeticError), RowBackup(module, optimizer, [other]):  # noqa: PT012
        stepped(module, optimizer, [other])
        assert bits(module.state_dict()) != weights
        raise ArithmeticError
    assert bits(module.state_dict()) == weights
    assert str(optimizer.state_dict()["state"]) == moments
    assert other.tolist() == [1, 1, 1]
    with RowBackup(module, optimizer, [other]):
        stepped(module, optimizer, [other])
    assert bits(module.state_dict()) != weights
    assert other.tolist() == [2, 2, 2]
    assert np.isfinite(module.weight.detach().numpy()).all()
