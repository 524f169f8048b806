"""`NoisyLinear`: noise as published while training, none otherwise, and from its own stream."""

import pytest
import torch

from keisei.core.noisy_linear import INITIAL_SIGMA, NoisyLinear


def layer(inputs=20, outputs=30, seed=0):
    return NoisyLinear(inputs, outputs, generator=torch.Generator().manual_seed(seed))


def test_out_of_training_mode_it_is_a_linear_layer():
    noisy, inputs = layer().eval(), torch.ones(4, 20)
    expected = inputs @ noisy.weight.T + noisy.bias
    assert torch.allclose(noisy(inputs), expected, atol=1e-6)
    assert torch.equal(noisy(inputs), noisy(inputs))


def test_every_pass_in_training_mode_has_new_noise_of_the_size_sigma_says():
    noisy, inputs = layer(), torch.eye(20)
    mean = noisy.eval()(inputs)
    noisy.train()
    with torch.no_grad():
        passes = torch.stack([noisy(inputs) for _ in range(200)]) - mean
    # Each output is one weight and one bias, both with noise.
    assert passes.std().item() == pytest.approx(INITIAL_SIGMA * 2**0.5, rel=0.1)
    assert passes.mean().item() == pytest.approx(0, abs=0.001)


def test_weights_begin_within_the_published_bound():
    noisy = layer(12, 500)
    for parameter in (noisy.weight, noisy.bias):
        assert 0.45 < parameter.abs().max().item() <= 0.5


def test_sigma_learns():
    noisy = layer()
    noisy(torch.ones(1, 20)).sum().backward()
    assert noisy.weight_sigma.grad.abs().sum() > 0
    assert noisy.bias_sigma.grad.abs().sum() > 0


def test_the_noise_is_its_own_generator_s_and_nobody_else_s():
    noisy, inputs = layer(seed=4), torch.ones(1, 20)
    before = torch.get_rng_state()
    first = noisy(inputs)
    assert torch.equal(torch.get_rng_state(), before)
    noisy._generator.manual_seed(4)
    torch.manual_seed(99)
    assert torch.equal(noisy(inputs), first)
    torch.set_rng_state(before)
