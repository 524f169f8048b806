"""`RolloutMemory` and its kernels: turns as they were, and GAE against its definition."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keisei.core.rollout_kernels import (
    advantages_and_returns,
    choose_actions,
    find_trainable,
    returns_so_far,
)
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


def test_what_was_said_of_another_number_of_copies_is_no_turn():
    memory = RolloutMemory((1,), copies=2)
    said = np.zeros(1, np.float32)
    memory.expect(memory.current_state(np.zeros((1, 1), np.float32)), said, said)
    yes = np.ones(2, bool)
    with pytest.raises(RuntimeError, match="call take_action before each"):
        memory.add(np.zeros((2, 1), np.float32), np.zeros(2, int), np.zeros(2), yes, yes)


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


def test_a_memory_goes_on_from_the_state_of_another():
    memory, copy = (RolloutMemory((1,), copies=2, n_frames=2) for _ in range(2))
    for number in range(200):
        add(memory, [number, number], number=number, dones=number % 7 == 0)
    copy.load_state(memory.state())
    stacks = [add(one, [1, 2], number=4) for one in (memory, copy)]
    assert np.array_equal(*stacks)
    one, other = memory.state(), copy.state()
    assert all(np.array_equal(one[name], other[name]) for name in one)
    assert len(memory) == len(copy) == 402


def slow_advantages(rewards, values, dones, starts, active, gamma, lam):
    """(advantages, trains) of one copy, as sums of the deltas that follow in the episode."""
    turns = len(rewards)
    followed = [t + 1 < turns and not starts[t + 1] for t in range(turns)]
    trains = [active[t] and (dones[t] or followed[t]) for t in range(turns)]
    advantages = []
    for first in range(turns):
        total, weight, t = 0.0, 1.0, first
        while t < turns and trains[t]:
            behind = 0.0 if dones[t] else values[t + 1]
            total += weight * (rewards[t] + gamma * behind - values[t])
            if dones[t]:
                break
            weight *= gamma * lam
            t += 1
        advantages.append(total)
    return advantages, trains


def random_flags(random, turns, copies):
    """dones, active and starts as a memory would hold them."""
    memory = RolloutMemory((1,), copies=copies)
    for _ in range(turns):
        if random.random() < 0.1:
            memory.start_episodes()
        dones, active = random.random(copies) < 0.2, random.random(copies) < 0.8
        add(memory, np.zeros(copies), dones=dones, active=active)
    return memory.dones[:turns], memory.active[:turns], memory.starts[:turns]


@pytest.mark.uncompiled
@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    turns=st.integers(1, 25),
    gamma=st.sampled_from([0.0, 0.9, 1.0]),
    lam=st.sampled_from([0.0, 0.8, 1.0]),
)
def test_advantages_are_the_discounted_sums_of_deltas(seed, turns, gamma, lam):
    random = np.random.default_rng(seed)
    rewards, values = random.normal(size=(2, turns, 3)).astype(np.float32)
    dones, active, starts = random_flags(random, turns, 3)
    advantages, returns = np.full_like(rewards, 77), np.full_like(rewards, 77)
    trains = np.empty_like(active)
    find_trainable(dones, active, starts, trains)
    advantages_and_returns(rewards, values, dones, trains, gamma, lam, advantages, returns)
    for copy in range(3):
        columns = (array[:, copy] for array in (rewards, values, dones, starts, active))
        expected, expected_trains = slow_advantages(*columns, gamma, lam)
        assert trains[:, copy].tolist() == expected_trains
        chosen = trains[:, copy]
        assert np.allclose(advantages[chosen, copy], np.array(expected)[chosen], atol=1e-4)
    assert np.allclose(returns[trains], (advantages + values)[trains], atol=1e-5)


@pytest.mark.uncompiled
def test_the_last_turn_of_an_unfinished_episode_only_lends_its_value():
    memory = RolloutMemory((1,), copies=1)
    for number in (1, 2):
        add(memory, [0], number=number)
    rewards, values = memory.rewards[:2], memory.values[:2]
    flags = (memory.dones[:2], memory.active[:2], memory.starts[:2])
    advantages, returns = np.empty_like(rewards), np.empty_like(rewards)
    trains = np.empty_like(flags[0])
    find_trainable(*flags, trains)
    advantages_and_returns(rewards, values, flags[0], trains, 0.5, 1.0, advantages, returns)
    assert trains[:, 0].tolist() == [True, False]
    assert returns[0, 0] == 10 + 0.5 * 2.5


@pytest.mark.uncompiled
def test_returns_so_far_begin_with_each_episode():
    random = np.random.default_rng(0)
    _, active, starts = random_flags(random, 40, 2)
    rewards = random.random((40, 2)).astype(np.float32)
    returns = np.empty_like(rewards)
    returns_so_far(rewards, active, starts, 0.5, returns)
    for copy in range(2):
        total = 0.0
        for t in range(40):
            total = rewards[t, copy] + (0 if starts[t, copy] else 0.5 * total)
            assert returns[t, copy] == pytest.approx(total if active[t, copy] else 0, abs=1e-5)


@pytest.mark.uncompiled
def test_actions_are_drawn_with_the_probabilities_of_the_softmax():
    logits = np.log(np.float32([0.2, 0.5, 0.3]))
    outputs = np.tile(np.append(logits + 50, np.float32(9)), (10_000, 1))
    fractions = ((np.arange(10_000) + 0.5) / 10_000).astype(np.float32)
    actions, log_probs = np.empty(10_000, np.int64), np.empty(10_000, np.float32)
    choose_actions(outputs, fractions, actions, log_probs)
    assert np.bincount(actions) == pytest.approx([2000, 5000, 3000], abs=2)
    assert np.allclose(log_probs, logits[actions], atol=1e-5)


@pytest.mark.uncompiled
def test_a_fraction_of_nearly_one_takes_the_last_action():
    actions, log_probs = np.empty(1, np.int64), np.empty(1, np.float32)
    choose_actions(np.zeros((1, 4), np.float32), np.float64([1.0]), actions, log_probs)
    assert actions[0] == 2


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
