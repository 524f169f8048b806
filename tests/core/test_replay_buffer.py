"""`Buffer`: what is sampled is what a slow reading of the agent's life says."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keisei.core.replay_buffer import Batch, Buffer, NothingToSampleError

SIZE = 2


class Life:
    """Everything that was ever added, turn by turn, as lists; `None` where a copy was inactive."""

    def __init__(self, copies):
        self.turns = [[] for _ in range(copies)]
        self.breaks = set()  # numbers of turns that begin episodes in all copies

    def episode(self, copy, turn):
        """[first, last] numbers of the turns around `turn` in its episode, as far as they go."""
        turns = self.turns[copy]
        first = last = turn
        while first > 0 and first not in self.breaks and _goes_on(turns[first - 1]):
            first -= 1
        while last + 1 < len(turns) and last + 1 not in self.breaks and _goes_on(turns[last]):
            if turns[last + 1] is None:
                break
            last += 1
        return first, last

    def stacked(self, copy, turn, frames):
        """[F * S] the turn's frames, zeros before its episode."""
        first, _ = self.episode(copy, turn)
        rows = [np.zeros(SIZE)] * max(frames - 1 - (turn - first), 0)
        rows += [self.turns[copy][t][0] for t in range(max(turn - frames + 1, first), turn + 1)]
        return np.concatenate(rows)

    def transition(self, copy, turn, buffer):
        """The expected row of a batch, or None if the turn is not complete."""
        forgotten = max(len(self.turns[copy]) - buffer.capacity, 0)
        if turn < forgotten or self.turns[copy][turn] is None:
            return None
        first, last = self.episode(copy, turn)
        if max(turn - buffer.n_frames + 1, first) < forgotten:
            return None
        used = min(buffer.n_step, last - turn + 1)
        rewards = [self.turns[copy][turn + k][2] for k in range(used)]
        done = self.turns[copy][turn + used - 1][3]
        if not done and turn + buffer.n_step > last:
            return None
        following = np.zeros(buffer.n_frames * SIZE)
        if not done:
            following = self.stacked(copy, turn + used, buffer.n_frames)
        returns = sum(buffer.gamma**k * reward for k, reward in enumerate(rewards))
        state = self.stacked(copy, turn, buffer.n_frames)
        action = self.turns[copy][turn][1]
        return Batch(state, action, returns, following, float(done), buffer.gamma**used)

    def transitions(self, buffer):
        rows = (
            self.transition(copy, turn, buffer)
            for copy, turns in enumerate(self.turns)
            for turn in range(len(turns))
        )
        return {int(row.actions): row for row in rows if row is not None}


def _goes_on(turn):
    return turn is not None and not turn[3]


def live(buffer, life, turns, random, *, done_share=0.2, inactive_share=0.2, break_share=0.05):
    """Add random turns to both; an action's number names its turn."""
    for _ in range(turns):
        number = len(life.turns[0])
        if random.random() < break_share:
            buffer.start_episodes()
            life.breaks.add(number)
        states = random.random((buffer.copies, SIZE)).astype(np.float32)
        actions = number * buffer.copies + np.arange(buffer.copies)
        rewards = random.random(buffer.copies).astype(np.float32)
        dones = random.random(buffer.copies) < done_share
        active = random.random(buffer.copies) >= inactive_share
        rows = zip(states, actions, rewards, dones, strict=True)
        for turn, row, acts in zip(life.turns, rows, active, strict=True):
            turn.append(row if acts else None)
        buffer.add(states, actions, rewards, dones, active)


