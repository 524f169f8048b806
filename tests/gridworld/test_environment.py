"""`Environment`: turns, epochs and experiments, and that a seed or a state repeats them."""

import json

import numpy as np
import pytest

from keisei.core.world_models import model_maker
from keisei.gridworld.action_spec import ActionSpec
from keisei.gridworld.agent import Agent
from keisei.gridworld.entity import Empty
from keisei.gridworld.environment import Environment
from keisei.gridworld.errors import WorldError
from keisei.gridworld.game import Game
from keisei.gridworld.model import RandomModel
from keisei.gridworld.observation_spec import ObservationSpec
from keisei.gridworld.world import World
from tests.core.small import bits, one_thread
from tests.gridworld.small_worlds import (
    ACTIONS,
    KINDS,
    Coin,
    Diary,
    Doing,
    Hedge,
    Meadow,
    MeadowRules,
    Soil,
    Thorn,
    Walker,
    handing_out,
)

STILL = MeadowRules(coin_chance=0.0)


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with one_thread():
        yield


class Lane(Meadow):
    """The agents stand in a row, the first at the left, in a world where nothing appears."""

    def populate_environment(self):
        for agent in self.agents:
            agent.put(self.world, self.world.cells_at(2, 2 + agent.number))


# A turn


class Seed(Empty):
    """Becomes a coin as soon as it can."""

    @classmethod
    def transition(cls, world, where):
        world.place(Coin, where)


class Garden(Lane):
    """There is a seed to the right of the only walker."""

    def __init__(self, make_model, **others):
        self.rules = MeadowRules(agents=1, max_turns=3)
        Environment.__init__(
            self, World(5, 5, (*KINDS, Seed), copies=2), make_model, max_turns=3, **others
        )

    def populate_environment(self):
        super().populate_environment()
        self.world.place(Seed, self.world.cells_at(2, 3))


@pytest.mark.parametrize("observe", ["in_turn", "together"])
def test_things_change_by_themselves_before_the_agents_look_and_act(observe):
    walker = Doing("right")
    garden = Garden(handing_out(walker), observe=observe)
    garden.take_turn()
    assert garden.rewards.tolist() == [[3, 3]]
    seen = walker.memory.column(0)[0].reshape(2, len(garden.world.kinds), 3, 3)
    assert seen[:, KINDS.index(Coin), 1, 2].tolist() == [1, 1]


def test_a_thing_is_handed_all_cells_of_its_kind_once_a_turn():
    handed = []

    class Marked(Thorn):
        @classmethod
        def transition(cls, world, where):
            handed.append((world.turn, where.flat.tolist()))

    class Marks(Lane):
        def populate_environment(self):
            super().populate_environment()
            self.world.place(Marked, self.world.cells_at([0, 4], 0))

    marks = Marks.__new__(Marks)
    marks.rules = STILL
    world = World(6, 6, (*KINDS, Marked), copies=2)
    Environment.__init__(marks, world, handing_out(Doing("wait"), Doing("wait")))
    where = world.cells(Marked).flat.tolist()
    assert len(where) == 4
    marks.take_turn()
    marks.take_turn()
    assert handed == [(1, where), (2, where)]


def seen_neighbours(observe):
    """The states of two agents side by side, of whom the first walks up."""
    first, second = Doing("up"), Doing("wait")
    lane = Lane(handing_out(first, second), STILL, observe=observe)
    lane.take_turn()
    return [m.memory.column(0)[0, 0].reshape(len(KINDS), 3, 3)[-1] for m in (first, second)]


def test_in_turn_an_agent_sees_what_those_before_it_did_and_together_it_does_not():
    side_by_side = [[0, 0, 0], [1, 1, 0], [0, 0, 0]]
    first, second = seen_neighbours("together")
    assert second.tolist() == side_by_side
    assert first.tolist() == [[0, 0, 0], [0, 1, 1], [0, 0, 0]]
    in_turn_first, in_turn_second = seen_neighbours("in_turn")
    assert np.array_equal(in_turn_first, first)
    assert in_turn_second.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 0]]


def test_both_ways_agents_act_in_their_order():
    for observe in ("in_turn", "together"):
        lane = Lane(handing_out(Doing("right"), Doing("right")), STILL, observe=observe)
        lane.take_turn()
        assert lane.world.agents.columns.tolist() == [[2], [4]]  # the first was in the way


