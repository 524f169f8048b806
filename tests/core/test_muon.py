"""`Muon` turns the momentum of matrices, and leaves everything else to AdamW."""

import math
from copy import deepcopy

import pytest
import torch
from torch import nn

from keisei.core.muon import Muon, orthogonalised

pytestmark = pytest.mark.uncompiled
SHAPES = [(16, 8, 3, 3), (16, 8, 3, 3), (8, 40), (40, 8)]


def parameters(shapes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [nn.Parameter(torch.randn(shape, generator=generator)) for shape in shapes]


def follow(optimizer, matrices, others=(), seed=1):
    generator = torch.Generator().manual_seed(seed)
    for parameter in (*matrices, *others):
        parameter.grad = torch.randn(parameter.shape, generator=generator)
    optimizer.step()


def muon(matrices, others=None, lr=0.01, weight_decay=0.0):
    others = parameters([(3,)]) if others is None else others
    return Muon([*matrices, *others], matrices, lr=lr, weight_decay=weight_decay)


@pytest.mark.parametrize("shape", [(3, 16, 72), (2, 40, 8), (1, 8, 8)])
def test_all_singular_values_become_about_one(shape):
    generator = torch.Generator().manual_seed(0)
    [turned] = orthogonalised([torch.randn(shape, generator=generator)])
    values = torch.linalg.svdvals(turned)
    assert turned.shape == shape
    assert values.min() > 0.5
    assert values.max() < 1.3


@pytest.mark.parametrize("least", [1.0, 1e-3, 1e-8])
def test_a_matrix_is_turned_as_by_multiplying_it_itself(least):
    """However small its smallest singular value is, next to the iteration in double precision."""
    generator = torch.Generator().manual_seed(0)
    left, right = (
        torch.linalg.qr(torch.randn(shape, generator=generator, dtype=torch.float64)).Q
        for shape in ((16, 16), (144, 16))
    )
    matrix = left * torch.logspace(0, math.log10(least), 16, dtype=torch.float64) @ right.mT
    expected = matrix / matrix.norm()
    for _ in range(5):
        square = expected @ expected.mT
        polynomial = -4.7750 * square + 2.0315 * square @ square
        expected = 3.4445 * expected + polynomial @ expected
    [turned] = orthogonalised([matrix.float()[None]])
    assert (turned[0] - expected).norm() < 2e-3 * expected.norm()


def test_matrices_of_other_shapes_beside_it_do_not_change_one():
    generator = torch.Generator().manual_seed(0)
    alike = [torch.randn(2, *shape, generator=generator) for shape in ((16, 72), (40, 8), (4, 90))]
    for matrices, together in zip(alike, orthogonalised(alike), strict=True):
        [alone] = orthogonalised([matrices])
        torch.testing.assert_close(together, alone, rtol=0, atol=1e-5)


def test_a_step_has_the_size_of_the_learning_rate_and_turns_with_the_gradient():
    matrices = parameters(SHAPES)
    before = [matrix.detach().clone() for matrix in matrices]
    follow(muon(matrices), matrices)
    generator = torch.Generator().manual_seed(1)
    for matrix, old in zip(matrices, before, strict=True):
        gradient = torch.randn(matrix.shape, generator=generator)
        step = matrix.detach() - old
        assert 0.5 < step.square().mean().sqrt() / (0.2 * 0.01) < 1.3
        assert (step * gradient).sum() < 0


def test_a_convolution_is_turned_as_the_matrix_of_its_outputs():
    [convolution] = parameters([(16, 8, 3, 3)])
    [matrix] = [nn.Parameter(convolution.detach().flatten(1))]
    for parameter in (convolution, matrix):
        follow(muon([parameter]), [parameter])
    torch.testing.assert_close(convolution.detach().flatten(1), matrix.detach())


def test_the_layout_in_memory_changes_nothing():
    plain, last = parameters([(16, 8, 3, 3)]), parameters([(16, 8, 3, 3)])
    last[0].data = last[0].data.to(memory_format=torch.channels_last)
    for weights in (plain, last):
        optimizer = muon(weights)
        for seed in (1, 2):
            follow(optimizer, weights, seed=seed)
    torch.testing.assert_close(plain[0], last[0])


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_kernels_and_torch_take_the_same_steps(layout):
    shapes = [*SHAPES, (5, 7, 3, 3), (30, 2, 3, 3), (1, 4), (27, 16, 1, 1)]
    sides = []
    for way in ("_by_kernels", "_by_torch"):
        matrices = parameters(shapes)
        for matrix in matrices:
            if matrix.dim() == 4:
                matrix.data = matrix.data.to(memory_format=layout)
        optimizer = muon(matrices, weight_decay=0.1)
        optimizer._by_kernels = optimizer._by_torch = getattr(optimizer, way)
        for seed in range(4):
            follow(optimizer, matrices, seed=seed)
        sides.append((matrices, [optimizer.state[matrix]["momentum"] for matrix in matrices]))
    for kind in range(2):
        for one, other in zip(sides[0][kind], sides[1][kind], strict=True):
            assert one.stride() == other.stride()
            torch.testing.assert_close(one, other, rtol=0, atol=2e-6)


def test_momentum_that_was_loaded_in_another_layout_goes_on():
    plain, last = parameters([(16, 8, 3, 3)]), parameters([(16, 8, 3, 3)])
    optimizer, resumed = muon(plain), muon(last)
    follow(optimizer, plain)
    last[0].data = plain[0].data.to(memory_format=torch.channels_last)
    resumed.load_state_dict(deepcopy(optimizer.state_dict()))
    for one, weights in ((optimizer, plain), (resumed, last)):
        follow(one, weights, seed=2)
    torch.testing.assert_close(plain[0], last[0])


def test_momentum_outlasts_a_gradient_of_zero():
    [matrix] = parameters([(8, 40)])
    optimizer = muon([matrix])
    follow(optimizer, [matrix])
    before = matrix.detach().clone()
    matrix.grad = torch.zeros_like(matrix)
    optimizer.step()
    assert 0.5 < (matrix.detach() - before).square().mean().sqrt() / (0.2 * 0.01) < 1.3


def test_where_nothing_was_learned_only_the_decay_moves_a_matrix():
    [matrix] = parameters([(8, 40)])
    before = matrix.detach().clone()
    matrix.grad = torch.zeros_like(matrix)
    muon([matrix], lr=0.1, weight_decay=0.5).step()
    torch.testing.assert_close(matrix.detach(), before * 0.95)


def test_all_else_follows_adamw():
    ours, theirs = (parameters([(40,), (3, 5)], seed=4) for _ in range(2))
    matrices = parameters([(8, 40)])
    both = [
        (muon(matrices, ours, weight_decay=0.1), ours),
        (torch.optim.AdamW(theirs, lr=0.01, weight_decay=0.1, fused=True), theirs),
    ]
    for optimizer, others in both:
        for seed in (1, 2, 3):
            if others is ours:
                follow(optimizer, [], [*others, *matrices], seed=seed)
            else:
                follow(optimizer, [], others, seed=seed)
    for one, other in zip(ours, theirs, strict=True):
        assert torch.equal(one, other)