def assert_rows_are(batch, expected):
    for index, action in enumerate(batch.actions):
        row = expected[int(action)]
        for name in Batch._fields:
            got, wanted = getattr(batch, name)[index], getattr(row, name)
            assert np.allclose(got, wanted, rtol=1e-5), (name, got, wanted)


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    copies=st.integers(1, 3),
    frames=st.integers(1, 4),
    steps=st.integers(1, 4),
    spare=st.integers(0, 9),
    turns=st.integers(0, 40),
    shares=st.tuples(*[st.sampled_from([0.0, 0.1, 0.5])] * 3),
)
def test_samples_are_the_complete_transitions_of_a_life(
    seed, copies, frames, steps, spare, turns, shares
):
    random = np.random.default_rng(seed)
    buffer = Buffer(
        frames + steps + spare, (SIZE,), copies=copies, n_frames=frames, n_step=steps, gamma=0.9
    )
    life = Life(copies)
    names = ("done_share", "inactive_share", "break_share")
    live(buffer, life, turns, random, **dict(zip(names, shares, strict=True)))
    kept = [turn for copy in life.turns for turn in copy[-buffer.capacity :]]
    assert len(buffer) == sum(turn is not None for turn in kept)
    expected = life.transitions(buffer)
    if not expected:
        with pytest.raises(NothingToSampleError):
            buffer.sample(5)
        return
    batch = buffer.sample(8 * len(expected) + 40)
    assert_rows_are(batch, expected)
    assert set(batch.actions.tolist()) <= set(expected)


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), frames=st.integers(1, 4), turns=st.integers(0, 30),
    inactive=st.sampled_from([0.0, 0.3]),
)  # fmt: skip
def test_the_current_state_is_what_a_sample_will_show_later(seed, frames, turns, inactive):
    random = np.random.default_rng(seed)
    buffer, life = Buffer(frames + 3, (SIZE,), copies=2, n_frames=frames), Life(2)
    live(buffer, life, turns, random, inactive_share=inactive)
    observations = random.random((2, SIZE)).astype(np.float32)
    for copy in range(2):
        life.turns[copy].append((observations[copy], 0, 0.0, False))
    expected = [life.stacked(copy, turns, frames) for copy in range(2)]
    assert np.array_equal(buffer.current_state(observations), np.float32(expected))


@pytest.mark.parametrize("done_share", [0.0, 0.3, 1.0])
def test_every_complete_transition_is_equally_likely(done_share):
    random = np.random.default_rng(1)
    buffer, life = Buffer(20, (SIZE,), copies=3, n_frames=2, n_step=3), Life(3)
    live(buffer, life, 33, random, done_share=done_share)
    complete = life.transitions(buffer)
    draws = 400 * len(complete)
    counts = np.bincount(buffer.sample(draws).actions)
    assert set(np.flatnonzero(counts).tolist()) == set(complete)
    assert abs(counts[counts > 0] - 400).max() < 5 * 400**0.5


@pytest.mark.uncompiled
def test_a_rare_complete_transition_is_found():
    buffer = Buffer(500, (1,), copies=4, n_step=3)
    for turn in range(500):
        active = np.arange(4) == 2 if turn == 250 else np.zeros(4, bool)
        zeros = np.zeros(4, np.float32)
        buffer.add(np.full((4, 1), turn), np.full(4, turn), zeros, active, active)
    assert len(buffer) == 1
    assert buffer.sample(3).states.tolist() == [[250.0]] * 3


def added(buffer, count, **given):
    """The buffer after `count` turns of a single copy that see 1, 2, 3 and so on."""
    for number in range(1, count + 1):
        turn = {"rewards": np.float32([number]), "dones": np.array([False])} | given
        buffer.add(np.float32([[number]]), np.array([0]), active=np.array([True]), **turn)
    return buffer


def test_an_empty_buffer_says_so():
    with pytest.raises(NothingToSampleError, match="no turn has been added"):
        Buffer(4, (1,)).sample(1)


@pytest.mark.uncompiled
def test_turns_whose_future_is_unknown_are_not_sampled():
    buffer = added(Buffer(10, (1,), n_step=3), 3)
    with pytest.raises(NothingToSampleError, match="none of the 3 turns stored is complete"):
        buffer.sample(1)
    added(buffer, 1)
    batch = buffer.sample(4)
    assert batch.states.tolist() == [[1.0]] * 4
    assert batch.returns[0] == pytest.approx(1 + 0.99 * 2 + 0.99**2 * 3)
    assert batch.discounts[0] == pytest.approx(0.99**3)


def test_a_ring_too_short_for_one_transition_is_refused():
    with pytest.raises(ValueError, match="it needs 8 turns"):
        Buffer(7, (1,), n_frames=5, n_step=3)


