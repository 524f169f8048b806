"""`JointTurn`: at once, agents see and do what they would one after the other."""

import numpy as np
import pytest

from keisei.core.world_models import model_maker
from keisei.gridworld.errors import WorldError
from keisei.gridworld.joint_turn import JointTurn, Turn
from keisei.gridworld.observation_spec import ObservationSpec
from keisei.gridworld.parallel_environment import in_parallel
from keisei.gridworld.parallel_settings import ParallelSettings
from tests.core.small import bits
from tests.gridworld.learning_doubles import RecordedMeadow, TiredMeadow
from tests.gridworld.small_worlds import Doing, Meadow, MeadowRules, Walker, handing_out

COPIES = 3
RULES = MeadowRules(agents=5)
SETTINGS = {"ppo": {"hidden": [8]}, "iqn": {"layer_size": 8, "n_frames": 2}, "random": {}}


def both(game, make_model, rules=RULES, **settings):
    """The game one after the other, and the same game with all at once."""
    settings = {"copies": COPIES, "seed": 4, "observe": "together", **settings}
    plain = game(make_model(), rules, **settings)
    return plain, in_parallel(game)(make_model(), rules, **settings, parallel=ParallelSettings())


def assert_same(one, other):
    assert one.rewards.tolist() == other.rewards.tolist()
    assert one.world.total_reward.tolist() == other.world.total_reward.tolist()
    assert one.world.map.tolist() == other.world.map.tolist()
    assert one.active.tolist() == other.active.tolist()
    assert one.steps == other.steps
    for name, array in vars(one.world.agents).items():
        assert array.tolist() == getattr(other.world.agents, name).tolist()


@pytest.mark.parametrize("kind", SETTINGS)
def test_every_turn_and_all_memories_are_those_of_agents_one_after_the_other(kind):
    plain, joint = both(Meadow, lambda: model_maker(kind, SETTINGS[kind]))
    for _ in range(3):
        for game in (plain, joint):
            game.play_epoch()
        assert_same(plain, joint)
    for one, other in zip(plain.agents, joint.agents, strict=True):
        if kind != "random":
            turns, same = one.model.memory.stored_turns(), other.model.memory.stored_turns()
            exact = [name for name in turns if name not in ("log_probs", "values")]
            assert bits({n: turns[n] for n in exact}) == bits({n: same[n] for n in exact})


def test_who_is_absent_does_nothing_and_gets_nothing():
    plain, joint = both(Meadow, lambda: handing_out(*(Doing("right") for _ in range(5))))
    for game in (plain, joint):
        game.agents[1].leave(game.world, np.array([0, 2]))
        for _ in range(4):
            game.take_turn()
    assert_same(plain, joint)
    assert joint.rewards[1, [0, 2]].tolist() == [0, 0]


@pytest.mark.parametrize("game", [RecordedMeadow, TiredMeadow])
def test_games_and_agents_with_rules_of_their_own_keep_them(game):
    plain, joint = both(game, lambda: model_maker("random", {}))
    for one in (plain, joint):
        one.play_epoch()
    assert_same(plain, joint)
    assert plain.done == joint.done
    assert not JointTurn(joint).can_walk()


class Blind(Walker):
    def pov(self, world):
        return np.zeros((world.copies, *self.observation_spec.shape), np.float32)


def _corner(world, agent):
    places = world.agents
    return np.stack([places.rows[agent.number], places.columns[agent.number]], axis=1)


def test_each_agent_sees_what_it_would_see_alone():
    meadow = Meadow(model_maker("random", {}), RULES, copies=COPIES, seed=2)
    kinds = meadow.world.kinds
    specs = [
        ObservationSpec(meadow.world, kinds, window=5, form="rgb"),
        ObservationSpec(meadow.world, kinds),
        ObservationSpec(meadow.world, kinds, window=5, features=_corner, feature_count=2),
    ]
    for agent, spec in zip(meadow.agents[2:], specs, strict=True):
        agent.observation_spec = spec
    meadow.agents[0].__class__ = Blind
    for _ in range(3):
        meadow.take_turn()
    seen = JointTurn(meadow).look()
    for agent, its_view in zip(meadow.agents, seen, strict=True):
        assert its_view.tolist() == agent.pov(meadow.world).tolist()
    assert not seen[0].any()


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (np.array([0, 0, 5]), "a number from 0 to 4"),
        (np.array([0, -1, 0]), "a number from 0 to 4"),
        (np.array([0, 0]), "each of 3 copies"),
        (np.zeros(3), "of type float64, not int64"),
        ([0, 0, 0], "of type list, not int64"),
    ],
)
def test_actions_that_cannot_be_are_refused_before_anybody_moves(answer, sentence):
    joint = JointTurn(Meadow(model_maker("random", {}), RULES, copies=COPIES))
    before = joint._game.world.map.copy()
    right = np.ones(COPIES, np.int64)
    with pytest.raises(WorldError, match=f"^Agent 3 .*{sentence}"):
        joint.walk(joint.look(), [right, right, right, answer, right])
    assert np.array_equal(joint._game.world.map, before)


def test_a_turn_of_some_agents_is_theirs():
    numbers = np.arange(6).reshape(3, 2)
    turn = Turn([np.full(2, n) for n in range(3)], numbers, numbers, numbers > 2, numbers > 0)
    assert turn.of([0, 1, 2]) is turn
    part = turn.of([2, 0])
    assert [states.tolist() for states in part.states] == [[2, 2], [0, 0]]
    assert part.actions.tolist() == [[4, 5], [0, 1]]
    assert part.dones.tolist() == [[True, True], [False, False]]
