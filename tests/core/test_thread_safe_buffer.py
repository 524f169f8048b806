"""`ThreadSafeBuffer`: a buffer, and one thread's turns are whole in what another reads."""

import sys
from threading import Event, Thread

import numpy as np
import pytest

from keisei.core.replay_buffer import Batch, Buffer
from keisei.core.thread_safe_buffer import ThreadSafeBuffer

COPIES, SIZE, CAPACITY = 8, 40, 30
SETTINGS = {"copies": COPIES, "n_frames": 2, "n_step": 3, "gamma": 1.0}


def buffer(kind=ThreadSafeBuffer):
    return kind(CAPACITY, (SIZE,), **SETTINGS)


def add_turn(memory, number):
    """A turn all of whose fields say its number; every seventh ends an episode."""
    memory.add(
        np.full((COPIES, SIZE), number, np.float32),
        np.full(COPIES, number),
        np.full(COPIES, number, np.float32),
        np.full(COPIES, number % 7 == 0),
        np.full(COPIES, number % 5 != 0),
    )


class Writer:
    """A thread that adds turns 1, 2, 3, ... as fast as it can while the context is entered."""

    def __init__(self, memory):
        self._memory, self._stop, self.turns = memory, Event(), 0
        self._thread = Thread(target=self._write)

    def _write(self):
        while not self._stop.is_set():
            add_turn(self._memory, self.turns + 1)
            self.turns += 1

    def __enter__(self):
        self._interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)  # threads take turns in the middle of things
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()
        sys.setswitchinterval(self._interval)


def is_whole(memory):
    """Whether the turns of a buffer nobody writes to are whole, and in the order of their life."""
    filled = memory._filled
    ages = (memory._oldest + np.arange(filled)) % CAPACITY
    numbers = memory.actions[ages, 0]
    turns = numbers[:, None]
    return bool(
        (np.diff(numbers) == 1).all()
        and (memory.actions[ages] == turns).all()
        and (memory.states[ages] == turns[..., None]).all()
        and (memory.rewards[ages] == turns).all()
        and (memory.dones[ages] == (turns % 7 == 0)).all()
        and (memory.active[ages] == (turns % 5 != 0)).all()
        and (memory.starts[ages[1:]] == starts(turns[1:])).all()
        and len(memory) == np.count_nonzero(memory.active[ages])
    )


def starts(turns):
    """Behind an end, where the agent is not there, and where it is again."""
    return (turns % 7 == 1) | (turns % 5 == 0) | (turns % 5 == 1)


def assert_whole_batch(batch):
    """An episode of at most four turns lies between two turns that are multiples of 5."""
    first = batch.actions
    assert (batch.states[:, SIZE:] == first[:, None]).all()
    before = np.where(starts(first), 0, first - 1)
    assert (batch.states[:, :SIZE] == before[:, None]).all()
    ended = batch.dones.astype(bool)
    lengths = np.where(first % 7 == 0, 1, np.where(first % 7 == 6, 2, 3))
    lengths[~ended] = 3
    sums = lengths * first + lengths * (lengths - 1) // 2
    assert np.array_equal(batch.returns, sums.astype(np.float32))
    following = np.where(ended, 0, first + 3)
    assert (batch.next_states[:, SIZE:] == following[:, None]).all()


def test_a_snapshot_at_full_speed_never_shows_a_torn_turn():
    memory = buffer()
    with Writer(memory) as writer:
        for _ in range(1000):  # without the lock one in about 80 is torn
            assert is_whole(memory.snapshot())
    assert writer.turns > 10 * CAPACITY


def test_samples_at_full_speed_never_show_a_torn_transition():
    memory = buffer()
    for number in range(-CAPACITY, 1):
        add_turn(memory, number)
    with Writer(memory) as writer:
        for _ in range(1000):
            assert_whole_batch(memory.sample(16))
            states = memory.current_state(np.full((COPIES, SIZE), -1.0))
            assert (states[:, :SIZE] == states[:1, :1]).all()
    assert writer.turns > 10 * CAPACITY


def is_torn(memory):
    """Whether a snapshot shows a torn turn, or cannot even be put together."""
    try:
        return not is_whole(memory.snapshot())
    except ValueError:
        return True


def test_without_the_lock_torn_turns_are_seen():
    memory = buffer(Buffer)
    with Writer(memory):
        assert any(is_torn(memory) for _ in range(5000))


def test_episodes_can_be_begun_and_the_buffer_cleared_while_it_is_written_to():
    memory = buffer()
    with Writer(memory):
        for _ in range(200):
            memory.clear()
            memory.start_episodes()
            snapshot = memory.snapshot()
            rows = snapshot.actions[: snapshot._filled]
            assert (snapshot.states[: snapshot._filled] == rows[..., None]).all()


def test_it_is_the_same_buffer(tmp_path):
    one, other = buffer(), buffer(Buffer)
    for memory in (one, other):
        for number in range(50):
            add_turn(memory, number)
    for batches in ((one, other), (one.snapshot(), other.snapshot())):
        samples = [memory.sample(30) for memory in batches]
        for name in Batch._fields:
            assert np.array_equal(*(getattr(sample, name) for sample in samples)), name
    one.save(tmp_path / "agent.npz")
    assert isinstance(ThreadSafeBuffer.load(tmp_path / "agent.npz"), ThreadSafeBuffer)
    with pytest.raises(ValueError, match="it needs 5 turns"):
        ThreadSafeBuffer(4, (SIZE,), **SETTINGS)
