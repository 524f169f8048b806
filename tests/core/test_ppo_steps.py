"""PPO without autograd: a lesson by kernels is that of torch."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from keisei.core.adam_memory import AdamMemory
from keisei.core.ppo_lessons import Turns
from keisei.core.ppo_model import PPOModel, PPOModelConfig
from keisei.core.stacked_modules import NonFiniteGradientError

INPUTS, ACTIONS, LENGTH, COPIES = 11, 4, 30, 5
FIGURES = ("loss", "policy_loss", "value_loss", "entropy", "clip_share")


def learner(hidden=(16, 8), **settings):
    """One whose policy is far from even, and whose biases are not 0."""
    config = PPOModelConfig(
        hidden=hidden, entropy=0.05, value_coefficient=0.4, learning_rate=1e-2, **settings
    )
    model = PPOModel((INPUTS,), ACTIONS, copies=COPIES, seed=3, config=config)
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.network.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return model


def random_turns(model, *, zeros=0.0, trains=1.0, version=0):
    """Of a policy that was a little different."""
    random = np.random.default_rng(1)
    shape = (LENGTH, COPIES)
    states = random.standard_normal((*shape, INPUTS)).astype(np.float32)
    states[random.random(states.shape) < zeros] = 0
    actions = random.integers(0, ACTIONS, shape)
    with torch.no_grad():
        said = model.network(torch.from_numpy(states))
    log_probs = said[..., :-1].log_softmax(-1).gather(-1, torch.from_numpy(actions)[..., None])
    noise = 0.4 * random.standard_normal(shape)
    return Turns(
        states=states,
        actions=actions,
        log_probs=(log_probs[..., 0].numpy() + noise).astype(np.float32),
        values=said[..., -1].numpy() + random.standard_normal(shape).astype(np.float32),
        rewards=random.standard_normal(shape).astype(np.float32),
        dones=random.random(shape) < 0.1,
        active=np.ones(shape, np.bool_),
        starts=np.zeros(shape, np.bool_),
        trains=random.random(shape) < trains,
        reward_divisor=1.5,
        version=version,
    )


def both_ways(model, turns):
    """The figures of a lesson by kernels and by autograd, and the models after it."""
    ours, theirs = model.twin(), model.twin()
    chosen = ours.shuffled(turns.count)
    by_kernels = ours._learn_by_kernels(turns, chosen)
    return by_kernels, theirs._learn_by_autograd(turns, chosen), ours, theirs


def assert_alike(ours, theirs):
    for one, other in zip(ours.network.parameters(), theirs.network.parameters(), strict=True):
        assert torch.allclose(one, other, atol=2e-5)
        slots = zip(
            ours.optimizer.state[one].values(), theirs.optimizer.state[other].values(), strict=True
        )
        assert all(torch.allclose(mine, its, atol=2e-5) for mine, its in slots)


@pytest.mark.uncompiled
@pytest.mark.parametrize("zeros", [0.0, 0.8])
@pytest.mark.parametrize("hidden", [(16,), (16, 8), (8, 16, 8)])
def test_a_step_is_that_of_autograd(hidden, zeros):
    model = learner(hidden, epochs=1)
    figures, expected, ours, theirs = both_ways(model, random_turns(model, zeros=zeros))
    for name in FIGURES:
        assert figures[name] == pytest.approx(expected[name], rel=1e-4, abs=1e-5), name
    assert 0.2 < figures["clip_share"] < 0.8  # some have gone too far, some come back
    assert_alike(ours, theirs)


@pytest.mark.parametrize("zeros", [0.0, 0.8])
@pytest.mark.parametrize("trains", [1.0, 0.7])
@pytest.mark.parametrize("version", [0, -1])
def test_a_lesson_of_many_steps_is_that_of_autograd(version, trains, zeros):
    model = learner(epochs=3, minibatch=20, max_grad_norm=0.5)
    turns = random_turns(model, zeros=zeros, trains=trains, version=version)
    figures, expected, ours, theirs = both_ways(model, turns)
    for name in FIGURES:
        assert figures[name] == pytest.approx(expected[name], rel=1e-3, abs=1e-4), name
    assert_alike(ours, theirs)
    again, expected, *_ = both_ways(ours, turns)  # with moments
    assert again["loss"] == pytest.approx(expected["loss"], rel=1e-3)
    assert again["loss"] < figures["loss"]


def test_a_gradient_that_is_not_finite_changes_nothing():
    model = learner()
    turns = random_turns(model)
    turns.rewards[7, 1] = np.inf
    before = [parameter.clone() for parameter in model.network.parameters()]
    with pytest.raises(NonFiniteGradientError, match="the norm of the gradient is"):
        model.learn(turns)
    assert all(map(torch.equal, before, model.network.parameters()))
    assert not model.optimizer.state


@pytest.mark.parametrize("action", [-1, ACTIONS])
def test_actions_that_there_are_not_are_refused(action):
    model = learner()
    turns = random_turns(model)
    turns.actions[3, 2] = action
    with pytest.raises(IndexError, match=r"actions are from 0 to 3, and these from .*\d to \d"):
        model.learn(turns)


def test_minibatches_are_all_turns_in_another_order_every_epoch():
    model = learner(epochs=2, minibatch=30)
    first, second = np.split(np.concatenate(model.shuffled(61)), 2)
    for order in (first, second):
        assert sorted(order.tolist()) == list(range(61))
    assert first.tolist() != second.tolist()
    assert [len(part) for part in model.shuffled(61)] == [31, 30, 31, 30]
    alike = [learner().shuffled(20), learner().shuffled(20)]
    assert np.array_equal(*alike)


def test_every_order_comes_up_as_often():
    model = learner(epochs=1)
    counts = {}
    for _ in range(3000):
        order = tuple(model.shuffled(3)[0].tolist())
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 6
    assert all(400 < count < 600 for count in counts.values())


def test_what_lies_elsewhere_is_noticed():
    model = learner()
    turns = random_turns(model)
    memory = AdamMemory(tuple(model.network.parameters()), model.optimizer)
    assert memory.is_current()
    model.learn(turns)
    assert not memory.is_current()  # somebody else took the first step, and has the moments
    memory = AdamMemory(tuple(model.network.parameters()), model.optimizer)
    model.learn(replace(turns, version=1))
    assert memory.is_current()
    assert memory.count == model._adam.count == 4
    model.load_state(*model.state())
    assert not memory.is_current()
    model.learn(replace(turns, version=2))
    assert model._adam.count == 6
    for parameter in model.network.parameters():
        parameter.data = parameter.data.clone()
    assert not model._adam.is_current()
