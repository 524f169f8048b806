"""`IQNSteps`: what autograd, clipping, torch's Adam and a slow target do, step by step."""

import numpy as np
import pytest
import torch

from keisei.core.iqn_model import IQNModel
from keisei.core.stacked_modules import NonFiniteGradientError
from tests.core.small import bits
from tests.core.test_iqn_gradients import disagreeing_model, random_batch


def pair(**settings):
    """Two equal models; one learns with the kernels, the other with autograd."""
    settings = {"layer_size": 24, "learning_rate": 0.003, "tau": 0.05, **settings}
    return [disagreeing_model(**settings) for _ in range(2)]


def learn_both_ways(by_hand, by_autograd, *, steps):
    lesson = [random_batch(by_hand, seed) for seed in range(steps)]
    figures = by_hand.learn(lesson)
    expected = [by_autograd._learn(batch) for batch in lesson]
    return figures, by_autograd.figures(*np.mean(expected, axis=0))


def learned(model):
    arrays, _ = model.state()
    return {name: array for name, array in arrays.items() if not name.startswith("memory")}


def assert_alike(one, other, tolerance):
    one, other = learned(one), learned(other)
    assert list(one) == list(other)
    for name, array in one.items():
        assert np.allclose(array, other[name], rtol=0, atol=tolerance), name


@pytest.mark.parametrize("max_norm", [0.05, 10.0])
def test_twenty_steps_are_those_of_autograd_and_torch_s_adam(max_norm):
    models = pair(max_grad_norm=max_norm)
    figures, expected = learn_both_ways(*models, steps=20)
    assert figures == pytest.approx(expected, rel=1e-4)
    assert_alike(*models, tolerance=1e-5)


def test_in_mixed_precision_they_are_nearly_the_same():
    models = pair(mixed_precision=True, learning_rate=0.0003)
    figures, expected = learn_both_ways(*models, steps=20)
    assert figures == pytest.approx(expected, rel=0.01)
    assert_alike(*models, tolerance=0.003)


def test_both_ways_can_take_turns():
    models = pair()
    batches = [random_batch(models[0], seed) for seed in range(6)]
    for number, batch in enumerate(batches):
        for model, first in zip(models, (0, 1), strict=True):
            model.learn([batch]) if number % 2 == first else model._learn(batch)
    assert_alike(*models, tolerance=1e-5)


def test_the_same_steps_always_have_the_same_bits():
    models = pair(mixed_precision=True)
    for model in models:
        model.learn([random_batch(model, seed) for seed in range(5)])
    assert bits(learned(models[0])) == bits(learned(models[1]))


def test_a_gradient_that_is_not_finite_changes_nothing():
    model, _ = pair()
    batch = random_batch(model)
    wrong = batch._replace(returns=np.full_like(batch.returns, np.nan))
    before = learned(model)
    with pytest.raises(NonFiniteGradientError, match="the norm of the gradient is nan"):
        model.learn([wrong])
    after = learned(model)
    assert bits({**after, "generator": before["generator"]}) == bits(before)


def test_a_network_that_learned_here_goes_on_in_a_model_of_its_own():
    model, _ = pair()
    model.learn([random_batch(model)])
    other = IQNModel((7,), 4, copies=1, seed=9, config=model.config)
    other.load_state(*model.state())
    for learner in (model, other):
        learner.learn([random_batch(model, 1)])
    assert bits(learned(model)) == bits(learned(other))
    assert torch.equal(model.optimizer.state_dict()["state"][0]["step"], torch.tensor(2.0))
