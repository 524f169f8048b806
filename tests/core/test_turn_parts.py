"""Memories that take over turns in parts hold what one that saw all copies would."""

import numpy as np
import pytest

from keisei.core.replay_buffer import Buffer
from keisei.core.rollout_memory import RolloutMemory
from keisei.core.thread_safe_buffer import ThreadSafeBuffer
from keisei.core.turn_parts import MergingMemory
from keisei.gridworld.model import NoMemory
from tests.core.small import bits

COPIES = (2, 1, 3)


def rollout_memory(copies):
    return RolloutMemory((2, 3), copies=copies, n_frames=2)


def ring(copies):
    return ThreadSafeBuffer(9, (2, 3), copies=copies, n_frames=2, n_step=2)


def play(memories, turns, random):
    """Add the same turns to a memory of all copies and to memories of some each."""
    whole, *parts = memories
    ends = np.cumsum(COPIES)
    for _ in range(turns):
        states = random.random((ends[-1], 2, 3), np.float32)
        rewards, actions = random.random(ends[-1], np.float32), random.integers(0, 4, ends[-1])
        dones, active = random.random((2, ends[-1])) < 0.3
        said = random.random((2, ends[-1]), np.float32)
        for memory, rows in zip(
            (whole, *parts),
            (slice(None), *(slice(e - c, e) for c, e in zip(COPIES, ends, strict=True))),
            strict=True,
        ):
            if isinstance(memory, RolloutMemory):
                memory.expect(memory.current_state(states[rows]), said[0, rows], said[1, rows])
            memory.add(states[rows], actions[rows], rewards[rows], dones[rows], active[rows])


@pytest.mark.parametrize("make", [rollout_memory, ring])
def test_parts_side_by_side_are_what_one_memory_of_all_copies_holds(make):
    random = np.random.default_rng(3)
    whole, merged = make(6), make(6)
    parts = [make(copies) for copies in COPIES]
    for turns in (4, 3, 7, 5):  # the ring of 9 wraps in several places
        for memory in (whole, *parts):
            memory.start_episodes()
        play((whole, *parts), turns, random)
        merged.add_turns([part.stored_turns() for part in parts])
        for part in parts:
            part.clear()
        assert bits(merged.stored_turns()) == bits(whole.stored_turns())
        assert len(merged) == len(whole)


def test_a_ring_samples_what_it_was_given_in_parts():
    random = np.random.default_rng(4)
    whole, merged, parts = ring(6), ring(6), [ring(copies) for copies in COPIES]
    for _ in range(3):
        for memory in (whole, *parts):
            memory.start_episodes()
        play((whole, *parts), 5, random)
        merged.add_turns([part.stored_turns() for part in parts])
        for part in parts:
            part.clear()
    assert bits(merged.sample(50)._asdict()) == bits(whole.sample(50)._asdict())


def test_an_epoch_longer_than_the_ring_leaves_its_last_turns():
    random = np.random.default_rng(5)
    whole, merged, parts = ring(6), ring(6), [ring(copies) for copies in COPIES]
    play((whole, *parts), 13, random)
    merged.add_turns([part.stored_turns() for part in parts])
    assert bits(merged.stored_turns()) == bits(whole.stored_turns())


@pytest.mark.parametrize("make", [rollout_memory, ring])
def test_behind_a_shorter_part_nobody_acts(make):
    random = np.random.default_rng(6)
    whole, *parts = make(6), *(make(copies) for copies in COPIES)
    play((whole, *parts), 3, random)
    longer = {name: np.array(array) for name, array in parts[0].stored_turns().items()}
    shorter = [{n: a[:1] for n, a in part.stored_turns().items()} for part in parts[1:]]
    merged = make(6)
    merged.add_turns([longer, *shorter])
    turns = merged.stored_turns()
    assert len(turns["active"]) == 3
    assert not turns["active"][1:, 2:].any()
    assert turns["starts"][1:, 2:].all()
    assert bits({n: a[:, :2] for n, a in turns.items()}) == bits(longer)


def test_who_can_hand_over_turns():
    assert isinstance(rollout_memory(1), MergingMemory)
    assert isinstance(Buffer(3, (1,)), MergingMemory)
    assert not isinstance(NoMemory(), MergingMemory)