def test_with_the_same_actions_both_ways_do_the_same():
    actions = np.random.default_rng(0).integers(0, 5, (2, 12, 4))
    ends = []
    for observe in ("in_turn", "together"):
        models = handing_out(Doing(actions[0]), Doing(actions[1]))
        meadow = Meadow(models, copies=4, observe=observe)
        meadow.play_epoch()
        ends.append((meadow.world.map.tolist(), meadow.rewards.tolist()))
    assert ends[0] == ends[1]


# Rewards


def test_rewards_are_counted_once_for_the_agent_the_world_and_the_result():
    first, second = Doing("up"), Doing("wait")
    lane = Lane(handing_out(first, second), STILL, copies=3)
    lane.play_epoch()
    lane.reset()
    lane.world.place(Coin, lane.world.cells_at(1, 2, copies=[0, 1]))
    lane.world.place(Hedge, lane.world.cells_at(0, 2, copies=[0]))
    while not lane.is_over():
        lane.take_turn()
    expected = [3 - 11, 3, 0]
    assert lane.rewards.tolist() == [expected, [0, 0, 0]]
    assert lane.world.total_reward.tolist() == expected
    result = lane.finish_epoch(train_steps=0)
    assert result.rewards.tolist() == [pytest.approx(-5 / 3), 0]
    assert result.total_reward == pytest.approx(-5 / 3)
    remembered = first.memory.column(2)[12:]
    assert remembered.sum(axis=0).tolist() == expected


def test_a_new_epoch_begins_with_nothing():
    meadow = Meadow(RandomModel, MeadowRules(coin_chance=0.5), copies=2)
    meadow.play_epoch()
    assert meadow.world.total_reward.any()
    meadow.reset()
    assert not meadow.world.total_reward.any()
    assert not meadow.rewards.any()
    assert (meadow.turns(), meadow.steps) == (0, 0)
    assert meadow.active.all()


# Done


class Tired(Walker):
    """Is done in copy k after k + 1 turns."""

    def is_done(self, world):
        return world.turn > np.arange(world.copies)


class TiredLane(Lane):
    Walker = Tired


def test_the_last_turn_is_done_and_no_other():
    model = Doing("wait")
    lane = Lane(handing_out(model), MeadowRules(agents=1, coin_chance=0.0), copies=2)
    lane.run_epoch()
    assert model.memory.column(3).tolist() == [[False] * 2] * 11 + [[True] * 2]
    assert model.memory.column(4).all()


def test_an_agent_that_is_done_in_a_copy_is_no_longer_active_there():
    model = Doing("wait")
    lane = TiredLane(handing_out(model), MeadowRules(agents=1, coin_chance=0.0), copies=3)
    result = lane.run_epoch()
    assert model.memory.column(4).tolist() == [
        [True] * 3,
        [False, True, True],
        [False] * 2 + [True],
    ]
    ended = model.memory.column(3) & model.memory.column(4)
    assert ended.tolist() == np.eye(3, dtype=bool).tolist()
    assert (result.turns, result.steps) == (3, 1 + 2 + 3)
    assert lane.is_over()


def test_an_agent_that_is_done_gets_nothing_more():
    lane = TiredLane(handing_out(Doing("up")), MeadowRules(agents=1, coin_chance=0.0), copies=3)
    lane.world.place(Hedge, lane.world.cells_at(1, 2))
    while not lane.is_over():
        lane.take_turn()
    assert lane.rewards.tolist() == [[-1, -2, -3]]
    assert lane.world.total_reward.tolist() == [-1, -2, -3]


def test_an_agent_that_is_done_does_nothing_more():
    rules = MeadowRules(agents=1, coin_chance=0.0, width=12)
    lane = TiredLane(handing_out(Doing("right")), rules, copies=3)
    while not lane.is_over():
        lane.take_turn()
    assert lane.world.agents.columns.tolist() == [[3, 4, 5]]


def test_whoever_is_not_done_goes_on():
    class Resting(Walker):
        def is_done(self, world):
            return self.number == 0

    class Rest(Lane):
        Walker = Resting

    first, second = Doing("left"), Doing("right")
    rest = Rest(handing_out(first, second), STILL)
    rest.run_epoch()
    assert (len(first.memory), len(second.memory)) == (1, 12)
    assert rest.world.agents.columns[0].tolist() == [1]
    assert rest.steps == 13


# Bad games


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


# Epochs and experiments


