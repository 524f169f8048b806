"""`PPOModel`: it learns, each agent by itself, and goes on bit for bit from its state."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from keisei.core.ppo_lessons import Lesson, clipped_losses
from keisei.core.ppo_model import PPOModel, PPOModelConfig
from keisei.core.return_scale import ReturnScale
from tests.core.contextual import LIGHTS, Lights, learnt, storages
from tests.core.small import bits


def model(seed=0, **settings):
    config = PPOModelConfig(**{"hidden": (16,), "minibatch": 40, **settings})
    return PPOModel((LIGHTS,), LIGHTS, copies=16, seed=seed, config=config)


@pytest.mark.parametrize("n_frames", [1, 3])
def test_it_learns_which_light_is_on(n_frames):
    learner = model(n_frames=n_frames, learning_rate=0.01, gamma=0.5)
    assert learnt(learner, epochs=60) > 0.9


def test_an_update_uses_up_the_memory_and_tells_its_figures():
    learner = model()
    Lights(16).epoch(learner, 0)
    assert len(learner.memory) == 80
    figures = learner.train_step()
    assert len(learner.memory) == 0
    assert figures["entropy"] == pytest.approx(np.log(LIGHTS), abs=0.01)
    assert set(figures) >= {"loss", "policy_loss", "value_loss", "clip_share", "reward_divisor"}


def test_without_turns_there_is_nothing_to_learn():
    learner = model()
    before = bits(learner.state()[0])
    assert learner.train_step() == {}
    assert bits(learner.state()[0]) == before


@pytest.mark.parametrize("train_steps", [0, 1])
def test_a_lesson_that_is_lent_is_the_one_that_is_drawn(train_steps):
    drawing, lending = model(), model()
    for learner in (drawing, lending):
        Lights(16).epoch(learner, 0)
    drawn, lent = drawing.draw_lesson(train_steps), lending.lend_lesson(train_steps)
    assert len(lending.memory) == (0 if train_steps else 80)
    if train_steps:
        assert np.array_equal(lent.states, drawn.states)
        assert np.shares_memory(lent.states, lending.memory.states)
        assert not np.shares_memory(drawn.states, drawing.memory.states)
    else:
        assert drawn is lent is None
    assert bits(lending.state()[0]) == bits(drawing.state()[0])
    assert lending.state()[1] == drawing.state()[1]


def test_turns_in_which_the_agent_was_not_there_are_not_learnt_from():
    learners = [model(), model()]
    nobody = np.arange(16) >= 8
    for learner, noise in zip(learners, (0.0, 5.0), strict=True):
        world = np.random.default_rng(2)
        for turn in range(4):
            states = world.random((16, LIGHTS)).astype(np.float32)
            states[nobody] += noise
            actions = learner.take_action(states)
            rewards = (actions + noise * nobody).astype(np.float32)
            learner.memory.add(states, actions, rewards, np.full(16, turn == 3), ~nobody)
        learner.train_step()
    assert bits(learners[0].state()[0]) == bits(learners[1].state()[0])


def test_an_episode_that_is_not_over_can_be_learnt_from_but_for_its_last_turn():
    learner = model()
    learner.take_action(np.zeros((16, LIGHTS), np.float32))
    going_on = (np.zeros(16, bool), np.ones(16, bool))
    learner.memory.add(np.zeros((16, LIGHTS)), np.zeros(16, int), np.ones(16), *going_on)
    assert learner.train_step() == {}
    assert len(learner.memory) == 0


def test_it_goes_on_bit_for_bit_from_its_state():
    one, other = model(seed=1), model(seed=2)
    learnt(one, epochs=3)
    Lights(16, seed=9).epoch(one, 3)  # and some turns in memory
    other.load_state(*one.state())
    figures = []
    for learner in (one, other):
        world = Lights(16, seed=5)
        world.epoch(learner, 4)
        figures.append(learner.train_step())
        world.epoch(learner, 5)
        figures.append(learner.train_step())
    assert figures[:2] == figures[2:]
    assert bits(one.state()[0]) == bits(other.state()[0])
    assert one.state()[1] == other.state()[1]


def test_a_state_does_not_change_with_the_model():
    learner = model()
    arrays, _ = learner.state()
    before = bits(arrays)
    learnt(learner, epochs=2)
    assert bits(arrays) == before


def test_the_seed_decides_everything():
    states = [model(seed=seed) for seed in (3, 3, 4)]
    for learner in states:
        learnt(learner, epochs=2)
    first, same, different = (bits(learner.state()[0]) for learner in states)
    assert first == same
    assert first != different


def test_agents_share_no_memory_and_no_random_stream():
    one, other = model(seed=1), model(seed=2)
    before = bits(other.state()[0])
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()
    learnt(one, epochs=2)
    assert bits(other.state()[0]) == before
    learnt(other, epochs=2)
    assert not storages(one) & storages(other)
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert np.array_equal(np.random.get_state()[1], numpy_state)


def test_a_reward_that_is_not_a_number_stops_the_update():
    learner = model()
    learner.take_action(np.zeros((16, LIGHTS), np.float32))
    over = (np.ones(16, bool), np.ones(16, bool))
    learner.memory.add(np.zeros((16, LIGHTS)), np.zeros(16, int), np.full(16, np.nan), *over)
    before = bits(learner.network.state_dict())
    with pytest.raises(RuntimeError, match="the norm of the gradient is nan"):
        learner.train_step()
    assert bits(learner.network.state_dict()) == before


def test_a_lesson_that_fails_midway_leaves_the_learner_as_it_was():
    learner = model(epochs=3)
    for rounds in range(2):  # without moments, and with
        Lights(16, seed=rounds).epoch(learner, rounds)
        lesson = learner.draw_lesson(1)
        names = ("network", "optimizer")
        before = bits({k: v for k, v in learner.state()[0].items() if k.startswith(names)})
        first, second, *_ = learner.twin().shuffled(lesson.count)
        assert not set(first.tolist()) & set(second.tolist())
        states = lesson.states.copy()
        states.reshape(lesson.count, -1)[second[0]] = np.nan  # the second step fails
        with pytest.raises(RuntimeError, match="the norm of the gradient is nan"):
            learner.learn(replace(lesson, states=states))
        after = bits({k: v for k, v in learner.state()[0].items() if k.startswith(names)})
        assert after == before
        learner.learn(lesson)


def test_a_twin_learns_the_same_and_is_adopted():
    learner = model()
    learnt(learner, epochs=2)
    twin = learner.twin()
    Lights(16).epoch(learner, 3)
    assert learner.draw_lesson(0) is None
    lesson = learner.draw_lesson(1)
    assert learner.draw_lesson(1) is None
    before = bits(learner.network.state_dict())
    figures = twin.learn(lesson)
    assert bits(learner.network.state_dict()) == before
    assert not storages(learner) & storages(twin)
    learner.adopt(twin)
    assert bits(learner.network.state_dict()) == bits(twin.network.state_dict()) != before
    assert figures["loss"] != 0


def raised(learner, action, amount):
    """Make an action more probable, or less, in every state."""
    with torch.no_grad():
        learner.network.layers[-1].bias[action] += amount


def test_turns_of_older_weights_are_seen_as_the_newest_see_them():
    learner = model()
    Lights(16).epoch(learner, 0)
    turns = learner.draw_lesson(1)
    newest = learner.twin()
    raised(newest, 0, 1.0)
    raised(newest, -1, 0.5)  # the value
    newest.memory.version += 1
    lesson, before = newest.lesson_of(turns), learner.lesson_of(turns)
    outputs = newest.network(lesson.states).detach()
    said = outputs[:, :-1].log_softmax(1).gather(1, lesson.actions[:, None])[:, 0]
    assert torch.allclose(lesson.log_probs, said, atol=1e-6)
    values = outputs[:, -1].numpy().reshape(turns.values.shape)
    assert np.allclose(values, turns.values + 0.5, atol=1e-6)
    expected = replace(turns, values=values).lesson(
        gamma=newest.config.gamma, gae_lambda=newest.config.gae_lambda
    )
    assert torch.allclose(lesson.returns, expected.returns, atol=1e-6)
    ratios = (said - before.log_probs).exp()
    more, less = lesson.actions == 0, lesson.actions != 0
    assert ratios[more].min() > 1 > ratios[less].max()
    assert torch.allclose(lesson.advantages[more], expected.advantages[more], atol=1e-5)
    weighted = (ratios * expected.advantages)[less]
    assert torch.allclose(lesson.advantages[less], weighted, atol=1e-5)


def test_turns_are_renewed_if_and_only_if_the_learner_has_learned_since():
    learner = model()
    twin = learner.twin()
    for epoch in range(3):
        Lights(16).epoch(learner, epoch)
        turns = learner.draw_lesson(1)
        as_played = turns.lesson(gamma=0.95, gae_lambda=0.9)
        same = all(map(torch.equal, twin.lesson_of(turns), as_played))
        assert same == (epoch != 1)  # that one was played before the first was taken over
        twin.learn(turns)
        if epoch:
            learner.adopt(twin)


def test_what_one_learns_itself_is_never_renewed():
    learner = model()
    for epoch in range(3):
        Lights(16).epoch(learner, epoch)
        turns = learner._turns()
        assert torch.equal(
            learner.lesson_of(turns).log_probs, torch.tensor(turns.log_probs).ravel()
        )
        learner.train_step()
    assert learner.memory.version == 3


def test_the_losses_are_those_of_the_paper():
    logits, values = torch.tensor([[0.0, 1.0], [2.0, 0.0]]), torch.tensor([0.5, -1.0])
    lesson = Lesson(
        states=torch.zeros(2, 1),
        actions=torch.tensor([1, 0]),
        log_probs=torch.log(torch.tensor([0.5, 0.9])),
        advantages=torch.tensor([2.0, -1.0]),
        returns=torch.tensor([1.0, 1.0]),
    )
    config = PPOModelConfig(clip=0.2, entropy=0.1, value_coefficient=0.25)
    losses = clipped_losses(torch.cat([logits, values[:, None]], 1), lesson, **config.loss_settings)
    probabilities = logits.softmax(1)
    ratios = [float(probabilities[0, 1]) / 0.5, float(probabilities[1, 0]) / 0.9]
    gains = [min(ratios[0], 1.2) * 2, -max(ratios[1], 0.8)]
    entropy = -float((probabilities * probabilities.log()).sum()) / 2
    value_loss = (0.25 + 4) / 2
    assert float(losses["policy_loss"]) == pytest.approx(-sum(gains) / 2)
    assert float(losses["entropy"]) == pytest.approx(entropy)
    assert float(losses["value_loss"]) == pytest.approx(value_loss)
    assert float(losses["clip_share"]) == 0.5
    expected = -sum(gains) / 2 + 0.25 * value_loss - 0.1 * entropy
    assert float(losses["loss"]) == pytest.approx(expected)


def test_the_scale_is_the_deviation_of_all_returns_seen():
    random, scale = np.random.default_rng(0), ReturnScale()
    assert scale.divisor == 1
    scale.see(np.zeros(5, np.float32))
    assert scale.divisor == 1
    parts = [random.normal(3, 7, size).astype(np.float32) for size in (1, 50, 0, 9)]
    for part in parts:
        scale.see(part)
    everything = np.concatenate([np.zeros(5), *parts])
    assert scale.divisor == pytest.approx(everything.std(), rel=1e-5)
