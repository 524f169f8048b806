"""`ExperienceBuffer`: what goes in comes out, whole, and nothing that does not fit goes in."""

import numpy as np
import pytest

from keisei.core.experience_buffer import BufferOverflowError, ExperienceBuffer
from keisei.shogi.position import MAX_LEGAL_MOVES, NUM_ACTIONS
from tests.core.random_steps import assert_holds, filled, of_games, random_step


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


def test_a_step_takes_150_bytes_besides_its_legal_moves():
    buffer = ExperienceBuffer(16, 32)
    arrays = [value for value in vars(buffer).values() if isinstance(value, np.ndarray)]
    fixed = sum(array.nbytes for array in arrays if array is not buffer.legal_pool)
    assert fixed / (16 * 32) <= 150


def test_there_is_room_for_the_most_legal_moves_in_every_step(random):
    steps = [random_step(random, 3) for _ in range(4)]
    for step in steps:
        step["legal_counts"][:] = MAX_LEGAL_MOVES
    assert_holds(filled(steps), steps)


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
