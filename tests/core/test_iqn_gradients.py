"""`IQNGradients` without autograd: the loss and the gradient that autograd finds."""

import numpy as np
import pytest
import torch

from keisei.core.iqn_arrays import NetworkArrays
from keisei.core.iqn_gradients import IQNGradients
from keisei.core.iqn_kernels import cosines_of
from keisei.core.iqn_model import IQNConfig, IQNModel
from keisei.core.replay_buffer import Batch

SIZES = [
    {"layer_size": 40, "n_quantiles": 12},
    {"layer_size": 17, "n_quantiles": 5, "n_frames": 1},
    {"layer_size": 1, "n_quantiles": 1},
]


def disagreeing_model(seed=0, *, actions=4, mixed_precision=False, **settings):
    """A model whose target says something else than its network."""
    config = IQNConfig(mixed_precision=mixed_precision, **settings)
    model = IQNModel((7,), actions, copies=1, seed=seed, config=config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.target.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return model


def random_batch(model, seed=0, *, size=32, actions=4):
    random = np.random.default_rng(seed)
    inputs = model.network.seen.weight.shape[1]
    states, following = random.normal(size=(2, size, inputs)).astype(np.float32)
    return Batch(
        states=states,
        actions=random.integers(0, actions, size),
        returns=random.normal(0, 2, size).astype(np.float32),
        next_states=following,
        dones=(random.random(size) < 0.2).astype(np.float32),
        discounts=(0.99 ** random.integers(1, 4, size)).astype(np.float32),
    )


def by_autograd(model, batch):
    loss = model.loss(batch)
    gradients = torch.autograd.grad(loss, list(model.network.parameters()))
    return loss.item(), torch.cat([gradient.flatten() for gradient in gradients]).numpy()


def room_for(model, batch):
    quantiles = model.config.n_quantiles
    return IQNGradients(model.network, batch_size=len(batch.actions), quantiles=quantiles)


def by_hand(model, batch, room=None):
    room = room or room_for(model, batch)
    networks = NetworkArrays(model.network), NetworkArrays(model.target)
    return room.loss(*networks, batch, model.generator), room.gradient.copy()


@pytest.mark.parametrize("settings", SIZES)
@pytest.mark.parametrize("actions", [1, 2, 6])
def test_loss_and_gradient_are_those_of_autograd(settings, actions):
    model = disagreeing_model(actions=actions, **settings)
    for seed in range(3):
        batch = random_batch(model, seed, actions=actions)
        before = model.generator.get_state()
        expected_loss, expected = by_autograd(model, batch)
        after = model.generator.get_state()
        model.generator.set_state(before)
        loss, gradient = by_hand(model, batch)
        assert loss == pytest.approx(expected_loss, rel=1e-5)
        assert np.abs(gradient - expected).max() < 1e-5
        assert np.abs(expected).max() > 1e-3
        assert torch.equal(model.generator.get_state(), after)


def test_in_mixed_precision_the_gradient_differs_as_little_as_autograd_s_own():
    settings = {"layer_size": 40, "n_quantiles": 12}
    exact, mixed = (
        disagreeing_model(mixed_precision=precision, **settings) for precision in (False, True)
    )
    batch = random_batch(exact)
    before = exact.generator.get_state()
    _, expected = by_autograd(exact, batch)
    errors = []
    for gradients in (by_autograd, by_hand):
        mixed.generator.set_state(before)
        errors.append(np.linalg.norm(gradients(mixed, batch)[1] - expected))
    assert errors[1] < 1.2 * errors[0] + 1e-5 * np.linalg.norm(expected)


def test_the_same_room_serves_one_network_after_the_other():
    one, other = (disagreeing_model(seed, layer_size=16) for seed in (1, 2))
    batches = random_batch(one, 1), random_batch(other, 2)
    room = room_for(one, batches[0])
    before = other.generator.get_state()
    expected = by_hand(other, batches[1])
    other.generator.set_state(before)
    by_hand(one, batches[0], room)
    loss, gradient = by_hand(other, batches[1], room)
    assert loss == expected[0]
    assert np.array_equal(gradient, expected[1])


@pytest.mark.parametrize("column", ["states", "next_states", "returns"])
def test_what_is_not_a_number_shows_in_the_gradient(column):
    model = disagreeing_model(layer_size=16)
    batch = random_batch(model)._replace(dones=np.zeros(32, np.float32))
    getattr(batch, column)[3] = np.nan
    loss, gradient = by_hand(model, batch)
    assert np.isnan(loss)
    assert np.isnan(gradient).any()


def test_cosines_by_recurrence_are_cosines():
    taus = torch.cat([torch.rand(500), torch.tensor([0.0, 1e-6, 0.5, 1 - 1e-6])])
    cosines = np.empty((64, 504), np.float32)
    cosines_of(taus.numpy(), cosines)
    expected = torch.cos(torch.pi * taus.double() * torch.arange(1, 65)[:, None])
    assert np.abs(cosines - expected.numpy()).max() < 1e-6
