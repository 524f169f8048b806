"""`PPOStack`: models together do what each would do alone, and touch nobody else's weights."""

from dataclasses import replace
from itertools import pairwise
from threading import Thread

import numpy as np
import pytest
import torch

from keisei.core.ppo_model import PPOModel, PPOModelConfig
from keisei.gridworld.joint_turn import Turn
from keisei.gridworld.stack import Failure
from tests.core.contextual import LIGHTS
from tests.core.small import bits

COPIES = 16
either_way = pytest.mark.parametrize("together", [False, True])


class Apart:
    """The interface of a stack for models one after the other."""

    def __init__(self, models):
        self._models = models

    def take_actions(self, states):
        return {n: self._models[n].take_action(seen) for n, seen in states.items()}

    def learn(self, lessons):
        return {n: self._models[n].learn(lesson) for n, lesson in lessons.items()}


def play(group, models, epoch, *, who=None, turns=5):
    """An epoch of lights for the models `who`, or all; every action that was taken."""
    who = range(len(models)) if who is None else who
    randoms = {n: np.random.default_rng((epoch, n)) for n in who}
    everything = []
    for n in who:
        models[n].start_epoch_action(epoch)
    for turn in range(turns):
        lights = {n: random.integers(0, LIGHTS, COPIES) for n, random in randoms.items()}
        states = {n: np.eye(LIGHTS, dtype=np.float32)[light] for n, light in lights.items()}
        actions = group.take_actions(states)
        assert list(actions) == list(who)
        for n in who:
            rewards = 10 * (actions[n] == lights[n]).astype(np.float32)
            ends = np.full(COPIES, turn == turns - 1)
            models[n].memory.add(states[n], actions[n], rewards, ends, np.ones(COPIES, bool))
        everything.append(actions)
    return everything


def assert_equal_actions(one, other):
    for turn, same in zip(one, other, strict=True):
        assert list(turn) == list(same)
        for n, actions in turn.items():
            assert np.array_equal(actions, same[n])


def assert_alike(models, others, tolerance=1e-5):
    """Weights and moments within the tolerance, random streams and all else equal."""
    for one, other in zip(models, others, strict=True):
        (arrays, values), (other_arrays, other_values) = one.state(), other.state()
        assert list(arrays) == list(other_arrays)
        assert values == other_values
        for name, array in arrays.items():
            if name.startswith(("network", "target", "optimizer", "memory.log_probs")):
                assert np.allclose(array, other_arrays[name], rtol=0, atol=tolerance), name
            elif not name.startswith("memory.values"):
                assert np.array_equal(array, other_arrays[name]), name


def learner_bits(model):
    """Weights and moments, exactly."""
    modules = ("network", "target", "optimizer")
    return bits({k: v for k, v in model.state()[0].items() if k.startswith(modules)})


def in_threads(stack, shares):
    """Learn the shares at the same time."""
    threads = [Thread(target=stack.learn, args=(share,)) for share in shares]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def ranges(model):
    """Where the memory of each parameter begins and ends."""
    modules = [model.network, *([model.target] if hasattr(model, "target") else [])]
    parameters = [parameter for module in modules for parameter in module.parameters()]
    return [(p.data_ptr(), p.data_ptr() + p.nbytes) for p in parameters]


def assert_disjoint(models):
    places = sorted(place for model in models for place in ranges(model))
    assert all(end <= start for (_, end), (start, _) in pairwise(places))


def ppo_models(count=3, *, first=0, **settings):
    config = PPOModelConfig(**{"hidden": (16,), "minibatch": 40, **settings})
    return [
        PPOModel((LIGHTS,), LIGHTS, copies=COPIES, seed=seed, config=config)
        for seed in range(first, first + count)
    ]


def stacked(count=3, *, together=False, **settings):
    """A stack and its models; `together` they learn as on a GPU."""
    models = ppo_models(count, **settings)
    stack = models[0].stack(models)
    stack._together = together
    return stack, models


def lessons_of(models, who=None):
    who = range(len(models)) if who is None else who
    return {n: models[n].draw_lesson(1) for n in who}


def with_nan(lesson):
    rewards = lesson.rewards.copy()
    rewards[-1] = np.nan
    return replace(lesson, rewards=rewards)


