"""`ExperienceBuffer`: batches of workers travel as bytes, and become one buffer."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keisei.core.experience_buffer import BufferOverflowError, ExperienceBuffer
from tests.core.random_steps import (
    ONE_VALUE_A_STEP,
    assert_holds,
    filled,
    legal_lists,
    of_games,
    random_step,
)


@pytest.fixture
def random():
    return np.random.default_rng(5)


def through_bytes(batch):
    """The batch as another process would get it: bytes, a type and a shape, no pickle."""
    sent = {name: (array.tobytes(), array.dtype.str, array.shape) for name, array in batch.items()}
    return {
        name: np.frombuffer(data, kind).reshape(shape) for name, (data, kind, shape) in sent.items()
    }


def test_a_batch_survives_the_way_through_plain_bytes(random):
    steps = [random_step(random, 3) for _ in range(4)]
    batch = filled(steps, capacity=7).get_serializable_batch()
    assert all(array.flags.c_contiguous and not array.dtype.hasobject for array in batch.values())
    assert batch["legal_pool"].size == sum(int(step["legal_counts"].sum()) for step in steps)
    copy = ExperienceBuffer(4, 3)
    copy.merge_worker_buffers([through_bytes(batch)])
    assert_holds(copy, steps)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    shapes=st.lists(st.tuples(st.integers(0, 4), st.integers(1, 4)), min_size=1, max_size=4),
    spare=st.integers(0, 2),
)
def test_merged_buffers_hold_what_each_worker_had(seed, shapes, spare):
    random = np.random.default_rng(seed)
    played = [[random_step(random, games) for _ in range(steps)] for steps, games in shapes]
    workers = []
    for steps, (length, games) in zip(played, shapes, strict=True):
        worker = ExperienceBuffer(length + spare + 1, games)
        for step in steps:
            worker.add_batch(**step)
        workers.append(worker)
    games, length = sum(games for _, games in shapes), max(steps for steps, _ in shapes)
    merged = ExperienceBuffer(length + spare, games)
    merged.trains[:] = True  # of an older rollout
    merged.merge_worker_buffers([through_bytes(w.get_serializable_batch()) for w in workers])
    assert merged.filled == length
    assert len(merged) == sum(steps * games for steps, games in shapes)
    assert merged.lengths.tolist() == [steps for steps, games in shapes for _ in range(games)]
    assert merged.legal_used == sum(worker.legal_used for worker in workers)
    last_values = random.uniform(-1, 1, games).astype(np.float32)
    how = {"gamma": 0.9, "gae_lambda": 0.8, "cut_games": "bootstrap"}
    merged.compute_advantages_and_returns(last_values, **how)
    lists, column = legal_lists(merged), 0
    for worker, (steps, count) in zip(workers, shapes, strict=True):
        columns = slice(column, column + count)
        worker.compute_advantages_and_returns(last_values[columns], **how)
        for name in ("positions", *ONE_VALUE_A_STEP, "advantages", "returns"):
            part = getattr(merged, name)[:steps, columns]
            assert np.array_equal(part, getattr(worker, name)[:steps]), name
        assert [row[columns] for row in lists[:steps]] == legal_lists(worker)
        assert not merged.trains[steps:, columns].any()
        column += count


def test_batches_are_placed_in_any_order(random):
    steps = [[random_step(random, games) for _ in range(3)] for games in (2, 1)]
    buffer = ExperienceBuffer(3, 3)
    buffer.place(filled(steps[1]).get_serializable_batch(), 2)
    assert (buffer.filled, buffer.lengths.tolist()) == (3, [0, 0, 3])
    buffer.place(filled(steps[0]).get_serializable_batch(), 0)
    whole = [
        {name: np.concatenate([one[name], other[name]]) for name in one}
        for one, other in zip(*steps, strict=True)
    ]
    assert_holds(buffer, whole)


def test_a_merged_batch_can_be_sent_on(random):
    """As a node of a cluster does: its workers' games, of different lengths, become one batch."""
    node = ExperienceBuffer(3, 3)
    node.place(filled([random_step(random, 2) for _ in range(3)]).get_serializable_batch(), 0)
    node.place(filled([random_step(random, 1) for _ in range(2)]).get_serializable_batch(), 2)
    copy = ExperienceBuffer(4, 3)
    copy.merge_worker_buffers([through_bytes(node.get_serializable_batch())])
    assert copy.lengths.tolist() == [3, 3, 2]
    assert np.array_equal(copy.trains[:3], node.trains)
    assert not copy.trains[3].any()
    assert legal_lists(copy)[:2] == legal_lists(node)[:2]


