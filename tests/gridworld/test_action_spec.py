import pytest

from keisei.gridworld.action_spec import DOWN, LEFT, RIGHT, STAY, UP, ActionSpec
from keisei.gridworld.errors import WorldError


def test_an_action_is_numbered_by_its_place_and_directions_have_headings():
    spec = ActionSpec(["clean", "left", "up", "down", "right"])
    assert len(spec) == 5
    assert [spec.number(name) for name in spec.names] == [0, 1, 2, 3, 4]
    assert spec.headings.tolist() == [STAY, LEFT, UP, DOWN, RIGHT]


def test_an_action_that_is_not_there_is_named():
    with pytest.raises(WorldError, match=r"no action 'jump' among \['up', 'down'\]"):
        ActionSpec(["up", "down"]).number("jump")


@pytest.mark.parametrize("names", [[], ["up", "down", "up"]])
def test_names_must_be_different_and_at_least_one(names):
    with pytest.raises(WorldError, match="Actions need different names, at least one"):
        ActionSpec(names)
