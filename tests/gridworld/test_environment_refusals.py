"""`Environment`: games that cannot be right are refused when they are made, or at once."""

import numpy as np
import pytest

from keisei.gridworld.action_spec import ActionSpec
from keisei.gridworld.environment import Environment
from keisei.gridworld.errors import WorldError
from keisei.gridworld.game import Game
from keisei.gridworld.model import RandomModel
from tests.gridworld.small_worlds import (
    STILL,
    Doing,
    Hedge,
    Lane,
    Meadow,
    MeadowRules,
    Walker,
    handing_out,
)


def with_agent(**methods):
    """A game with one agent of a class with these methods."""
    kind = type("Oddity", (Walker,), methods)
    return type("Odd", (Lane,), {"Walker": kind})


@pytest.mark.parametrize(
    ("methods", "sentence"),
    [
        ({"act": lambda self, world, action: 1.0}, r"Oddity.act must .* gave one of shape \[\]"),
        ({"act": lambda self, world, action: None}, r"Oddity.act must .* gave one of shape \[\]"),
        (
            {"act": lambda self, world, action: np.zeros((3, 1))},
            r"Oddity.act must answer for each copy, an array of shape \[3\], and gave one of shape "
            r"\[3, 1\]",
        ),
        ({"act": lambda self, world, action: [0.0]}, r"Oddity.act must .* shape \[1\]"),
        ({"is_done": lambda self, world: [True, False]}, r"Oddity.is_done must .* shape \[2\]"),
    ],
)
def test_an_answer_of_the_wrong_shape_is_refused_at_the_first_turn(methods, sentence):
    game = with_agent(**methods)(handing_out(Doing("up"), Doing("up")), STILL, copies=3)
    with pytest.raises(WorldError, match=sentence):
        game.take_turn()


@pytest.mark.parametrize(
    "answer", [[0], [[0], [0], [0]], 0, [0, 0, 5], [0, 0, -2], [0.0, 0.0, 0.0]]
)
def test_actions_of_the_wrong_shape_or_unknown_are_refused_at_the_first_turn(answer):
    game = with_agent(act=lambda self, world, action: np.zeros(3, np.float32))
    lane = game(handing_out(Doing([np.array(answer)]), Doing("up")), STILL, copies=3)
    with pytest.raises(WorldError, match="action"):
        lane.take_turn()


class Unwritten(Meadow):
    def setup_agents(self):
        return []


class Forgetful(Meadow):
    def populate_environment(self):
        self.agents[0].put(self.world, self.world.cells_at(1, 1))


class Walled(Meadow):
    def populate_environment(self):
        self.world.place(Hedge, self.world.border())
        self.scatter_agents(self.world.border())


class Foreign(Meadow):
    Walker = Walker

    def setup_agents(self):
        return [type("Visitor", (Walker,), {})(None, ActionSpec(["up"]), None)]


class High(Walker):
    layer = 1


class Upstairs(Meadow):
    Walker = High


@pytest.mark.parametrize(
    ("game", "sentence"),
    [
        (Unwritten, "A game has at least one agent: setup_agents gave none"),
        (Forgetful, "populate_environment did not put agent 1 on the map"),
        (Walled, "Agent 0 is put into a Hedge at row"),
        (Foreign, "Visitor is not a kind of this world, which has Soil, Hedge, Coin"),
        (Upstairs, "Agent 0 lives on layer 1, and the world has 0 to 0"),
    ],
)
def test_a_game_that_cannot_be_right_is_refused_when_it_is_made(game, sentence):
    with pytest.raises(WorldError, match=sentence):
        game(RandomModel)


class Ghost(Walker):
    passable = True


class Haunted(Meadow):
    Walker = Ghost


def test_agents_that_could_walk_onto_each_other_are_refused():
    with pytest.raises(WorldError, match="Ghost"):
        Haunted(RandomModel)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"rules": MeadowRules(max_turns=0)}, "An epoch has at least one turn, not 0"),
        ({"observe": "later"}, "observe is 'in_turn' or 'together', not 'later'"),
        ({"agent_seeds": [1]}, "There are 1 agent_seeds and more agents"),
        ({"rules": MeadowRules(agents=31)}, "31 different cells are wanted where a copy has only"),
        ({"rules": MeadowRules(window=4)}, "its size is odd, not 4"),
    ],
)
def test_settings_that_cannot_be_right_are_refused_when_the_game_is_made(given, sentence):
    with pytest.raises(WorldError, match=sentence):
        Meadow(RandomModel, **given)


def test_a_game_says_what_is_not_written():
    game = Environment.__new__(Environment)
    with pytest.raises(NotImplementedError):
        game.setup_agents()
    with pytest.raises(NotImplementedError):
        game.populate_environment()
    for method in ("reset", "take_turn", "is_over", "turns"):
        with pytest.raises(NotImplementedError):
            getattr(Game(), method)()
