"""What a shard hands over: whole or refused, by shared memory or by pipe."""

import numpy as np
import pytest

from keisei.training.parallel.shared_memory import SharedMemory, size_of
from keisei.training.parallel.slots import TornRolloutError
from keisei.training.parallel.world_rollout import EpochNotes, WorldRolloutLayout
from tests.core.small import bits

NOTES = EpochNotes(4, 21, {"apples": 1 / 3})
MEMORIES = [
    {"states": np.zeros((0, 3, 2), np.float32), "actions": np.zeros((0, 3), np.int64)},
    {},
]
LAYOUT = WorldRolloutLayout(MEMORIES, turns=5, copies=3, state_bytes=10)


def turns(count, copies):
    random = np.random.default_rng(count)
    return {
        "states": random.random((count, copies, 2), np.float32),
        "actions": random.integers(0, 9, (count, copies)),
    }


def filled(rollout, *, copies=3, number=7):
    rollout.begin(2, number)
    rollout.put_turns(0, turns(4, copies))
    rollout.put_turns(1, {})
    rollout.finish(np.arange(2.0 * copies).reshape(2, copies), NOTES, b"state")
    return rollout


@pytest.mark.parametrize("copies", [3, 2])
def test_what_was_put_in_is_read_by_the_copies_there_are(copies):
    memory = SharedMemory(size_of(LAYOUT.specs))
    filled(LAYOUT.over(memory.arrays(LAYOUT.specs)), copies=copies)
    rollout = LAYOUT.over(memory.arrays(LAYOUT.specs))
    rollout.check(2, 7)
    assert bits(rollout.turns_of(0)) == bits(turns(4, copies))
    assert rollout.turns_of(1) == {}
    assert rollout.rewards.tolist() == np.arange(2.0 * copies).reshape(2, copies).tolist()
    assert rollout.notes == NOTES
    assert rollout.copy_of_state()["state"].tobytes() == b"state"


@pytest.mark.parametrize(("epoch", "number"), [(1, 7), (2, 6)])
def test_a_rollout_of_somebody_else_is_refused(epoch, number):
    with pytest.raises(TornRolloutError, match=r"marked \[2, 7, 7\]"):
        filled(LAYOUT.private()).check(epoch, number)


def test_a_rollout_that_is_being_written_is_refused():
    rollout = filled(LAYOUT.private())
    rollout.begin(2, 8)
    with pytest.raises(TornRolloutError):
        rollout.check(2, 8)


def test_a_state_that_has_grown_is_refused_in_words():
    rollout = LAYOUT.private()
    with pytest.raises(ValueError, match="state of the epoch take 11 bytes where 10"):
        rollout.finish(np.zeros((2, 3)), NOTES, bytes(11))


def test_it_travels_through_a_pipe():
    rollout = LAYOUT.private()
    rollout.load_bytes(filled(LAYOUT.private()).to_bytes())
    rollout.check(2, 7)
    assert bits(rollout.turns_of(0)) == bits(turns(4, 3))
    with pytest.raises(TornRolloutError, match="bytes are not a rollout of"):
        rollout.load_bytes(b"short")
