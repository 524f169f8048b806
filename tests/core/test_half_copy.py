"""`HalfCopy` computes what `torch.autocast` does, to the bit."""

import numpy as np
import pytest
import torch

from keisei.core.half_copy import HalfCopy
from keisei.core.res_tower import model_factory
from keisei.shogi.vector_shogi import VectorShogi
from tests.core.small import SMALL_MODEL, one_thread


@pytest.fixture
def positions():
    games = VectorShogi(16, seed=3)
    for _ in range(20):
        games.step(games.legal[np.arange(16), 0])
    return torch.from_numpy(games.positions.copy())


@pytest.fixture(params=[False, True], ids=["plain", "squeeze excitation"])
def model(request):
    torch.manual_seed(4)
    config = SMALL_MODEL.model_copy(update={"squeeze_excitation": request.param})
    model = model_factory(config)
    with torch.no_grad():
        for parameter in model.parameters():  # none stays at zero, as some begin
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def loss_of(logits, values):
    return (logits.square().mean() + values).sum()


def gradients(model):
    return [parameter.grad.clone() for parameter in model.parameters()]


def test_answers_and_gradients_are_those_of_autocast(model, positions):
    with one_thread():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            expected = model(positions)
        loss_of(*expected).backward()
        expected_gradients = gradients(model)
        half = HalfCopy(model)
        found = half(positions)
        half.backward(loss_of(*found))
    assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))
    assert found[0].dtype == torch.float32
    for ours, theirs in zip(gradients(model), expected_gradients, strict=True):
        assert ours.dtype == torch.float32
        assert torch.equal(ours, theirs)


def test_it_sees_weights_that_have_changed(model, positions):
    half = HalfCopy(model)
    before = half(positions)[0]
    with torch.no_grad():
        next(model.parameters()).mul_(2)
    assert not torch.equal(half(positions)[0], before)
