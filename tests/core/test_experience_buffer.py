"""`ExperienceBuffer`: what goes in comes out, whole, and nothing that does not fit goes in."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keisei.core.experience_buffer import BufferOverflowError, ExperienceBuffer
from keisei.core.legal_pool import append_legal, padded_legal
from keisei.shogi.batch import POSITION_BYTES
from keisei.shogi.position import MAX_LEGAL_MOVES, NUM_ACTIONS

ONE_VALUE_A_STEP = {
    "actions": np.uint16,
    "log_probs": np.float32,
    "values": np.float32,
    "rewards": np.float32,
    "ends": np.bool_,
    "truncations": np.bool_,
    "cut_values": np.float32,
    "trains": np.bool_,
    "versions": np.int32,
}


def random_step(random, games, most_legal=40):
    """One step of all games, every array full of its own random numbers."""
    step = {
        name: random.integers(0, 2 if kind is np.bool_ else 1000, games).astype(kind)
        for name, kind in ONE_VALUE_A_STEP.items()
    }
    return {
        **step,
        "positions": random.integers(-128, 128, (games, POSITION_BYTES)).astype(np.int8),
        "legal": random.integers(0, NUM_ACTIONS, (games, MAX_LEGAL_MOVES)).astype(np.uint16),
        "legal_counts": random.integers(1, most_legal + 1, games).astype(np.int32),
    }


def of_games(step, games):
    """The part of a step that belongs to some of the games."""
    return {name: array[games] for name, array in step.items()}


def filled(steps, *, capacity=None, **options):
    buffer = ExperienceBuffer(capacity or len(steps), len(steps[0]["actions"]), **options)
    for step in steps:
        buffer.add_batch(**step)
    return buffer


def legal_lists(buffer):
    """[T][B] the legal actions of every step stored, as lists."""
    starts, counts = buffer.legal_starts[: buffer.filled], buffer.legal_counts[: buffer.filled]
    return [
        [
            buffer.legal_pool[start : start + int(count)].tolist()
            for start, count in zip(*row, strict=True)
        ]
        for row in zip(starts, counts, strict=True)
    ]


def assert_holds(buffer, steps):
    """That the buffer holds exactly these steps."""
    assert buffer.filled == len(steps)
    assert len(buffer) == len(steps) * buffer.games
    for name in ("positions", *ONE_VALUE_A_STEP):
        expected = np.array([step[name] for step in steps])
        assert np.array_equal(getattr(buffer, name)[: len(steps)], expected), name
    assert legal_lists(buffer) == [
        [row[:n].tolist() for row, n in zip(step["legal"], step["legal_counts"], strict=True)]
        for step in steps
    ]


@pytest.fixture
def random():
    return np.random.default_rng(5)


def test_a_step_of_all_games_comes_back_as_it_was_given(random):
    steps = [random_step(random, 3) for _ in range(5)]
    assert_holds(filled(steps), steps)


def test_the_largest_numbers_that_occur_fit(random):
    step = random_step(random, 2)
    step |= {"actions": np.full(2, NUM_ACTIONS - 1), "versions": np.full(2, 2**31 - 1)}
    step |= {"legal": np.full((2, MAX_LEGAL_MOVES), NUM_ACTIONS - 1, np.uint16)}
    step |= {"legal_counts": np.full(2, MAX_LEGAL_MOVES)}
    assert_holds(filled([step], legal_moves=MAX_LEGAL_MOVES), [step])


def test_a_buffer_of_one_game_takes_single_steps(random):
    steps = [random_step(random, 1) for _ in range(4)]
    buffer = ExperienceBuffer(4, 1)
    for step in steps:
        single = {name: array[0] for name, array in of_games(step, slice(None)).items()}
        count = single.pop("legal_counts")
        single["legal"] = single["legal"][:count].tolist()
        buffer.add(**single)
    assert_holds(buffer, steps)


def test_single_steps_are_refused_where_there_are_several_games(random):
    buffer = ExperienceBuffer(2, 2)
    with pytest.raises(ValueError, match="one game, and this one has 2"):
        buffer.add(legal=[1, 2])
    assert len(buffer) == 0


def test_a_full_buffer_refuses_another_step_and_keeps_what_it_has(random):
    steps = [random_step(random, 3) for _ in range(2)]
    buffer = filled(steps)
    with pytest.raises(BufferOverflowError, match="holds 2 steps and is full"):
        buffer.add_batch(**random_step(random, 3))
    assert_holds(buffer, steps)


def test_a_full_pool_refuses_a_step_and_keeps_what_it_has(random):
    steps = [random_step(random, 2, most_legal=10) for _ in range(3)]
    buffer = filled(steps, capacity=4, legal_moves=10)
    before = {name: np.copy(value) for name, value in vars(buffer).items()}
    too_much = random_step(random, 2)
    too_much["legal_counts"] = np.array([1, 80])
    with pytest.raises(BufferOverflowError, match="more on average than the 10"):
        buffer.add_batch(**too_much)
    for name, value in before.items():
        assert np.array_equal(getattr(buffer, name), value), name
    smaller = random_step(random, 2, most_legal=10)
    buffer.add_batch(**smaller)
    assert_holds(buffer, [*steps, smaller])


def test_the_pool_can_be_filled_to_its_last_place(random):
    step = random_step(random, 2)
    step["legal_counts"] = np.array([3, 17])
    buffer = filled([step], legal_moves=10)
    assert buffer.legal_used == len(buffer.legal_pool) == 20
    assert_holds(buffer, [step])


@pytest.mark.parametrize("change", ["missing", "unknown", "shape"])
def test_a_step_that_is_not_complete_is_refused_whole(random, change):
    steps = [random_step(random, 3)]
    buffer = filled(steps, capacity=2)
    bad = random_step(random, 3)
    if change == "missing":
        del bad["rewards"]
    elif change == "unknown":
        bad["reward"] = bad["rewards"]
    else:
        bad["versions"] = np.zeros(4, np.int32)
    with pytest.raises(ValueError if change == "shape" else TypeError, match=r"reward|broadcast"):
        buffer.add_batch(**bad)
    assert_holds(buffer, steps)
    good = random_step(random, 3)
    buffer.add_batch(**good)
    assert_holds(buffer, [*steps, good])


def test_a_cleared_buffer_is_filled_anew_in_the_same_memory(random):
    buffer = filled([random_step(random, 3) for _ in range(4)])
    memory = buffer.positions.ctypes.data, buffer.legal_pool.ctypes.data
    buffer.clear()
    assert len(buffer) == 0
    assert buffer.get_serializable_batch()["actions"].shape == (0, 3)
    steps = [random_step(random, 3) for _ in range(2)]
    for step in steps:
        buffer.add_batch(**step)
    assert_holds(buffer, steps)
    assert (buffer.positions.ctypes.data, buffer.legal_pool.ctypes.data) == memory


def test_a_step_takes_no_more_than_600_bytes():
    buffer = ExperienceBuffer(16, 32)
    arrays = [value for value in vars(buffer).values() if isinstance(value, np.ndarray)]
    assert sum(array.nbytes for array in arrays) / (16 * 32) <= 600


def test_advantages_are_computed_over_the_filled_steps_only(random):
    steps = [random_step(random, 2) for _ in range(3)]
    for number, step in enumerate(steps):
        step["rewards"] = np.array([1.0, 0.0]) if number == 2 else np.zeros(2)
        step["values"] = np.array([0.25, 0.5])
        step["ends"] = np.array([number == 2, False])
        step["truncations"], step["trains"] = np.zeros(2, bool), np.ones(2, bool)
    buffer = filled(steps, capacity=5)
    buffer.compute_advantages_and_returns(
        np.array([0.9, -1.0]), gamma=1.0, gae_lambda=1.0, cut_games="draw"
    )
    assert buffer.returns[:3].tolist() == [[1, 1], [-1, -1], [1, 1]]
    assert buffer.advantages[:3].tolist() == [[0.75, 0.5], [-1.25, -1.5], [0.75, 0.5]]
    assert not buffer.returns[3:].any()
    assert not buffer.advantages[3:].any()


@pytest.mark.parametrize(("cut_games", "result"), [("draw", 0.0), ("bootstrap", -0.5)])
def test_what_a_cut_game_is_worth_can_be_chosen(random, cut_games, result):
    step = random_step(random, 1)
    step |= {"rewards": [0.0], "ends": [True], "truncations": [True], "trains": [True]}
    step |= {"values": [0.0], "cut_values": [0.5]}
    buffer = filled([step])
    buffer.compute_advantages_and_returns(
        np.array([1.0]), gamma=1.0, gae_lambda=0.9, cut_games=cut_games
    )
    assert buffer.returns[0, 0] == result


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


def test_a_buffer_over_given_arrays_uses_that_memory(random):
    layout = ExperienceBuffer.layout(4, 3, legal_moves=50)
    arrays = {name: np.zeros(shape, kind) for name, kind, shape in layout}
    steps = [random_step(random, 3) for _ in range(4)]
    one = ExperienceBuffer(4, 3, arrays=arrays)
    for step in steps:
        one.add_batch(**step)
    other = ExperienceBuffer(4, 3, arrays=arrays)  # as another process sees it
    assert (other.filled, other.legal_used) == (0, 0)
    other.filled, other.legal_used = one.filled, one.legal_used
    assert_holds(other, steps)
    assert all(getattr(other, name) is array for name, array in arrays.items())


def test_the_layout_lists_every_array():
    buffer = ExperienceBuffer(2, 3, legal_moves=10)
    arrays = {k: (v.dtype, v.shape) for k, v in vars(buffer).items() if isinstance(v, np.ndarray)}
    assert arrays == {name: (kind, shape) for name, kind, shape in buffer.layout(2, 3, 10)}


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


LISTS = st.lists(
    st.lists(st.integers(0, NUM_ACTIONS - 1), max_size=12).map(tuple), min_size=1, max_size=8
)


def rows_of(lists):
    """The lists as rows [N, 12] with what is behind them, and their lengths."""
    rows = np.full((len(lists), 12), NUM_ACTIONS, np.uint16)
    for row, moves in enumerate(lists):
        rows[row, : len(moves)] = moves
    return rows, np.array([len(moves) for moves in lists], np.int32)


@pytest.mark.uncompiled
@settings(max_examples=60, deadline=None)
@given(steps=st.lists(LISTS, min_size=1, max_size=4), spare=st.integers(0, 5), data=st.data())
def test_lists_packed_into_the_pool_come_out_in_any_order(steps, spare, data):
    total = sum(len(moves) for lists in steps for moves in lists)
    pool, used = np.full(total + spare, 7, np.uint16), 0
    starts, counts = [], []
    for lists in steps:
        rows, lengths = rows_of(lists)
        begins = np.zeros(len(lists), np.int32)
        used = append_legal(pool, used, rows, lengths, begins)
        starts.append(begins)
        counts.append(lengths)
    assert used == total
    assert (pool[total:] == 7).all()
    everything = [moves for lists in steps for moves in lists]
    order = data.draw(st.permutations(range(len(everything))))
    padded = np.full((len(order), 12), -1, np.int16)
    padded_legal(pool, np.concatenate(starts)[order], np.concatenate(counts)[order], padded)
    assert [tuple(row[row >= 0].tolist()) for row in padded] == [everything[i] for i in order]


@pytest.mark.uncompiled
@settings(max_examples=40, deadline=None)
@given(lists=LISTS.filter(any), used=st.integers(0, 5), missing=st.integers(1, 3))
def test_a_pool_that_is_too_small_is_left_as_it_is(lists, used, missing):
    rows, lengths = rows_of(lists)
    pool = np.full(max(used + int(lengths.sum()) - missing, 0), 7, np.uint16)
    starts = np.full(len(lists), -1, np.int32)
    assert append_legal(pool, used, rows, lengths, starts) == -1
    assert (pool == 7).all()
    assert (starts == -1).all()
