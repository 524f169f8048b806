"""`RolloutMemory` and its kernels: turns as they were, and GAE against its definition."""

import numpy as np
import pytest

from keisei.core.rollout_memory import RolloutMemory


def add(memory, observations, *, dones=False, active=True, number=0):
    """One turn, of which the policy said numbers that name it."""
    copies = len(observations)
    states = np.float32(observations).reshape(copies, -1)
    stacked = memory.current_state(states)
    said = np.full(copies, number, np.float32)
    memory.expect(stacked, said, said + 0.5)
    flags = (np.broadcast_to(np.asarray(flag), copies) for flag in (dones, active))
    memory.add(states, np.full(copies, number), said * 10, *flags)
    return stacked


def test_turns_are_kept_with_what_the_policy_said():
    memory = RolloutMemory((1,), copies=2)
    for number in range(300):  # more than there was room for at first
        add(memory, [number, -number], number=number, active=[True, number < 200])
    assert (memory.turns, len(memory)) == (300, 500)
    numbers = np.arange(300)
    assert np.array_equal(memory.states[:300, 1, 0], -numbers)
    assert np.array_equal(memory.actions[:300, 0], numbers)
    assert np.array_equal(memory.log_probs[:300, 0], numbers)
    assert np.array_equal(memory.values[:300, 0], numbers + 0.5)
    assert np.array_equal(memory.rewards[:300, 0], 10 * numbers)


def test_a_turn_of_which_the_policy_said_nothing_is_refused():
    memory = RolloutMemory((1,), copies=1)
    add(memory, [1])
    nothing = np.zeros(1, bool)
    with pytest.raises(RuntimeError, match="call take_action before each"):
        memory.add(np.zeros((1, 1), np.float32), np.zeros(1, int), np.zeros(1), nothing, ~nothing)
    assert len(memory) == 1


def test_frames_are_those_of_the_running_episode():
    memory = RolloutMemory((1,), copies=2, n_frames=3)
    stacks = [
        add(memory, [1, 5]),
        add(memory, [2, 6], dones=[False, True]),
        add(memory, [3, 7], active=[True, False]),
        add(memory, [4, 8]),
    ]
    assert [stack[0].tolist() for stack in stacks] == [[0, 0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4]]
    assert [stack[1].tolist() for stack in stacks] == [[0, 0, 5], [0, 5, 6], [0, 0, 7], [0, 0, 8]]
    memory.start_episodes()
    assert memory.current_state(np.float32([[9], [9]])).tolist() == [[0, 0, 9], [0, 0, 9]]


def test_a_cleared_memory_forgets_turns_but_not_the_running_episode():
    memory = RolloutMemory((1,), copies=1, n_frames=2)
    add(memory, [1])
    memory.clear()
    assert (memory.turns, len(memory)) == (0, 0)
    assert memory.current_state(np.float32([[2]])).tolist() == [[1, 2]]


def test_the_version_of_the_first_turn_stays_until_all_are_forgotten():
    memory, other = RolloutMemory((1,), copies=1), RolloutMemory((1,), copies=1)
    for version in (3, 4):
        memory.version = version
        add(memory, [0])
        assert memory.first_version == 3
    memory.version = 5
    other.load_state(memory.state())
    for one in (memory, other):
        assert (one.version, one.first_version) == (5, 3)
        one.clear()
        one.add_turns([memory.stored_turns()])
        assert one.first_version == 5
