"""A rollout arrives whole, in shared memory or as bytes, or is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keisei.core.experience_buffer import ExperienceBuffer
from keisei.shogi.vector_shogi import HISTORY
from keisei.training.parallel.packed_games import unpacked_games
from keisei.training.parallel.rollout import Rollout, RolloutLayout, TornRolloutError
from keisei.training.parallel.rollout_statistics import SIZE, RolloutStatistics
from keisei.training.parallel.self_play import SelfPlay, games_state_layout, groups_of
from keisei.training.parallel.shared_memory import SharedMemory, size_of
from tests.core.small import bits, small_agent, small_config
from tests.training.parallel.collecting import experience

STEPS, GAMES = 4, 3
MAX_MOVES = 20
CONFIG = small_config(
    games={"count": GAMES, "max_moves": MAX_MOVES}, training={"rollout_length": STEPS}
)
LAYOUT = RolloutLayout(CONFIG, GAMES)


class Written:
    """A rollout full of nonsense, and what was written into it."""

    def __init__(self, seed, steps, *, epoch=1, number=0, rollout=None):
        random = np.random.default_rng(seed)
        self.rollout = rollout or LAYOUT.private()
        self.rollout.begin(epoch, number)
        for _ in range(steps):
            self.rollout.buffer.add_batch(**nonsense_step(random))
        self.last_values = random.random(GAMES, np.float32)
        self.statistics = RolloutStatistics.from_array(random.integers(0, 99, SIZE).astype(float))
        self.state = {
            name: nonsense(random, kind, shape)
            for name, kind, shape in games_state_layout(CONFIG, GAMES)
        }
        self.state["ply"] = random.integers(0, MAX_MOVES + 1, GAMES, np.int32)
        self.rollout.finish(self.last_values, self.statistics, self.state)

    def assert_read_from(self, other):
        assert experience(other.buffer) == experience(self.rollout.buffer)
        assert other.last_values.tobytes() == self.last_values.tobytes()
        assert other.statistics == self.statistics
        assert bits(games_of(other)) == bits(without_the_future(self.state))


def games_of(rollout):
    return unpacked_games(rollout.copy_of_state(), MAX_MOVES)


def without_the_future(state):
    """Of histories what the games have played so far, and then zeros."""
    past = np.arange(MAX_MOVES + 1) <= state["ply"][:, np.newaxis]
    return {name: array * past if name in HISTORY else array for name, array in state.items()}


def nonsense(random, kind, shape):
    """An array of any bytes; truth values stay truth values."""
    if kind == np.bool_:
        return random.random(shape) < 0.5
    count = np.dtype(kind).itemsize * int(np.prod(shape))
    return np.frombuffer(random.bytes(count), kind).reshape(shape)


def nonsense_step(random):
    counts = random.integers(1, 40, GAMES)
    step = {
        name: nonsense(random, kind, shape[1:])
        for name, kind, shape in ExperienceBuffer.layout(STEPS, GAMES)
        if len(shape) > 1 and not name.startswith("legal_")
    }
    del step["advantages"], step["returns"]
    legal = random.integers(0, 2**16, (GAMES, 40)).astype(np.uint16)
    return {**step, "legal": legal, "legal_counts": counts}


@given(
    seed=st.integers(0, 2**32 - 1),
    steps=st.integers(1, STEPS),
    before=st.integers(1, STEPS),
    epoch=st.integers(0, 2**63 - 1),
    number=st.integers(0, 2**63 - 1),
)
@settings(max_examples=50, deadline=None)
def test_bytes_give_the_rollout_back_wherever_they_are_loaded(seed, steps, before, epoch, number):
    written = Written(seed, steps, epoch=epoch, number=number)
    other = Written(seed + 1, before).rollout  # what was there before does not matter
    other.load_bytes(written.rollout.to_bytes())
    other.check(epoch, number)
    written.assert_read_from(other)


@given(seed=st.integers(0, 2**32 - 1), steps=st.integers(1, STEPS))
@settings(max_examples=20, deadline=None)
def test_what_one_process_writes_to_shared_memory_another_reads(seed, steps):
    memory = SharedMemory(size_of(LAYOUT.specs))
    ours, theirs = (Rollout(memory.arrays(LAYOUT.specs), LAYOUT) for _ in range(2))
    written = Written(seed, steps, epoch=3, number=5, rollout=theirs)
    ours.check(3, 5)
    written.assert_read_from(ours)


@given(data=st.data())
@settings(max_examples=50, deadline=None)
def test_bytes_of_another_length_are_refused(data):
    whole = Written(1, data.draw(st.integers(1, STEPS))).rollout.to_bytes()
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    for wrong in (cut, whole + b"?"):
        with pytest.raises(TornRolloutError, match=f"{len(wrong)} bytes are not a"):
            LAYOUT.private().load_bytes(wrong)


@given(st.binary(max_size=300))
@settings(max_examples=50, deadline=None)
def test_nonsense_is_not_a_rollout(data):
    with pytest.raises(TornRolloutError):
        LAYOUT.private().load_bytes(data)


@pytest.mark.parametrize(("epoch", "number"), [(1, 8), (2, 7), (0, 7), (7, 1)])
def test_the_rollout_of_another_worker_or_order_is_refused(epoch, number):
    rollout = Written(1, 2, epoch=1, number=7).rollout
    with pytest.raises(TornRolloutError, match=rf"{number} of epoch {epoch} is marked \[1, 7, 7\]"):
        rollout.check(epoch, number)


def test_a_rollout_that_was_begun_and_not_finished_is_refused():
    rollout = Written(1, STEPS, epoch=1, number=7).rollout
    rollout.begin(1, 8)
    for number in (7, 8):
        with pytest.raises(TornRolloutError, match="marked"):
            rollout.check(1, number)
    rollout.buffer.add_batch(**nonsense_step(np.random.default_rng(1)))
    with pytest.raises(TornRolloutError, match=r"marked \[1, 8, -1\]"):
        rollout.check(1, 8)


def test_a_rollout_holds_the_games_of_its_group():
    (group,) = groups_of(CONFIG, None)
    play = SelfPlay(CONFIG, small_agent(), None, group)
    rollout = LAYOUT.private()
    rollout.begin(1, 0)
    values, statistics = play.collect(rollout.buffer)
    rollout.finish(values, statistics, play.live_state())
    rollout.check(1, 0)
    assert bits(games_of(rollout)) == bits(play.state())
    assert len(rollout.buffer) == STEPS * GAMES


def test_workers_may_have_a_rollout_length_of_their_own():
    config = small_config(training={"rollout_length": 4, "parallel": {"rollout_length": 9}})
    assert RolloutLayout(config, 2).steps == 9
    assert LAYOUT.steps == STEPS
