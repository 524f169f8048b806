"""`World`: looking, changing and counting as plain NumPy would, and chance as it should be."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keisei.gridworld.cells import Cells
from keisei.gridworld.entity import Empty, Entity, Wall
from keisei.gridworld.errors import WorldError
from keisei.gridworld.world import World
from tests.gridworld.small_worlds import KINDS, Coin, Hedge, Soil, Thorn, random_world, walkers

pytestmark = pytest.mark.uncompiled

seeds = st.integers(0, 2**32)
shapes = st.tuples(*[st.integers(1, 4)] * 4)


# Where is what


@settings(max_examples=60, deadline=None)
@given(seeds, shapes, st.sampled_from(KINDS))
def test_cells_and_count_find_what_the_map_holds(seed, shape, kind):
    world = random_world(seed, shape)
    here = world.map == KINDS.index(kind)
    assert np.array_equal(world.cells(kind).flat, np.flatnonzero(here))
    assert np.array_equal(world.count(kind), here.sum(axis=(1, 2, 3)))
    for layer in range(world.layers):
        on_layer = here & (np.arange(world.layers) == layer)
        assert np.array_equal(world.cells(kind, layer=layer).flat, np.flatnonzero(on_layer))
        assert np.array_equal(world.count(kind, layer=layer), on_layer.sum(axis=(1, 2, 3)))


def test_without_a_kind_all_cells_are_meant():
    world = random_world(1)
    assert world.cells().flat.tolist() == list(range(world.map.size))
    assert (world.cells(layer=1).layers == 1).all()
    assert len(world.cells(layer=1)) == world.map.size / 2


def test_found_cells_do_not_change_with_the_next_question():
    world = random_world(1)
    coins = world.cells(Coin)
    before = coins.flat.copy()
    world.cells(Soil)
    assert np.array_equal(coins.flat, before)


@pytest.mark.parametrize("shape", [(2, 4, 5, 2), (1, 1, 1, 1), (3, 2, 6, 1), (1, 1, 5, 3)])
def test_a_layer_is_its_border_and_its_inside(shape):
    world = random_world(0, shape)
    _, height, width, layers = shape
    layer = layers - 1
    border = {
        (copy, row, column, layer)
        for copy, row, column in np.ndindex(shape[:3])
        if row in (0, height - 1) or column in (0, width - 1)
    }
    everything = {(*place, layer) for place in np.ndindex(shape[:3])}
    assert set(zip(*world.border(layer=layer).index, strict=True)) == border
    assert set(zip(*world.inside(layer=layer).index, strict=True)) == everything - border


def test_cells_at_a_place_are_those_of_every_copy_or_of_some():
    world = random_world(0, (3, 4, 5, 2))
    assert list(zip(*world.cells_at(2, 3).index, strict=True)) == [(c, 2, 3, 0) for c in range(3)]
    some = world.cells_at(1, 4, layer=1, copies=np.array([2, 0]))
    assert list(zip(*some.index, strict=True)) == [(0, 1, 4, 1), (2, 1, 4, 1)]


@settings(max_examples=60, deadline=None)
@given(seeds, st.lists(st.tuples(st.integers(-3, 6), st.integers(-3, 6)), min_size=1))
def test_places_beyond_the_map_are_left_out_and_each_cell_is_listed_once(seed, places):
    world = random_world(seed, (2, 4, 3, 2))
    rows, columns = np.array(places).T
    expected = {
        (copy, row, column, 1)
        for copy in range(2)
        for row, column in places
        if 0 <= row < 4 and 0 <= column < 3
    }
    found = list(zip(*world.cells_at(rows, columns, layer=1).index, strict=True))
    assert found == sorted(expected)


def test_rows_and_columns_broadcast():
    world = random_world(0, (2, 4, 3, 1))
    block = world.cells_at(np.array([[0], [2]]), np.array([0, 1, 2]))
    assert len(block) == 2 * 2 * 3
    assert set(block.rows) == {0, 2}


# Changing it


@settings(max_examples=60, deadline=None)
@given(seeds, shapes, st.sampled_from(KINDS), st.data())
def test_place_changes_these_cells_and_no_others(seed, shape, kind, data):
    world = random_world(seed, shape)
    expected = world.map.copy()
    size = world.map.size
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    where = Cells(np.flatnonzero(mask), shape)
    world.place(kind, where)
    expected[mask.reshape(shape)] = KINDS.index(kind)
    assert np.array_equal(world.map, expected)
    assert world.holds(where, kind).all()
    assert np.array_equal(world.look(where), expected[where.index])
    world.remove(where)
    expected[mask.reshape(shape)] = 0
    assert np.array_equal(world.map, expected)


def test_each_cell_can_be_given_its_own_kind():
    world = random_world(0)
    numbers = world.any_of([Coin, Thorn], world.cells())
    world.place(numbers, world.cells())
    assert np.array_equal(world.look(world.cells()), numbers)


def test_a_cleared_world_is_empty_at_turn_0_with_its_random_streams_going_on():
    world, untouched = (random_world(4) for _ in range(2))
    walkers(world, (1, 1))
    world.turn, world.total_reward[...] = 7, 3.5
    world.clear()
    assert not world.map.any()
    assert (world.turn, world.total_reward.tolist()) == (0, [0, 0, 0])
    assert not world.agents.present.any()
    assert np.array_equal(world.random_state, untouched.random_state)


# Chance


def field(copies=200, side=20, seed=3):
    return World(side, side, KINDS, copies=copies, seed=seed)


@pytest.mark.parametrize("probability", [0.005, 0.1, 0.5, 0.97])
def test_chance_comes_up_as_often_as_it_should(probability):
    world = field(copies=50)
    count, cells = 0, 0
    for _ in range(5):
        where = world.cells()
        count += len(world.chance(where, probability))
        cells += len(where)
    deviation = (probability * (1 - probability) / cells) ** 0.5
    assert abs(count / cells - probability) < 5 * deviation


def test_every_cell_comes_up_as_often_as_any_other_and_by_itself():
    world, tosses, probability = field(copies=1, side=4), 1500, 0.3
    came_up = np.zeros((tosses, 16), bool)
    for toss in came_up:
        toss[world.chance(world.cells(), probability).flat] = True
    bound = 5 * (probability * (1 - probability) / tosses) ** 0.5
    assert abs(came_up.mean(axis=0) - probability).max() < bound
    related = np.corrcoef(came_up.T) - np.eye(16)
    assert abs(related).max() < 5 / tosses**0.5


def test_copies_have_nothing_to_do_with_each_other():
    world = field(copies=60, side=40)
    came_up = np.zeros(world.map.shape, bool)
    came_up.reshape(-1)[world.chance(world.cells(), 0.3).flat] = True
    related = np.corrcoef(came_up.reshape(60, -1)) - np.eye(60)
    assert abs(related).max() < 5 / 40


@pytest.mark.parametrize("probability", [0.0, -0.5, 1.0, 1.5])
def test_chance_of_0_never_comes_up_and_of_1_always(probability):
    world = field(copies=3)
    where = world.cells()[::3]
    expected = where.flat.tolist() if probability > 0 else []
    assert world.chance(where, probability).flat.tolist() == expected


def test_a_probability_too_small_to_happen_does_not_happen():
    assert len(field(copies=3).chance(field(copies=3).cells(), 1e-300)) == 0


def test_chance_of_no_cells_is_no_cells():
    world = field(copies=1)
    assert len(world.chance(world.cells(Coin), 0.5)) == 0


def test_draws_are_spread_evenly_from_0_to_below_1():
    world = field(copies=20)
    drawn = world.draw(world.cells())
    assert 0 <= drawn.min() < 0.01
    assert 0.99 < drawn.max() < 1
    counts = np.histogram(drawn, bins=10, range=(0, 1))[0]
    assert abs(counts / len(drawn) - 0.1).max() < 5 * (0.09 / len(drawn)) ** 0.5


def test_any_of_takes_every_kind_equally_often():
    world = field(copies=20)
    numbers = world.any_of([Coin, Thorn, Hedge], world.cells())
    shares = np.bincount(numbers, minlength=len(KINDS)) / len(numbers)
    assert shares[[0, 4]].tolist() == [0, 0]
    assert abs(shares[1:4] - 1 / 3).max() < 5 * (2 / 9 / len(numbers)) ** 0.5


@settings(max_examples=40, deadline=None)
@given(seeds, st.integers(0, 6))
def test_picked_cells_are_different_and_of_those_offered_one_in_every_copy(seed, number):
    world = World(4, 5, KINDS, copies=3, seed=seed)
    where = world.inside()
    picked = world.pick(where, number)
    assert len(picked) == number
    assert all(cells.copies.tolist() == [0, 1, 2] for cells in picked)
    flat = [cell for cells in picked for cell in cells.flat.tolist()]
    assert len(set(flat)) == len(flat)
    assert set(flat) <= set(where.flat.tolist())
    assert where.flat.tolist() == world.inside().flat.tolist()


def test_every_cell_is_picked_equally_often():
    world = World(3, 4, KINDS, copies=6000)
    first, second = world.pick(world.cells(), 2)
    for cells in (first, second):
        counts = np.bincount(cells.flat % 12, minlength=12)
        assert abs(counts / 6000 - 1 / 12).max() < 5 * (1 / 12 / 6000) ** 0.5
    pairs = np.bincount(first.flat % 12 * 12 + second.flat % 12, minlength=144).reshape(12, 12)
    assert not np.diag(pairs).any()
    assert pairs[~np.eye(12, dtype=bool)].min() > 0


# What cannot be


class Stranger(Entity):
    """Of another world."""


@pytest.mark.parametrize(
    "use",
    [
        lambda world: world.place(Stranger, world.cells()),
        lambda world: world.cells(Stranger),
        lambda world: world.count(Stranger),
        lambda world: world.holds(world.cells(), Stranger),
        lambda world: world.any_of([Coin, Stranger], world.cells()),
    ],
)
def test_a_kind_that_the_world_does_not_have_is_named_and_so_are_those_it_has(use):
    sentence = "Stranger is not a kind of this world, which has Soil, Hedge, Coin, Thorn, Walker."
    with pytest.raises(WorldError, match=sentence):
        use(random_world(0))


def test_what_is_no_kind_at_all_is_refused_too():
    with pytest.raises(WorldError, match="'coin' is not a kind of this world"):
        random_world(0).place("coin", random_world(0).cells())
    with pytest.raises(WorldError, match=r"\[1\] is not a kind of this world"):
        random_world(0).place([1], random_world(0).cells())


@pytest.mark.parametrize("layer", [-1, 2])
@pytest.mark.parametrize(
    "use",
    [
        lambda world, layer: world.cells(Coin, layer=layer),
        lambda world, layer: world.count(Coin, layer=layer),
        lambda world, layer: world.border(layer=layer),
        lambda world, layer: world.inside(layer=layer),
        lambda world, layer: world.cells_at(0, 0, layer=layer),
    ],
)
def test_a_layer_that_is_not_there_is_refused(use, layer):
    with pytest.raises(WorldError, match=f"no layer {layer}: this world has 0 to 1."):
        use(random_world(0), layer)


def test_more_different_cells_than_there_are_cannot_be_picked():
    world = World(3, 3, KINDS, copies=2)
    world.place(Hedge, world.cells_at(0, [0, 1], copies=1))
    with pytest.raises(WorldError, match="8 different cells are wanted where a copy has only 7"):
        world.pick(world.cells(Soil), 8)
    with pytest.raises(WorldError, match="1 different cells are wanted where a copy has only 0"):
        world.pick(world.cells(Coin), 1)


@pytest.mark.parametrize("sizes", [(0, 3, 1, 1), (3, 0, 1, 1), (3, 3, 0, 1), (3, 3, 1, 0)])
def test_a_world_without_a_cell_is_refused(sizes):
    height, width, layers, copies = sizes
    with pytest.raises(WorldError, match="at least one row, column, layer and copy"):
        World(height, width, KINDS, layers=layers, copies=copies)


def test_a_world_has_different_kinds_and_no_more_than_fit_a_byte():
    many = [type(f"Kind{number}", (Entity,), {}) for number in range(257)]
    for kinds in ([], [Empty, Wall, Empty], many):
        with pytest.raises(WorldError, match="1 to 256 kinds, each of them once"):
            World(3, 3, kinds)
    world = World(2, 2, many[:256])
    world.place(many[255], world.cells())
    assert world.count(many[255]).tolist() == [4]
