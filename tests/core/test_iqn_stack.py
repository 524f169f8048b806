"""`IQNStack`: models together do what each would do alone, and touch nobody else's weights."""

import numpy as np
import pytest
import torch

from keisei.core.iqn_model import IQNConfig, IQNModel
from keisei.core.iqn_stack import MOST_TOGETHER
from keisei.gridworld.stack import Failure
from tests.core.contextual import LIGHTS
from tests.core.small import bits
from tests.core.test_ppo_stack import (
    COPIES,
    Apart,
    assert_alike,
    assert_disjoint,
    assert_equal_actions,
    in_threads,
    learner_bits,
    play,
)


def iqn_models(count=3, *, first=0, **settings):
    small = {"layer_size": 16, "n_frames": 2, "batch_size": 32, "memory_turns": 40}
    config = IQNConfig(**{**small, "mixed_precision": False, **settings})
    return [
        IQNModel((LIGHTS,), LIGHTS, copies=COPIES, seed=seed, config=config)
        for seed in range(first, first + count)
    ]


def stacked(count=3, *, together=False, **settings):
    """A stack and its models; `together` they learn as on a GPU."""
    models = iqn_models(count, **settings)
    stack = models[0].stack(models)
    stack._together = together
    return stack, models


class ApartByAutograd(Apart):
    """Models one after the other that learn with the same operations as `together`."""

    def learn(self, lessons):
        steps = {n: [self._models[n]._learn(b) for b in lesson] for n, lesson in lessons.items()}
        return {n: self._models[n].figures(*np.mean(its, axis=0)) for n, its in steps.items()}


def apart_from(models, together):
    return ApartByAutograd(models) if together else Apart(models)


both_ways = pytest.mark.parametrize("together", [False, True])


def lessons_of(models, who=None, train_steps=1):
    who = range(len(models)) if who is None else who
    return {n: models[n].draw_lesson(train_steps) for n in who}


def with_nan(lesson, step=-1):
    lesson, batch = list(lesson), lesson[step]
    lesson[step] = batch._replace(returns=np.full_like(batch.returns, np.nan))
    return lesson


@both_ways
@pytest.mark.parametrize("settings", [{}, {"layer_size": 40, "learning_rate": 0.01, "tau": 0.1}])
def test_actions_and_weights_are_those_of_models_apart(settings, together):
    stack, models = stacked(together=together, **settings)
    others = iqn_models(**settings)
    apart = apart_from(others, together)
    assert_equal_actions(play(stack, models, 0), play(apart, others, 0))
    for epoch in range(1, 21):
        figures = stack.learn(lessons_of(models))
        expected = apart.learn(lessons_of(others))
        for n in range(3):
            assert figures[n] == pytest.approx(expected[n], rel=1e-3, abs=1e-4)
        assert_alike(models, others)
        assert_equal_actions(play(stack, models, epoch), play(apart, others, epoch))


@both_ways
def test_mixed_precision_changes_little(together):
    stack, models = stacked(mixed_precision=True, together=together)
    others = iqn_models(mixed_precision=True)
    play(stack, models, 0)
    play(Apart(others), others, 0)
    stack.learn(lessons_of(models, train_steps=20))
    apart_from(others, together).learn(lessons_of(others, train_steps=20))
    assert_alike(models, others, tolerance=1e-3)


def test_nobody_asks_the_networks_where_every_action_is_random():
    stack, models = stacked(epsilon=1.0, epsilon_decay=0.0)
    others = iqn_models(epsilon=1.0, epsilon_decay=0.0)
    streams = [model.generator.get_state() for model in models]
    assert_equal_actions(play(stack, models, 0), play(Apart(others), others, 0))
    for model, stream in zip(models, streams, strict=True):
        assert torch.equal(model.generator.get_state(), stream)


@both_ways
def test_some_models_can_act_and_learn_while_the_others_stay_bit_for_bit(together):
    stack, models = stacked(4, together=together)
    others = iqn_models(4)
    before = [bits(model.state()[0]) for model in models]
    actions = play(stack, models, 0, who=[3, 0])
    assert_equal_actions(actions, play(Apart(others), others, 0, who=[3, 0]))
    stack.learn(lessons_of(models, [3, 0]))
    Apart(others).learn(lessons_of(others, [3, 0]))
    assert_alike(models, others)
    assert [bits(models[n].state()[0]) for n in (1, 2)] == before[1:3]
    assert bits(models[0].state()[0]) != before[0]


