"""What a step teaches, by the numbers that the network says of it; on any processor.

The whole lesson, for which a processor needs more, is in `test_fused_network`.
"""

from itertools import product
from types import SimpleNamespace

import numba
import numpy as np
import pytest
import torch

from keisei.config_schema import PPOConfig
from keisei.core.lesson_kernels import FIGURES, Objective, Steps, _learn_value, _policy_slope
from keisei.core.packed_weights import PackedWeights
from keisei.core.ppo_loss import MOST_WEIGHT, ppo_losses
from keisei.core.res_tower import model_factory
from tests.core.small import FUSED_MODEL

pytestmark = pytest.mark.uncompiled
CONFIG = PPOConfig(clip=0.2, value_coefficient=0.7)
# How much likelier a move became since it was played, what was gained by it, and by how many
# versions the weights were older.
KINDS = list(product((-1.5, -0.3, -0.05, 0.0, 0.05, 0.3, 1.5), (-1.0, 0.4), (0, 1, 2)))
OBJECTIVE = Objective(CONFIG.clip, CONFIG.value_coefficient, 0.0, MOST_WEIGHT, 1 / len(KINDS))


@numba.njit
def policy_slope(steps, step, log_prob, objective, figures):
    return _policy_slope(steps, step, log_prob, objective, figures)


@numba.njit
def learn_value(hidden, wanted, weights, objective, by_hidden, sums, figures):
    _learn_value(hidden, wanted, weights, objective, by_hidden, sums, figures)


def losses_of(steps, log_probs, values):
    """By torch, in float64."""
    played = SimpleNamespace(log_probs=log_probs, entropies=torch.zeros_like(log_probs))
    numbers = {name: torch.from_numpy(array).double() for name, array in steps._asdict().items()}
    return ppo_losses(played, values, SimpleNamespace(**numbers), CONFIG, 0.0)


def steps_of_all_kinds():
    """Steps with those numbers alone that the loss is about, and the log-probabilities now."""
    likelier, gains, lags = np.array(KINDS, np.float32).T.copy()
    now = np.linspace(-4, -1, len(KINDS), dtype=np.float32)
    empty, nothing = np.zeros((0, 0)), np.zeros(0, np.int64)
    moves = empty.astype(np.int8), empty.astype(np.uint16), nothing, nothing
    return Steps(*moves, now - likelier, gains, np.zeros_like(now), lags), now


def test_each_slope_of_the_policy_is_that_of_autograd():
    steps, now = steps_of_all_kinds()
    leaf = torch.from_numpy(now).double().requires_grad_()
    expected = losses_of(steps, leaf, torch.zeros_like(leaf))
    expected["policy_loss"].backward()
    figures = np.zeros(FIGURES)
    slopes = [policy_slope(steps, step, now[step], OBJECTIVE, figures) for step in range(len(now))]
    assert slopes == pytest.approx(leaf.grad.tolist(), rel=1e-5, abs=1e-9)
    for number, name in ((0, "policy_loss"), (3, "kl"), (4, "clip_share")):
        assert figures[number] == pytest.approx(float(expected[name].detach()), rel=1e-5)
    assert 0.1 < np.mean(np.array(slopes) == 0) < 0.9


def test_the_value_s_layers_learn_as_by_autograd():
    random = np.random.default_rng(2)
    hidden = random.normal(size=6).astype(np.float32)  # what goes into the last ReLU
    hidden[4] = 0
    last, last_bias = (random.normal(size=size).astype(np.float32) for size in (6, 1))
    wanted, share = np.float32(-0.4), OBJECTIVE.share
    leaves = [torch.from_numpy(array).double().requires_grad_() for array in (hidden, last)]
    bias = torch.from_numpy(last_bias).double().requires_grad_()
    value = torch.tanh(torch.relu(leaves[0]) @ leaves[1] + bias[0])
    loss = (value - float(wanted)).square() * share
    (CONFIG.value_coefficient * loss).backward()

    packed = PackedWeights(model_factory(FUSED_MODEL.model_copy(update={"value_width": 6})))
    weights, sums = packed.weights, packed.gradients()
    weights.last[:], weights.last_bias[:] = last, last_bias
    for array in (sums.hidden_bias, sums.last, sums.last_bias):
        array[:] = 1  # it adds to what is there
    by_hidden, figures = np.full_like(hidden, 7), np.zeros(FIGURES)
    learn_value(hidden, wanted, weights, OBJECTIVE, by_hidden, sums, figures)
    assert by_hidden == pytest.approx(leaves[0].grad.numpy(), rel=1e-5)
    assert sums.hidden_bias - 1 == pytest.approx(leaves[0].grad.numpy(), rel=1e-4, abs=1e-6)
    assert sums.last - 1 == pytest.approx(leaves[1].grad.numpy(), rel=1e-4, abs=1e-6)
    assert sums.last_bias - 1 == pytest.approx(bias.grad.numpy(), rel=1e-4, abs=1e-6)
    assert figures[1] == pytest.approx(float(loss.detach()), rel=1e-5)
    assert 0 < np.count_nonzero(by_hidden) < 5