class Told(Doing):
    """Notes what it is told, in a list that others share."""

    def __init__(self, name, heard):
        super().__init__("wait")
        self._name, self._heard = name, heard

    def start_epoch_action(self, epoch):
        self._heard.append(f"{self._name} starts {epoch}")

    def end_epoch_action(self, epoch):
        self._heard.append(f"{self._name} ends {epoch}")

    def train_step(self):
        self._heard.append(f"{self._name} trains")
        return {"loss": 1.5}


class Heard(Lane):
    def start_epoch_action(self, epoch):
        self.heard.append(f"world starts {epoch} at turn {self.turns()}")

    def end_epoch_action(self, epoch):
        self.heard.append(f"world ends {epoch} at turn {self.turns()}")

    def counts(self):
        return {"coins": 2.0}


def heard_game():
    heard = []
    game = Heard(handing_out(Told("a", heard), Told("b", heard)), STILL)
    game.heard = heard
    return game


def test_an_epoch_is_started_played_ended_and_then_trained_on():
    game = heard_game()
    game.run_experiment(1, train_steps=2)
    starts = ["world starts 0 at turn 0", "a starts 0", "b starts 0"]
    ends = ["world ends 0 at turn 12", "a ends 0", "b ends 0"]
    assert game.heard == [*starts, *ends, "a trains", "a trains", "b trains", "b trains"]


def test_an_experiment_tells_the_log_and_numbers_its_epochs_on():
    game, logged = heard_game(), []
    results = game.run_experiment(2, log=logged.append)
    assert results == logged
    (more,) = game.run_experiment(1, train_steps=0)
    assert [result.epoch for result in [*results, more]] == [0, 1, 2]
    assert game.epoch == 3
    assert results[0].figures == [{"loss": 1.5}, {"loss": 1.5}]
    assert more.figures == [{}, {}]
    first = results[0]
    assert (first.turns, first.steps, first.counts) == (12, 24, {"coins": 2.0})
    assert first.seconds == first.playing_seconds + first.training_seconds > 0


def test_who_watches_sees_the_world_before_each_turn():
    turns = []
    Meadow(RandomModel).run_experiment(2, watch=lambda world: turns.append(world.turn))
    assert turns == [*range(12), *range(12)]


# The same again


KINDS_OF_MODELS = {
    "random": model_maker("random", {}),
    "ppo": model_maker("ppo", {"hidden": [8], "minibatch": 16, "n_frames": 2}),
    "iqn": model_maker(
        "iqn",
        {"layer_size": 8, "batch_size": 8, "memory_turns": 20, "n_frames": 2, "sync_interval": 2},
    ),
}


def state_bits(game):
    arrays, values = game.state()
    return bits(arrays), json.loads(json.dumps(values))


def experiences(results):
    return [(result.epoch, result.rewards.tolist(), result.figures) for result in results]


@pytest.mark.parametrize("observe", ["in_turn", "together"])
@pytest.mark.parametrize("kind", KINDS_OF_MODELS)
def test_a_resumed_experiment_equals_an_unbroken_one_bit_for_bit(kind, observe):
    make = KINDS_OF_MODELS[kind]
    unbroken = Meadow(make, copies=3, seed=7, observe=observe)
    expected = experiences(unbroken.run_experiment(6, train_steps=2))[3:]
    first = Meadow(make, copies=3, seed=7, observe=observe)
    first.run_experiment(3, train_steps=2)
    arrays, values = first.state()
    kept = {name: array.copy() for name, array in arrays.items()}
    first.run_experiment(1, train_steps=2)  # what was given is a copy
    resumed = Meadow(make, copies=3, seed=99, observe=observe)
    resumed.load_state(kept, json.loads(json.dumps(values)))
    assert experiences(resumed.run_experiment(3, train_steps=2)) == expected
    assert state_bits(resumed) == state_bits(unbroken)
    assert np.array_equal(resumed.world.map, unbroken.world.map)


class Absent(Meadow):
    """The agents are put into some copies only, which chance decides."""

    def populate_environment(self):
        for agent, spot in zip(self.agents, self.world.pick(self.world.inside(), 2), strict=True):
            there = self.world.draw(spot) < 0.5
            there[0] = True
            agent.put(self.world, spot[there])


def test_absent_agents_do_not_keep_a_resumed_experiment_from_equalling_an_unbroken_one():
    make = KINDS_OF_MODELS["ppo"]
    unbroken, first, resumed = (Absent(make, copies=4, seed=2) for _ in range(3))
    unbroken.run_experiment(6)
    first.run_experiment(3)
    resumed.load_state(*first.state())
    resumed.run_experiment(3)
    assert state_bits(resumed) == state_bits(unbroken)


