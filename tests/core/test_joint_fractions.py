"""`JointFractions`: numbers drawn ahead are those of each generator, and nobody sees it ahead."""

from threading import Thread

import numpy as np
import pytest
import torch

from keisei.core.joint_fractions import JointFractions
from keisei.core.ppo_model import PPOModel, PPOModelConfig

COPIES = 3


def models(count=3):
    config = PPOModelConfig(hidden=(4,))
    return [PPOModel((2,), 2, copies=COPIES, seed=seed, config=config) for seed in range(count)]


def drawn_apart(others, copies=COPIES):
    return [torch.rand(copies, generator=other.generator).tolist() for other in others]


def where(group):
    return [model.generator.get_state().tolist() for model in group]


@pytest.mark.parametrize("looked_at", [(), (0,), (5, 16, 17, 33), range(40)])
def test_numbers_and_generators_are_those_of_models_apart_whenever_somebody_looks(looked_at):
    group, others = models(), models()
    fractions = JointFractions(group)
    for turn in range(40):
        assert fractions.draw(COPIES).tolist() == drawn_apart(others)
        if turn in looked_at:
            assert group[1].generator.get_state().tolist() == where(others)[1]
    assert where(group) == where(others)


def test_a_model_may_draw_by_itself_in_between():
    group, others = models(), models()
    fractions = JointFractions(group)
    for turn in range(9):
        assert fractions.draw(COPIES).tolist() == drawn_apart(others)
        if turn % 2:
            shuffles = [torch.randperm(7, generator=pair[2].generator) for pair in (group, others)]
            assert torch.equal(*shuffles)
    assert where(group) == where(others)


def test_a_state_that_is_loaded_is_what_the_next_numbers_come_from():
    group, others = models(), models()
    fractions = JointFractions(group)
    fractions.draw(COPIES)
    drawn_apart(others)
    state = others[0].state()
    for one in (group[2], others[2]):
        one.load_state(*state)
    assert fractions.draw(COPIES).tolist() == drawn_apart(others)
    assert where(group) == where(others)


def test_the_number_of_copies_may_change():
    group, others = models(), models()
    fractions = JointFractions(group)
    for copies in (3, 3, 1, 5, 5, 3):
        assert fractions.draw(copies).tolist() == drawn_apart(others, copies)


def test_models_may_be_grouped_anew_and_as_before():
    group, others = models(), models()
    all_of_them, some = JointFractions(group), JointFractions(group[1:])
    for _ in range(3):
        assert all_of_them.draw(COPIES).tolist() == drawn_apart(others)
        assert some.draw(COPIES).tolist() == drawn_apart(others[1:])
        assert some.draw(COPIES).tolist() == drawn_apart(others[1:])
    assert where(group) == where(others)


def test_threads_that_look_at_once_see_the_same():
    group, others = models(8), models(8)
    fractions, seen = JointFractions(group), {}
    for _ in range(20):
        fractions.draw(COPIES)
        drawn_apart(others)

    def look(number):
        seen[number] = group[number].generator.get_state().numpy()

    threads = [Thread(target=look, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(seen[n], state) for n, state in enumerate(where(others)))
