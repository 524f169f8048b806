"""PPO without autograd: the losses and gradients of kernels are those of torch."""

import numpy as np
import pytest
import torch

from keisei.core.actor_critic import ActorCritic
from keisei.core.ppo_gradients import LOSSES, PPOGradients
from keisei.core.ppo_lessons import Lesson, clipped_losses
from keisei.core.ppo_model import PPOModelConfig
from keisei.core.ppo_steps import PPOSteps
from keisei.core.stacked_modules import NonFiniteGradientError

INPUTS, ACTIONS, TURNS = 11, 4, 300
CONFIG = PPOModelConfig(clip=0.2, entropy=0.05, value_coefficient=0.4)
SETTINGS = CONFIG.loss_settings


def network(hidden=(16, 8), seed=0):
    """One whose policy is far from even, and whose biases are not 0."""
    torch.manual_seed(seed)
    made = ActorCritic(INPUTS, ACTIONS, hidden)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return made


def random_lesson(actor, seed=1):
    """Turns of a policy that was a little different."""
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(TURNS, INPUTS, generator=generator)
    actions = torch.randint(0, ACTIONS, (TURNS,), generator=generator)
    said = actor(states).detach()
    log_probs = said[:, :-1].log_softmax(1).gather(1, actions[:, None])[:, 0]
    before = log_probs + 0.4 * torch.randn(TURNS, generator=generator)
    others = torch.randn(2, TURNS, generator=generator)
    return Lesson(states, actions, before, *others)


def by_autograd(actor, lesson):
    losses = clipped_losses(actor(lesson.states), lesson, **SETTINGS)
    gradients = torch.autograd.grad(losses["loss"], list(actor.parameters()))
    return losses, torch.cat([gradient.flatten() for gradient in gradients])


def by_kernels(actor, lesson, chosen):
    gradients, sums = PPOGradients([*actor.parameters()], lesson, **SETTINGS), np.zeros(5)
    gradients.add_losses(chosen, sums)
    return dict(zip(LOSSES, sums, strict=True)), torch.from_numpy(gradients.gradient)


@pytest.mark.uncompiled
@pytest.mark.parametrize("hidden", [(16,), (16, 8), (8, 16, 8)])
def test_losses_and_gradients_of_a_minibatch_are_those_of_autograd(hidden):
    actor = network(hidden)
    lesson = random_lesson(actor)
    chosen = torch.randperm(TURNS, generator=torch.Generator().manual_seed(2))[:200]
    expected, gradient = by_autograd(actor, lesson.part(chosen))
    losses, ours = by_kernels(actor, lesson, chosen)
    for name in LOSSES:
        assert losses[name] == pytest.approx(float(expected[name].detach()), rel=1e-5, abs=1e-6)
    assert torch.allclose(ours, gradient, rtol=1e-4, atol=1e-6)
    assert 0.2 < losses["clip_share"] < 0.8


@pytest.mark.uncompiled
@pytest.mark.parametrize("advantage", [-1.0, 1.0])
@pytest.mark.parametrize("distance", [-0.5, -0.1, 0.1, 0.5])
def test_a_ratio_that_has_gone_too_far_has_no_slope_and_one_that_came_back_has(advantage, distance):
    actor = network()
    lesson = random_lesson(actor)
    said = actor(lesson.states).detach()[:, :-1].log_softmax(1)
    before = said.gather(1, lesson.actions[:, None])[:, 0] - distance
    lesson = lesson._replace(log_probs=before, advantages=torch.full((TURNS,), advantage))
    everything = torch.arange(TURNS)
    _, ours = by_kernels(actor, lesson, everything)
    _, gradient = by_autograd(actor, lesson)
    assert torch.allclose(ours, gradient, rtol=1e-4, atol=1e-6)
    without = lesson._replace(advantages=torch.zeros(TURNS))
    _, of_the_rest = by_kernels(actor, without, everything)
    too_far = abs(distance) > CONFIG.clip and (distance > 0) == (advantage > 0)
    assert torch.allclose(ours, of_the_rest, atol=1e-6) == too_far


def test_steps_are_those_of_torchs_adam_with_its_clipping():
    ours, theirs = network(), network()
    lesson = random_lesson(ours)
    optimizers = [torch.optim.Adam(n.parameters(), lr=1e-2, eps=1e-5) for n in (ours, theirs)]
    gradients = PPOGradients([*ours.parameters()], lesson, **SETTINGS)
    steps = PPOSteps([*ours.parameters()], optimizers[0], gradients, max_norm=0.5)
    clipped = 0
    for chosen in torch.arange(TURNS).tensor_split(7):
        steps.take(chosen)
        for parameter in theirs.parameters():
            parameter.grad = None
        clipped_losses(theirs(lesson.part(chosen).states), lesson.part(chosen), **SETTINGS)[
            "loss"
        ].backward()
        clipped += float(torch.nn.utils.clip_grad_norm_(theirs.parameters(), 0.5)) > 0.5
        optimizers[1].step()
    assert clipped
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-5)
        for name, slot in optimizers[0].state[one].items():
            assert torch.allclose(slot, optimizers[1].state[other][name], atol=1e-5), name


def test_a_gradient_that_is_not_finite_changes_nothing():
    actor = network()
    lesson = random_lesson(actor)
    lesson.returns[7] = torch.inf
    optimizer = torch.optim.Adam(actor.parameters())
    gradients = PPOGradients([*actor.parameters()], lesson, **SETTINGS)
    before = [parameter.clone() for parameter in actor.parameters()]
    with pytest.raises(NonFiniteGradientError, match="the norm of the gradient is"):
        PPOSteps([*actor.parameters()], optimizer, gradients, max_norm=1.0).take(
            torch.arange(TURNS)
        )
    assert all(map(torch.equal, before, actor.parameters()))
    assert not optimizer.state


@pytest.mark.parametrize("action", [-1, ACTIONS])
def test_actions_that_there_are_not_are_refused(action):
    actor = network()
    lesson = random_lesson(actor)
    lesson.actions[3] = action
    with pytest.raises(IndexError, match="actions are from 0 to 3"):
        PPOGradients([*actor.parameters()], lesson, **SETTINGS)
