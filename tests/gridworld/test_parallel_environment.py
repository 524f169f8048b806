"""`ParallelEnvironment`: the same as one after the other."""

import itertools

import numpy as np
import pytest

from keisei.core.world_models import model_maker
from keisei.gridworld.errors import WorldError
from keisei.gridworld.model import FixedModel, RandomModel, ScriptedModel
from keisei.gridworld.parallel_environment import ParallelEnvironment, in_parallel
from keisei.gridworld.parallel_settings import ParallelSettings
from tests.gridworld.learning_doubles import (
    LEARNERS,
    Classroom,
    Pupil,
    RecordedMeadow,
    TiredMeadow,
    Village,
    model_bits,
    one_by_one,
    parallel_game,
    rewards_of,
    threads_called,
    weights,
)
from tests.gridworld.parallel_games import (
    BESIDE,
    COPIES,
    RULES,
    TURNS,
    in_sequence,
    run_of,
)
from tests.gridworld.small_worlds import Diary, Meadow, MeadowRules, handing_out

pytestmark = pytest.mark.timeout(240)
SWITCHES = list(itertools.product([False, True], repeat=2))
"""parallel_actions and parallel_training."""


@pytest.fixture(autouse=True)
def _no_thread_stays():
    yield
    assert threads_called("learner", "training") == 0


def assert_same_weights(game, other, *, exactly):
    if exactly:
        assert model_bits(game) == model_bits(other)
    for one, two in zip(game.agents, other.agents, strict=True):
        ours, theirs = weights(one), weights(two)
        assert ours.keys() == theirs.keys()
        for name in ours:
            np.testing.assert_allclose(ours[name], theirs[name], rtol=0, atol=1e-5)


@pytest.fixture(scope="module")
def sequences():
    """Runs of one agent after the other: what was got, and the game after it."""
    made = {}

    def get(kind, game, epochs=20):
        if (kind, game) not in made:
            plain = in_sequence(kind, game)
            made[kind, game] = rewards_of(plain.run_experiment(epochs, train_steps=2)), plain
        return made[kind, game]

    return get


@pytest.mark.parametrize(("actions", "training"), SWITCHES)
@pytest.mark.parametrize("kind", LEARNERS)
@pytest.mark.parametrize(("game", "epochs"), [(RecordedMeadow, 20), (TiredMeadow, 5)])
def test_a_run_equals_that_of_the_plain_environment(
    sequences, game, epochs, kind, actions, training
):
    rewards, plain = sequences(kind, game, epochs)
    together = in_parallel(game)(
        LEARNERS[kind],
        RULES,
        copies=COPIES,
        seed=4,
        observe="together",
        parallel=ParallelSettings(parallel_actions=actions, parallel_training=training),
    )
    its_rewards, done, _ = run_of(together, epochs, train_steps=2)
    assert its_rewards == rewards
    assert done == plain.done
    # PPO remembers what its policy said, which one pass for all says in other last bits.
    exactly = not training and (kind == "iqn" or not actions)
    assert_same_weights(together, plain, exactly=exactly)


@pytest.mark.parametrize("kind", LEARNERS)
def test_what_is_not_enabled_is_the_plain_environment(sequences, kind):
    rewards, plain = sequences(kind, RecordedMeadow)
    every = {"parallel_actions": True, "parallel_training": True, "async_learning": True}
    game = in_parallel(RecordedMeadow)(
        LEARNERS[kind],
        RULES,
        copies=COPIES,
        seed=4,
        observe="together",
        parallel=ParallelSettings(enabled=False, **every),
    )
    its_rewards, done, _ = run_of(game, 20, train_steps=2)
    assert (its_rewards, done) == (rewards, plain.done)
    assert_same_weights(game, plain, exactly=True)


def test_what_is_not_enabled_may_look_in_turn_and_fails_as_ever():
    parallel = ParallelSettings(enabled=False)
    game = in_parallel(Meadow)(RandomModel, observe="in_turn", parallel=parallel)
    assert game.observe == "in_turn"
    assert in_parallel(Meadow)(RandomModel, parallel=parallel).observe == "in_turn"
    room = Classroom(fails=lambda number: True)
    broken = parallel_game(handing_out(Pupil(room)), agents=1, enabled=False)
    with pytest.raises(ArithmeticError):
        broken.run_epoch()


