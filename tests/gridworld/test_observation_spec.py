"""`ObservationSpec`: what an agent sees is what a slow look at the map says."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keisei.gridworld.entity import Entity
from keisei.gridworld.errors import WorldError
from keisei.gridworld.observation_spec import ObservationSpec
from tests.gridworld.small_worlds import KINDS, Coin, Hedge, Soil, Thorn, Walker, random_world
from tests.gridworld.small_worlds import walkers as put_walkers

pytestmark = pytest.mark.uncompiled


def looked_at(world, copy, row, column):
    """The kinds in a cell from the ground up, or None beyond the map."""
    if 0 <= row < world.height and 0 <= column < world.width:
        return [world.kinds[number] for number in world.map[copy, row, column]]
    return None


def one_hot(things, kinds, outside):
    """[K] how often each kind is among the things."""
    if things is None:
        return [float(kind is outside) for kind in kinds]
    return [float(things.count(kind)) for kind in kinds]


def rgb(things, outside):
    """[3] the colour of the topmost thing."""
    if things is None:
        return np.float32(outside.colour if outside else (0, 0, 0)) / 255
    above = [kind for kind in things[1:] if kind is not Soil]
    return np.float32((above or things)[-1 if above else 0].colour) / 255


def expected(world, agent, kinds, *, window, form, outside):
    """[B, C * rows * columns] what the agent should see."""
    seen = []
    for copy in range(world.copies):
        rows, columns = range(world.height), range(world.width)
        if window is not None:
            row, column = (
                int(a[agent.number, copy]) for a in (world.agents.rows, world.agents.columns)
            )
            radius = window // 2
            rows = range(row - radius, row + radius + 1)
            columns = range(column - radius, column + radius + 1)
        things = [[looked_at(world, copy, r, c) for c in columns] for r in rows]
        cells = [
            [one_hot(t, kinds, outside) if form == "one_hot" else rgb(t, outside) for t in line]
            for line in things
        ]
        seen.append(np.array(cells).transpose(2, 0, 1).reshape(-1))
    return np.array(seen, np.float32)


@st.composite
def worlds(draw):
    """A random world with an agent somewhere, which may have left some copies."""
    copies, height, width, layers = (draw(st.integers(1, top)) for top in (3, 5, 5, 3))
    world = random_world(draw(st.integers(0, 2**32)), (copies, height, width, layers))
    (agent,) = put_walkers(world, None)
    for copy in range(copies):
        row, column = draw(st.integers(0, height - 1)), draw(st.integers(0, width - 1))
        world.remove(world.cells_at(row, column, copies=copy))
        agent.put(world, world.cells_at(row, column, copies=copy))
    return world, agent


@settings(max_examples=150, deadline=None)
@given(
    worlds(),
    st.permutations(KINDS),
    st.integers(1, len(KINDS)),
    st.sampled_from([None, 1, 3, 5, 13]),
    st.sampled_from(["one_hot", "rgb"]),
    st.sampled_from([None, Hedge, Coin]),
)
def test_what_an_agent_sees_is_what_is_there(drawn, kinds, known, window, form, outside):
    world, agent = drawn
    kinds = kinds[:known]
    spec = ObservationSpec(world, kinds, window=window, form=form, outside=outside)
    seen = spec.observe(world, agent)
    wanted = expected(world, agent, kinds, window=window, form=form, outside=outside)
    assert seen.dtype == np.float32
    assert seen.shape == (world.copies, *spec.shape)
    assert np.array_equal(seen, wanted)
    assert seen.min() >= 0
    assert seen.max() <= spec.highest


def test_the_picture_comes_in_channels_rows_and_columns():
    world = random_world(0, (1, 4, 6, 1))
    assert ObservationSpec(world, KINDS, window=3).image_shape == (5, 3, 3)
    assert ObservationSpec(world, KINDS[:2]).image_shape == (2, 4, 6)
    assert ObservationSpec(world, KINDS, form="rgb").image_shape == (3, 4, 6)
    assert ObservationSpec(world, KINDS, window=7, form="rgb").shape == (3 * 49,)


def test_an_agent_sees_itself_in_the_middle():
    world = random_world(0, (2, 5, 5, 1), kinds=KINDS[:1])
    (agent,) = put_walkers(world, (2, 3))
    seen = ObservationSpec(world, [Walker], window=3).observe(world, agent)
    assert seen.tolist() == [[0, 0, 0, 0, 1, 0, 0, 0, 0]] * 2


def test_features_follow_the_picture():
    world = random_world(0, (2, 4, 4, 1), kinds=KINDS[:1])
    (agent,) = put_walkers(world, (1, 2))

    def features(world, agent):
        return np.stack([world.agents.rows[agent.number], world.count(Walker)], axis=1)

    spec = ObservationSpec(world, [Coin], window=1, features=features, feature_count=2)
    assert spec.shape == (3,)
    seen = spec.observe(world, agent)
    assert (seen.tolist(), seen.dtype) == ([[0, 1, 1]] * 2, np.float32)


def test_an_observation_is_not_changed_by_what_happens_later():
    world = random_world(0, (1, 4, 4, 1))
    world.place(Thorn, world.cells_at(1, 1))
    (agent,) = put_walkers(world, (1, 1))
    for window in (None, 3):
        seen = ObservationSpec(world, KINDS, window=window).observe(world, agent)
        before = seen.copy()
        world.place(Hedge, world.cells_at(0, 0))
        world.place(Coin, world.cells_at(0, 1))
        ObservationSpec(world, KINDS, window=window).observe(world, agent)
        assert np.array_equal(seen, before)
        world.place(Thorn, world.cells_at(0, [0, 1]))


# What cannot be


@pytest.mark.parametrize("window", [0, 2, 4, -3])
def test_a_window_without_a_middle_is_refused(window):
    with pytest.raises(WorldError, match=f"its size is odd, not {window}"):
        ObservationSpec(random_world(0), KINDS, window=window)


def test_a_form_that_is_not_known_is_refused():
    with pytest.raises(WorldError, match="'one_hot' or 'rgb', not 'grey'"):
        ObservationSpec(random_world(0), KINDS, form="grey")


def test_a_kind_that_the_world_does_not_have_is_refused():
    stranger = type("Stranger", (Entity,), {})
    with pytest.raises(WorldError, match="Stranger is not a kind of this world"):
        ObservationSpec(random_world(0), [*KINDS, stranger])


@pytest.mark.parametrize(
    "given", [{"feature_count": 2}, {"features": lambda world, agent: np.zeros((3, 2))}]
)
def test_features_need_a_function_and_their_number(given):
    with pytest.raises(WorldError, match="Features need a function and their number"):
        ObservationSpec(random_world(0), KINDS, **given)


def test_features_of_the_wrong_shape_are_refused():
    world = random_world(0, (3, 4, 4, 1), kinds=KINDS[:1])
    (agent,) = put_walkers(world, (0, 0))
    spec = ObservationSpec(world, KINDS, features=lambda world, agent: np.zeros(3), feature_count=2)
    sentence = r"must be \[copies, feature_count\] = \[3, 2\], and they are \[3\]"
    with pytest.raises(WorldError, match=sentence):
        spec.observe(world, agent)
