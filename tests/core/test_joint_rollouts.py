"""`JointRollouts`: memories together hold what each would hold alone."""

import numpy as np
import pytest

from keisei.core.joint_rollouts import JointRollouts
from keisei.core.rollout_memory import RolloutMemory
from keisei.gridworld.joint_turn import Turn
from tests.core.small import bits

COPIES, SIZE, MODELS = 3, 4, 3


def memories(n_frames=1):
    return [RolloutMemory((SIZE,), copies=COPIES, n_frames=n_frames) for _ in range(MODELS)]


def random_turn(random, *, n_frames=1):
    """A turn of all models, and what their policies said of it."""
    shape = (MODELS, COPIES)
    said = [random.random(shape, np.float32) for _ in range(2)]
    states = random.random((*shape, SIZE), np.float32)
    turn = Turn(
        list(states),
        random.integers(0, 5, shape),
        random.random(shape, np.float32),
        random.random(shape) < 0.2,
        random.random(shape) < 0.8,
    )
    return turn, said


def add_together(joint, group, turn, said, numbers=range(MODELS)):
    states = np.stack([group[n].current_state(turn.states[n]) for n in numbers])
    rows = list(numbers)
    joint.expect(rows, (states, said[0][rows], said[1][rows]))


def add_alone(memory, number, turn, said):
    memory.expect(memory.current_state(turn.states[number]), said[0][number], said[1][number])
    memory.add(*(part[number] for part in turn))


def assert_equal(group, others):
    for one, other in zip(group, others, strict=True):
        assert bits(one.state()) == bits(other.state())
        assert len(one) == len(other)


@pytest.mark.parametrize("n_frames", [1, 3])
def test_many_turns_of_all_are_those_of_each_beyond_the_first_room_too(n_frames):
    random, group, others = np.random.default_rng(1), memories(n_frames), memories(n_frames)
    joint = JointRollouts(group)
    for _ in range(140):
        turn, said = random_turn(random)
        add_together(joint, group, turn, said)
        joint.add(turn)
        for number, memory in enumerate(others):
            add_alone(memory, number, turn, said)
    assert_equal(group, others)
    for memory in (*group, *others):
        memory.clear()
        memory.start_episodes()
    turn, said = random_turn(random)
    add_together(joint, group, turn, said)
    joint.add(turn)
    for number, memory in enumerate(others):
        add_alone(memory, number, turn, said)
    assert_equal(group, others)


def test_a_memory_may_be_used_by_itself_in_between():
    random, group, others = np.random.default_rng(2), memories(), memories()
    joint = JointRollouts(group)
    for step in range(9):
        turn, said = random_turn(random)
        if step % 3 == 1:
            add_alone(group[1], 1, turn, said)
            add_alone(others[1], 1, turn, said)
            if step == 4:
                group[0].clear(), others[0].clear()
        else:
            add_together(joint, group, turn, said)
            joint.add(turn)
            for number, memory in enumerate(others):
                add_alone(memory, number, turn, said)
    assert_equal(group, others)


def test_what_is_announced_in_another_order_is_each_memorys_own():
    random, group, others = np.random.default_rng(6), memories(), memories()
    joint = JointRollouts(group)
    for numbers in ([0, 1, 2], [2, 0, 1], [0, 1, 2]):
        turn, said = random_turn(random)
        add_together(joint, group, turn, said, numbers)
        joint.add(turn)
        for number, memory in enumerate(others):
            add_alone(memory, number, turn, said)
    assert_equal(group, others)


@pytest.mark.parametrize("n_frames", [1, 3])
def test_the_states_of_all_are_those_of_each(n_frames):
    random, group = np.random.default_rng(7), memories(n_frames)
    joint = JointRollouts(group)
    for _ in range(5):
        turn, said = random_turn(random)
        apart = [memory.current_state(s) for memory, s in zip(group, turn.states, strict=True)]
        for states in (turn.states, np.stack(turn.states)):
            assert joint.current_states(states).tolist() == np.stack(apart).tolist()
        add_together(joint, group, turn, said)
        joint.add(turn)


def test_memories_that_another_group_has_taken_over_can_be_taken_back():
    random, group, others = np.random.default_rng(8), memories(), memories()
    first, second = JointRollouts(group), JointRollouts(group[:2])
    for step in range(6):
        turn, said = random_turn(random)
        add_together(first, group, turn, said)
        if step % 2:
            add_together(second, group, turn, said, range(2))  # announced once more, elsewhere
        first.add(turn)
        for number, memory in enumerate(others):
            add_alone(memory, number, turn, said)
    assert_equal(group, others)


def test_a_memory_that_grows_by_itself_between_announcing_and_adding_loses_nothing():
    random, group, others = np.random.default_rng(9), memories(), memories()
    joint = JointRollouts(group)
    for _ in range(3):
        turn, said = random_turn(random)
        add_together(joint, group, turn, said)
        group[1].grow()
        joint.add(turn)
        for number, memory in enumerate(others):
            add_alone(memory, number, turn, said)
    assert_equal(group, others)


def test_a_state_that_is_loaded_is_what_they_go_on_from():
    random, group, others = np.random.default_rng(3), memories(), memories()
    joint = JointRollouts(group)
    for number, memory in enumerate(others):
        for _ in range(130):
            add_alone(memory, number, *random_turn(random))
    for memory, other in zip(group, others, strict=True):
        memory.load_state(other.state())
    turn, said = random_turn(random)
    add_together(joint, group, turn, said)
    joint.add(turn)
    for number, memory in enumerate(others):
        add_alone(memory, number, turn, said)
    assert_equal(group, others)


def test_a_turn_for_which_somebody_was_not_asked_is_refused():
    turn, said = random_turn(np.random.default_rng(4))
    group = memories()
    joint = JointRollouts(group)
    add_together(joint, group, turn, said, numbers=[0, 2])
    with pytest.raises(RuntimeError, match="the model was not asked"):
        joint.add(turn)


def test_what_one_writes_is_in_nobody_elses_arrays():
    group = memories()
    joint = JointRollouts(group)
    turn, said = random_turn(np.random.default_rng(5))
    add_together(joint, group, turn, said)
    joint.add(turn)
    before = bits(group[0].state()), bits(group[2].state())
    group[1].states[:] = 7
    group[1].start_episodes()
    assert (bits(group[0].state()), bits(group[2].state())) == before