def uphill(states):
    return np.zeros(len(states), np.int64)


def of_all_kinds():
    """Two architectures twice or more, one alone of its kind, and three who do not learn."""
    wide = model_maker("ppo", {"hidden": [12], "minibatch": 16, "n_frames": 2})
    makers = [LEARNERS["ppo"], wide, LEARNERS["iqn"], RandomModel, wide, LEARNERS["ppo"]]
    return one_by_one(*makers, lambda *_, **__: ScriptedModel(uphill), LEARNERS["ppo"])


CROWD = MeadowRules(agents=8, coin_chance=0.1)


@pytest.fixture(scope="module")
def village():
    plain = Village(of_all_kinds(), CROWD, copies=COPIES, seed=4, observe="together")
    return rewards_of(plain.run_experiment(5)), plain


@pytest.mark.parametrize(("actions", "training"), SWITCHES)
def test_agents_of_several_architectures_and_a_stubborn_one_play_as_ever(
    village, actions, training
):
    rewards, plain = village
    game = in_parallel(Village)(
        of_all_kinds(),
        CROWD,
        copies=COPIES,
        seed=4,
        observe="together",
        parallel=ParallelSettings(parallel_actions=actions, parallel_training=training),
    )
    its_rewards, done, _ = run_of(game, 5)
    assert (its_rewards, done) == (rewards, plain.done)
    assert_same_weights(game, plain, exactly=not actions and not training)
    learned = [agent.number for agent in game.agents if weights(agent)]
    assert learned == [0, 1, 2, 4, 5, 7]


class Asked(FixedModel):
    """Notes in which turns it was asked."""

    def __init__(self, *_, **__):
        super().__init__()
        self.memory = Diary()
        self.asked = 0

    def take_action(self, states):
        self.asked += 1
        return np.full(len(states), 4)


@pytest.mark.parametrize("actions", [False, True])
def test_who_is_done_in_all_copies_is_no_longer_asked(actions):
    game = parallel_game(
        Asked, game=TiredMeadow, observe="together", parallel_actions=actions, num_workers=1
    )
    game.run_experiment_parallel(1)
    game.close()
    assert [agent.model.asked for agent in game.agents] == [3, 5, TURNS]
    assert [len(agent.model.memory) for agent in game.agents] == [3, 5, TURNS]


def test_parallel_actions_are_refused_where_agents_look_in_turn():
    with pytest.raises(WorldError) as refused:
        in_parallel(Meadow)(RandomModel, observe="in_turn")
    assert str(refused.value) == (
        "parallel_actions needs observe: together, where all look before any acts."
    )
    game = in_parallel(Meadow)(
        RandomModel, observe="in_turn", parallel=ParallelSettings(parallel_actions=False)
    )
    assert game.observe == "in_turn"
    assert in_parallel(Meadow)(RandomModel).observe == "together"


@pytest.mark.parametrize("beside", [{}, BESIDE])
def test_where_agents_look_in_turn_they_can_still_learn_together(beside):
    parallel = ParallelSettings(parallel_actions=False, **beside)
    game = in_parallel(RecordedMeadow)(
        LEARNERS["ppo"], RULES, copies=COPIES, seed=4, observe="in_turn", parallel=parallel
    )
    plain = RecordedMeadow(LEARNERS["ppo"], RULES, copies=COPIES, seed=4, observe="in_turn")
    rewards, done, _ = run_of(game, 3)
    if not beside:
        assert rewards == rewards_of(plain.run_experiment(3))
        assert done == plain.done
    assert model_bits(game) != model_bits(RecordedMeadow(LEARNERS["ppo"], RULES, copies=COPIES))


def test_a_game_in_parallel_is_that_game_and_named_after_it():
    game = in_parallel(Meadow)
    assert issubclass(game, ParallelEnvironment)
    assert issubclass(game, Meadow)
    assert game.__name__ == "ParallelMeadow"


def test_figures_are_the_newest_of_each_agent_with_their_staleness():
    game = parallel_game(one_by_one(LEARNERS["ppo"], RandomModel, LEARNERS["iqn"]))
    first, second = game.run_experiment_parallel(2)
    game.close()
    for result in (first, second):
        ppo, random, iqn = result.figures
        assert random == {}
        assert ppo["staleness"] == iqn["staleness"] == 0
        assert {"loss", "epsilon"} <= iqn.keys()
    assert not game.news