@pytest.mark.uncompiled
def test_observations_of_any_shape_and_kind_are_kept():
    buffer = Buffer(5, (2, 3), copies=2, n_frames=2, state_dtype=np.uint8)
    seen = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    for _ in range(3):
        buffer.add(seen, np.zeros(2, int), np.zeros(2), np.zeros(2, bool), np.ones(2, bool))
    assert buffer.current_state(seen).tolist() == [[*range(6)] * 2, [*range(6, 12)] * 2]
    assert buffer.sample(1).next_states.dtype == np.float32


def test_a_cleared_buffer_begins_anew():
    buffer = added(Buffer(4, (1,), n_frames=2), 6)
    buffer.clear()
    assert len(buffer) == 0
    assert buffer.current_state(np.float32([[7]])).tolist() == [[0, 7]]


def filled(seed=3):
    buffer, life = Buffer(12, (SIZE,), copies=3, n_frames=3, n_step=2, seed=seed), Life(3)
    live(buffer, life, 20, np.random.default_rng(seed))
    return buffer


def assert_same(one, other):
    for name in Batch._fields:
        assert np.array_equal(getattr(one, name), getattr(other, name)), name


def assert_goes_on_alike(buffer, copy):
    assert len(copy) == len(buffer)
    assert_same(buffer.sample(30), copy.sample(30))
    for one in (buffer, copy):
        live(one, Life(3), 7, np.random.default_rng(8))
    assert_same(buffer.sample(30), copy.sample(30))
    observations = np.ones((3, SIZE), np.float32)
    assert np.array_equal(buffer.current_state(observations), copy.current_state(observations))


@pytest.mark.uncompiled
def test_a_saved_buffer_goes_on_as_the_one_that_was_saved(tmp_path):
    buffer = filled()
    buffer.sample(5)
    buffer.save(tmp_path / "agent.npz")
    assert_goes_on_alike(buffer, Buffer.load(tmp_path / "agent.npz"))
    assert [path.name for path in tmp_path.iterdir()] == ["agent.npz"]


def test_a_buffer_goes_on_from_the_state_of_another(tmp_path):
    buffer = filled()
    copy = Buffer(12, (SIZE,), copies=3, n_frames=3, n_step=2, seed=77)
    copy.load_state(*buffer.state())
    assert_goes_on_alike(buffer, copy)


def test_a_snapshot_does_not_change_with_the_original():
    buffer = filled()
    snapshot, expected = buffer.snapshot(), buffer.snapshot().sample(30)
    live(buffer, Life(3), 9, np.random.default_rng(1))
    assert_same(snapshot.sample(30), expected)
    assert not np.shares_memory(buffer.states, snapshot.states)


def test_the_state_of_another_kind_of_buffer_is_refused():
    with pytest.raises(ValueError, match="the buffer has n_step 1, what is loaded 2"):
        Buffer(12, (SIZE,), copies=3, n_frames=3).load_state(*filled().state())


@pytest.mark.parametrize("damage", ["cut", "changed", "text", "foreign", "format", "empty"])
def test_a_damaged_or_foreign_file_is_refused_with_a_sentence(tmp_path, damage):
    path = tmp_path / "agent.npz"
    filled().save(path)
    data = bytearray(path.read_bytes())
    if damage == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "changed":
        data[len(data) // 4] ^= 0xFF
        path.write_bytes(data)
    elif damage == "format":
        text = np.frombuffer(b'{"format": "other-1"}', np.uint8)
        np.savez(path, **{**filled().state()[0], "values": text})
    elif damage == "foreign":
        np.savez(path, states=np.zeros(3))
    else:
        path.write_bytes(b"hello" if damage == "text" else b"")
    with pytest.raises(ValueError, match="is damaged or not a replay buffer: "):
        Buffer.load(path)


def test_a_file_that_is_not_there_is_told_as_such(tmp_path):
    with pytest.raises(FileNotFoundError):
        Buffer.load(tmp_path / "nothing.npz")


def test_the_global_random_stream_is_not_used():
    before = np.random.get_state()[1].copy()
    filled().sample(50)
    assert np.array_equal(np.random.get_state()[1], before)