@either_way
@pytest.mark.parametrize("n_frames", [1, 3])
def test_actions_and_weights_are_those_of_models_apart(n_frames, together):
    stack, models = stacked(n_frames=n_frames, together=together)
    others = ppo_models(n_frames=n_frames)
    apart = Apart(others)
    assert_equal_actions(play(stack, models, 0), play(apart, others, 0))
    for epoch in range(1, 21):
        figures = stack.learn(lessons_of(models))
        expected = apart.learn(lessons_of(others))
        for n in range(3):
            assert figures[n] == pytest.approx(expected[n], rel=1e-3, abs=1e-4)
        assert_alike(models, others)
        assert_equal_actions(play(stack, models, epoch), play(apart, others, epoch))


@either_way
def test_some_models_can_act_and_learn_while_the_others_stay_bit_for_bit(together):
    stack, models = stacked(4, together=together)
    others = ppo_models(4)
    before = [bits(model.state()[0]) for model in models]
    actions = play(stack, models, 0, who=[3, 0])
    assert_equal_actions(actions, play(Apart(others), others, 0, who=[3, 0]))
    stack.learn(lessons_of(models, [3, 0]))
    Apart(others).learn(lessons_of(others, [3, 0]))
    assert_alike(models, others)
    assert [bits(models[n].state()[0]) for n in (1, 2)] == before[1:3]
    assert bits(models[0].state()[0]) != before[0]


@pytest.mark.parametrize("copies", [1, 3, 4])
def test_in_few_copies_actions_are_those_of_models_apart(copies):
    pairs = [
        PPOModel((LIGHTS,), LIGHTS, copies=copies, seed=seed, config=PPOModelConfig(hidden=(16, 8)))
        for seed in (0, 1, 0, 1)
    ]
    stack, apart = pairs[0].stack(pairs[:2]), Apart(pairs[2:])
    random = np.random.default_rng(0)
    for _ in range(20):
        states = dict(enumerate(random.normal(size=(2, copies, LIGHTS)).astype(np.float32)))
        assert_equal_actions([stack.take_actions(states)], [apart.take_actions(states)])


@pytest.mark.parametrize("n_frames", [1, 3])
def test_actions_of_all_in_one_array_are_those_of_models_apart(n_frames):
    stack, models = stacked(n_frames=n_frames)
    others, random = ppo_models(n_frames=n_frames), np.random.default_rng(0)
    no, yes = np.zeros((3, COPIES), bool), np.ones((3, COPIES), bool)
    for _ in range(40):
        states = random.normal(size=(3, COPIES, LIGHTS)).astype(np.float32)
        actions = stack.take_all_actions(states)
        assert actions.tolist() == [
            other.take_action(its).tolist() for other, its in zip(others, states, strict=True)
        ]
        turn = Turn(states, actions, random.random((3, COPIES), np.float32), no, yes)
        stack.remember(turn)
        for other, *its_turn in zip(others, *turn, strict=True):
            other.memory.add(*its_turn)
    assert_alike(models, others)


def test_lessons_of_unequal_lengths_are_learned_in_shares():
    stack, models = stacked(5, minibatch=500)
    others = ppo_models(5, minibatch=500)
    for group, learners in ((stack, models), (Apart(others), others)):
        play(group, learners, 0, who=[0, 2, 3], turns=4)
        play(group, learners, 0, who=[1, 4], turns=9)
    lessons = lessons_of(models)
    with pytest.raises(ValueError, match=r"lengths \[64, 144\] are learned in several shares"):
        stack.learn(lessons)
    shares = stack.shares(lessons)
    assert [list(share) for share in shares] == [[0, 2, 3], [1, 4]]
    for share in shares:
        stack.learn(share)
    Apart(others).learn(lessons_of(others))
    assert_alike(models, others)


def test_shares_are_small_enough_for_every_thread_to_have_some():
    stack, models = stacked(20)
    play(stack, models, 0)
    lessons = lessons_of(models)
    shares = stack.shares(lessons)
    assert [list(share) for share in shares] == [[*range(n, n + 4)] for n in range(0, 20, 4)]
    shares = stack.shares({n: lessons[n] for n in range(3)}, workers=2)
    assert [list(share) for share in shares] == [[0, 1], [2]]