def test_lessons_of_unequal_lengths_are_learned_in_shares():
    stack, models = stacked(5)
    others = iqn_models(5)
    play(stack, models, 0)
    play(Apart(others), others, 0)
    steps = {0: 2, 1: 5, 2: 2, 3: 2, 4: 5}
    lessons = {n: models[n].draw_lesson(count) for n, count in steps.items()}
    with pytest.raises(ValueError, match=r"lengths \[2, 5\] are learned in several shares"):
        stack.learn(lessons)
    shares = stack.shares(lessons)
    assert sorted(n for share in shares for n in share) == [0, 1, 2, 3, 4]
    assert max(len(share) for share in shares) <= MOST_TOGETHER
    for share in shares:
        stack.learn(share)
    Apart(others).learn({n: others[n].draw_lesson(count) for n, count in steps.items()})
    assert_alike(models, others)


@both_ways
@pytest.mark.parametrize("train_steps", [1, 4])
def test_a_lesson_that_is_not_finite_fails_alone(train_steps, together):
    results, states = [], []
    for faulty in (False, True):
        stack, models = stacked(4, together=together)
        play(stack, models, 0)
        stack.learn(lessons_of(models))
        lessons, before = lessons_of(models, train_steps=train_steps), learner_bits(models[1])
        if faulty:
            lessons[1] = with_nan(lessons[1], step=train_steps // 2)
        results.append(stack.learn(lessons))
        states.append([bits(models[n].state()[0]) for n in (0, 2, 3)])
    assert states[0] == states[1]
    failure = results[1].pop(1)
    assert isinstance(failure, Failure)
    assert failure.reason == "the norm of the gradient is nan"
    assert all(results[1][n] == results[0][n] for n in (0, 2, 3))
    assert learner_bits(models[1]) == before
    assert "loss" in stack.learn(lessons_of(models))[1]
    assert learner_bits(models[1]) != before


@both_ways
def test_all_lessons_may_fail(together):
    stack, models = stacked(2, together=together)
    play(stack, models, 0)
    before = [learner_bits(model) for model in models]
    lessons = lessons_of(models, train_steps=3)
    outcomes = stack.learn({n: with_nan(lesson) for n, lesson in lessons.items()})
    assert all(isinstance(outcome, Failure) for outcome in outcomes.values())
    assert [learner_bits(model) for model in models] == before


def test_every_model_has_rows_of_its_own():
    stack, models = stacked(3)
    play(stack, models, 0)
    stack.learn(lessons_of(models))
    assert_disjoint(models)
    before = [learner_bits(model) for model in models]
    with torch.no_grad():
        for module in (models[1].network, models[1].target):
            for parameter in module.parameters():
                parameter.fill_(7)
    assert [learner_bits(model) for model in models[::2]] == before[::2]


@both_ways
def test_stacked_models_go_on_from_a_state_bit_for_bit(together):
    stack, models = stacked(3, together=together)
    play(stack, models, 0)
    stack.learn(lessons_of(models))
    others = iqn_models(3, first=50)
    for model, other in zip(models, others, strict=True):
        other.load_state(*model.state())
    again = others[0].stack(others)
    again._together = together
    for group, learners in ((stack, models), (again, others)):
        play(group, learners, 1)
        group.learn(lessons_of(learners, train_steps=2))
    assert [bits(m.state()[0]) for m in models] == [bits(m.state()[0]) for m in others]


def test_a_stacked_model_adopts_what_its_twin_has_learned():
    stack, models = stacked(2)
    play(stack, models, 0)
    twins = [model.twin() for model in models]
    lessons = lessons_of(models, train_steps=3)
    untouched = learner_bits(models[1])
    twins[0].stack(twins).learn(lessons)
    models[0].adopt(twins[0])
    for module in ("network", "target"):
        learned, adopted = (getattr(m, module).state_dict() for m in (twins[0], models[0]))
        assert bits(adopted) == bits(learned)
    assert learner_bits(models[1]) == untouched
    assert_disjoint([*models, *twins])


def test_shares_learned_by_two_threads_have_the_bits_of_one_after_the_other():
    ends = []
    for threads in (False, True):
        stack, models = stacked(4, layer_size=64)
        play(stack, models, 0)
        lessons = lessons_of(models, train_steps=10)
        shares = [{n: lessons[n] for n in share} for share in ([0, 1], [2, 3])]
        if threads:
            in_threads(stack, shares)
        else:
            for share in shares:
                stack.learn(share)
        ends.append([bits(model.state()[0]) for model in models])
    assert ends[0] == ends[1]


def test_only_models_of_one_kind_have_the_same_key():
    one, same = iqn_models(2)
    [other] = iqn_models(1, n_quantiles=8)
    assert one.stack_key() == same.stack_key() != other.stack_key()