@pytest.mark.parametrize(("shape", "column"), [((4, 1), 0), ((1, 2), 2), ((1, 1), 1), ((2, 1), 2)])
def test_a_batch_that_does_not_fit_is_not_placed(random, shape, column):
    """Too many steps, columns that are not there, one that is filled, too many legal moves."""
    buffer = ExperienceBuffer(3, 3, legal_moves=2)
    step = random_step(random, 1, most_legal=1)
    buffer.place(filled([step]).get_serializable_batch(), 1)
    steps, games = shape
    made = [random_step(random, games, most_legal=1) for _ in range(steps)]
    if shape == (2, 1):
        made[1]["legal_counts"][:] = 17
    with pytest.raises(BufferOverflowError):
        buffer.place(filled(made).get_serializable_batch(), column)
    assert (buffer.filled, buffer.legal_used, buffer.lengths.tolist()) == (1, 1, [0, 1, 0])
    assert not buffer.positions[:, [0, 2]].any()


def test_a_column_that_is_not_filled_again_does_not_train_again(random):
    step = random_step(random, 2)
    step["trains"][:] = True
    buffer = filled([step], capacity=2)
    buffer.clear()
    assert not buffer.trains.any()
    buffer.place(filled([of_games(step, slice(1))]).get_serializable_batch(), 0)
    assert buffer.trains.tolist() == [[True, False], [False, False]]


def test_a_step_of_all_games_is_refused_behind_games_of_different_lengths(random):
    buffer = ExperienceBuffer(3, 2)
    buffer.place(filled([random_step(random, 1)]).get_serializable_batch(), 0)
    with pytest.raises(ValueError, match="games of different lengths"):
        buffer.add_batch(**random_step(random, 2))


def test_a_merged_buffer_that_is_cleared_can_be_merged_into_again(random):
    merged = ExperienceBuffer(2, 2)
    for _ in range(3):
        steps = [random_step(random, 2) for _ in range(2)]
        workers = [
            filled([of_games(step, slice(game, game + 1)) for step in steps]) for game in (0, 1)
        ]
        merged.clear()
        merged.merge_worker_buffers([worker.get_serializable_batch() for worker in workers])
        assert_holds(merged, steps)


@pytest.mark.parametrize(
    ("shapes", "options"),
    [
        ([], {}),
        ([(2, 1), (2, 1)], {}),
        ([(2, 3), (2, 1)], {}),
        ([(5, 1), (5, 2)], {}),
        ([(2, 1), (2, 2)], {"legal_moves": 1}),
    ],
    ids=["none", "few games", "many games", "many steps", "small pool"],
)
def test_batches_that_do_not_fill_the_buffer_are_refused(random, shapes, options):
    batches = []
    for steps, games in shapes:
        made = [random_step(random, games) for _ in range(steps)]
        for step in made:
            step["legal_counts"][:] = 3
        batches.append(filled(made).get_serializable_batch())
    buffer = ExperienceBuffer(4, 3, **options)
    with pytest.raises(BufferOverflowError):
        buffer.merge_worker_buffers(batches)
    assert (len(buffer), buffer.legal_used) == (0, 0)
    assert not buffer.positions.any()


def test_a_buffer_that_holds_something_is_not_merged_into(random):
    steps = [random_step(random, 2)]
    buffer = filled(steps, capacity=2)
    other = filled([random_step(random, 2)])
    with pytest.raises(BufferOverflowError, match="do not fill an empty buffer of 2 steps"):
        buffer.merge_worker_buffers([other.get_serializable_batch()])
    assert_holds(buffer, steps)