@pytest.mark.parametrize("kind", KINDS_OF_MODELS)
def test_the_same_seed_repeats_a_run_and_another_does_not(kind):
    make = KINDS_OF_MODELS[kind]
    runs = []
    for seed in (5, 5, 6):
        game = Meadow(make, copies=2, seed=seed)
        results = experiences(game.run_experiment(3))
        runs.append((results, state_bits(game)))
    assert runs[0] == runs[1]
    assert runs[0][0] != runs[2][0]


def test_a_state_of_another_number_of_agents_is_refused():
    state = Meadow(RandomModel).state()
    with pytest.raises(WorldError, match="The state is of 2 agents, this game has 3"):
        Meadow(RandomModel, MeadowRules(agents=3)).load_state(*state)


def test_a_state_of_another_number_of_copies_is_refused():
    with pytest.raises(WorldError, match="copies"):
        Meadow(RandomModel, copies=4).load_state(*Meadow(RandomModel, copies=1).state())


def epochs_of(game, models, epochs=2):
    """Maps after each epoch, and what the agents saw, did and got."""
    maps = []
    for _ in range(epochs):
        game.run_epoch()
        maps.append(game.world.map.copy())
    diaries = [[model.memory.column(part) for part in range(5)] for model in models]
    return maps, diaries


@pytest.mark.parametrize("observe", ["in_turn", "together"])
def test_a_copy_alone_lives_through_the_same_as_among_eight(observe):
    actions = np.random.default_rng(1).integers(0, 5, (2, 24, 8))
    models = [Doing(its) for its in actions]
    together = Meadow(handing_out(*models), copies=8, seed=3, observe=observe)
    all_maps, all_diaries = epochs_of(together, models)
    for copy in range(8):
        models = [Doing(its[:, copy : copy + 1]) for its in actions]
        alone = Meadow(handing_out(*models), seed=3, first_copy=copy, observe=observe)
        maps, diaries = epochs_of(alone, models)
        for one, whole in zip(maps, all_maps, strict=True):
            assert np.array_equal(one[0], whole[copy])
        for diary, whole_diary in zip(diaries, all_diaries, strict=True):
            for part, whole in zip(diary, whole_diary, strict=True):
                assert np.array_equal(part[:, 0], whole[:, copy])


def test_one_copy_and_64_copies_bring_the_same_rewards_on_average():
    rules = MeadowRules(coin_chance=0.03, max_turns=15)
    totals = {}
    for copies, epochs in ((1, 512), (64, 8)):
        game = Meadow(RandomModel, rules, copies=copies, seed=11 + copies)
        found = []
        for _ in range(epochs):
            game.run_epoch(train_steps=0)
            found.append(game.world.total_reward.copy())
        totals[copies] = np.concatenate(found)
    one, many = totals[1], totals[64]
    assert len(one) == len(many) == 512
    error = (one.var() / len(one) + many.var() / len(many)) ** 0.5
    assert abs(one.mean() - many.mean()) < 4 * error
    assert 0.8 < one.std() / many.std() < 1.25
    quantiles = np.linspace(0.1, 0.9, 9)
    assert abs(np.quantile(one, quantiles) - np.quantile(many, quantiles)).max() <= one.std() / 2


# What an agent is for


class Standing(Agent):
    """Acts by itself: gets its action's number."""

    def act(self, world, action):
        return action.astype(np.float32)


def test_a_game_can_be_played_by_agents_that_do_not_walk_and_see_the_whole_map():
    class Chairs(Environment):
        def setup_agents(self):
            sight = ObservationSpec(self.world, [Standing])
            return [Standing(sight, ActionSpec(ACTIONS), self.new_model(sight, 5))]

        def populate_environment(self):
            self.scatter_agents(self.world.cells(Soil))

    models = [Doing([np.array([1, 4])] * 2)]
    chairs = Chairs(World(2, 2, (Soil, Standing), copies=2), handing_out(*models), max_turns=2)
    chairs.run_epoch()
    assert chairs.rewards.tolist() == [[2, 8]]
    assert isinstance(chairs.agents[0].model.memory, Diary)
    assert models[0].memory.column(0).sum(axis=2).tolist() == [[1, 1]] * 2