@either_way
def test_a_lesson_that_is_not_finite_fails_alone(together):
    results, states = [], []
    for faulty in (False, True):
        stack, models = stacked(4, together=together)
        play(stack, models, 0)
        stack.learn(lessons_of(models))
        play(stack, models, 1)
        lessons, before = lessons_of(models), learner_bits(models[1])
        if faulty:
            lessons[1] = with_nan(lessons[1])
        results.append(stack.learn(lessons))
        states.append([bits(models[n].state()[0]) for n in (0, 2, 3)])
    assert states[0] == states[1]
    failure = results[1].pop(1)
    assert isinstance(failure, Failure)
    assert failure.reason == "the norm of the gradient is nan"
    assert all(results[1][n] == results[0][n] for n in (0, 2, 3))
    assert learner_bits(models[1]) == before
    play(stack, models, 2)
    assert "loss" in stack.learn(lessons_of(models))[1]
    assert learner_bits(models[1]) != before


@either_way
def test_all_lessons_may_fail(together):
    stack, models = stacked(2, together=together)
    play(stack, models, 0)
    before = [learner_bits(model) for model in models]
    outcomes = stack.learn({n: with_nan(lesson) for n, lesson in lessons_of(models).items()})
    assert all(isinstance(outcome, Failure) for outcome in outcomes.values())
    assert [learner_bits(model) for model in models] == before


@either_way
def test_turns_of_older_weights_are_learned_as_by_models_apart(together):
    stack, models = stacked(together=together)
    others = ppo_models()
    lessons = []
    for group, learners in ((stack, models), (Apart(others), others)):
        play(group, learners, 0)
        first = lessons_of(learners)
        play(group, learners, 1)
        lessons.append((first, lessons_of(learners)))
    for ours, theirs in zip(*lessons, strict=True):
        stack.learn(ours)
        Apart(others).learn(theirs)
    assert [model.memory.version for model in models] == [2, 2, 2]
    assert_alike(models, others)


def test_an_action_that_there_is_not_fails_its_own_lesson():
    stack, models = stacked(2)
    play(stack, models, 0)
    lessons = lessons_of(models)
    lessons[0].actions[-1] = 99
    outcomes = stack.learn(lessons)
    assert outcomes[0].reason.startswith("IndexError: actions are from 0 to")
    assert "loss" in outcomes[1]


def test_every_model_has_rows_of_its_own():
    stack, models = stacked(3)
    play(stack, models, 0)
    stack.learn(lessons_of(models))
    assert_disjoint(models)
    before = [bits(model.network.state_dict()) for model in models]
    with torch.no_grad():
        for parameter in models[1].network.parameters():
            parameter.fill_(7)
    assert [bits(model.network.state_dict()) for model in models[::2]] == before[::2]


def test_stacked_models_go_on_from_a_state_bit_for_bit():
    stack, models = stacked(3)
    play(stack, models, 0)
    stack.learn(lessons_of(models))
    others = ppo_models(3, first=50)
    for model, other in zip(models, others, strict=True):
        other.load_state(*model.state())
    again = others[0].stack(others)
    for group, learners in ((stack, models), (again, others)):
        play(group, learners, 1)
        group.learn(lessons_of(learners))
    assert [bits(m.state()[0]) for m in models] == [bits(m.state()[0]) for m in others]


def test_a_state_that_is_loaded_into_a_stacked_model_is_what_the_stack_goes_on_from():
    stack, models = stacked(3)
    play(stack, models, 0)
    kept = [model.state() for model in models]
    ends = []
    for _ in range(2):
        for model, state in zip(models, kept, strict=True):
            model.load_state(*state)
        stack.learn(lessons_of(models))
        play(stack, models, 1)
        stack.learn(lessons_of(models))
        ends.append([bits(model.state()[0]) for model in models])
    assert ends[0] == ends[1]


def test_shares_learned_by_two_threads_have_the_bits_of_one_after_the_other():
    ends = []
    for threads in (False, True):
        stack, models = stacked(4, epochs=6)
        play(stack, models, 0)
        lessons = lessons_of(models)
        shares = [{n: lessons[n] for n in share} for share in ([0, 1], [2, 3])]
        if threads:
            in_threads(stack, shares)
        else:
            for share in shares:
                stack.learn(share)
        ends.append([bits(model.state()[0]) for model in models])
    assert ends[0] == ends[1]


def test_only_models_of_one_kind_have_the_same_key():
    one, same = ppo_models(2)
    [other] = ppo_models(1, hidden=(8,))
    assert one.stack_key() == same.stack_key() != other.stack_key()
