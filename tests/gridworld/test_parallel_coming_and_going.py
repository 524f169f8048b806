"""Agents that are added to a game in parallel, that leave it, and that die in it."""

import numpy as np
import pytest

from keisei.gridworld.agent import UNNUMBERED
from keisei.gridworld.errors import WorldError
from tests.core.small import bits
from tests.gridworld.learning_doubles import (
    LEARNERS,
    Classroom,
    Pupil,
    Recorded,
    TiredMeadow,
    model_bits,
    parallel_game,
    rewards_of,
    threads_called,
    weights,
)
from tests.gridworld.parallel_games import BESIDE, MODES, pupils_game
from tests.gridworld.small_worlds import Coin, Hedge, Meadow, MeadowRules, Thorn, Walker

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(autouse=True)
def _no_thread_stays():
    yield
    assert threads_called("learner", "training") == 0


class Lanes(Recorded, Meadow):
    """Every walker has a lane with coins and thorns to itself, and nothing is left to chance."""

    def populate_environment(self):
        world = self.world
        world.place(Hedge, world.border())
        for agent in self.agents:
            column = 2 + 3 * agent.lane
            world.place(Hedge, world.cells_at(np.arange(world.height), column - 1))
            world.place(Hedge, world.cells_at(np.arange(world.height), column + 1))
            world.place(Coin, world.cells_at(np.arange(2, 6), column))
            world.place(Thorn, world.cells_at(6, column))
            agent.put(world, world.cells_at(1, column))

    def setup_agents(self):
        agents = super().setup_agents()
        for lane, agent in enumerate(agents):
            agent.lane = lane
        return agents


def lanes_game(kind, *, agents=4, **settings):
    rules = MeadowRules(height=9, width=3 * agents + 4, agents=agents, coin_chance=0.0)
    return parallel_game(LEARNERS[kind], game=Lanes, rules=rules, **settings)


def newcomer(game, lane=3):
    like = game.agents[0]
    model = game.new_model(like.observation_spec, len(like.action_spec))
    agent = type(like)(like.observation_spec, like.action_spec, model)
    agent.lane = lane
    return agent


EXACT = {
    "here": {"parallel_training": False, "parallel_actions": False, "observe": "together"},
    "beside": {
        "parallel_training": False,
        "parallel_actions": False,
        "observe": "together",
        **BESIDE,
    },
}
"""Where one by one computes, so that the number of agents rounds nothing otherwise."""


@pytest.mark.parametrize("mode", EXACT)
@pytest.mark.parametrize("kind", LEARNERS)
def test_those_who_stay_go_on_bit_for_bit_when_another_leaves(kind, mode):
    with lanes_game(kind, **EXACT[mode]) as all_stay:
        expected = rewards_of(all_stay.run_experiment_parallel(3))
        expected += rewards_of(all_stay.run_experiment_parallel(3))
        others = model_bits(all_stay, 1)
    with lanes_game(kind, **EXACT[mode]) as game:
        rewards = rewards_of(game.run_experiment_parallel(3))
        gone = game.remove_agent(1)
        assert gone.number == UNNUMBERED
        assert [agent.lane for agent in game.agents] == [0, 2, 3]
        assert [agent.number for agent in game.agents] == [0, 1, 2]
        rewards += rewards_of(game.run_experiment_parallel(3))
    assert rewards[:3] == expected[:3]
    assert rewards[3:] == [[a, c, d] for a, _, c, d in expected[3:]]
    assert list(model_bits(game).values()) == list(others.values())


@pytest.mark.parametrize("mode", EXACT)
@pytest.mark.parametrize("kind", LEARNERS)
def test_those_who_are_there_go_on_bit_for_bit_when_another_comes(kind, mode):
    with lanes_game(kind, agents=3, **EXACT[mode]) as few:
        expected = rewards_of(few.run_experiment_parallel(2))
        expected += rewards_of(few.run_experiment_parallel(4))
        others = model_bits(few)
    with lanes_game(kind, agents=3, **EXACT[mode]) as game:
        rewards = rewards_of(game.run_experiment_parallel(2))
        agent = newcomer(game)
        game.add_agent(agent)
        before = bits(weights(agent))
        rewards += rewards_of(game.run_experiment_parallel(4))
        assert agent.number == 3
        assert bits(weights(agent)) != before
    assert [epoch[:3] for epoch in rewards] == expected
    assert [len(epoch) for epoch in rewards] == [3] * 2 + [4] * 4
    assert model_bits(game, 3) == others


@pytest.mark.parametrize("actions", [False, True])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", LEARNERS)
def test_agents_come_and_go_under_all_switches(kind, mode, actions):
    with lanes_game(kind, parallel_actions=actions, observe="together", **MODES[mode]) as game:
        game.run_experiment(2, train_steps=2)
        game.remove_agent(0)
        game.run_experiment(2, train_steps=2)
        agent = newcomer(game, lane=0)
        game.add_agent(agent)
        figures = game.run_experiment_parallel(4, train_steps=2)[-1].figures
        assert len(figures) == 4
        assert all(np.isfinite(its["loss"]) for its in figures)
        if "beside" in mode:
            twins = game.lessons.learner.twins
            assert list(twins) == [0, 1, 2, 3]
            for number, twin in twins.items():
                ours = weights(game.agents[number])
                assert bits({n: a for n, a in twin.state()[0].items() if n in ours}) == bits(ours)
        assert game.news == []


def test_a_lesson_under_way_is_finished_before_somebody_leaves():
    pupils = [Pupil(Classroom()) for _ in range(3)]
    with pupils_game(*pupils, **BESIDE) as game:
        game.run_experiment(1)
        gone = game.remove_agent(0)
        assert [pupil.known for pupil in pupils] == [1, 1, 1]
        game.run_experiment_parallel(2)
        assert gone.model.known == 1
        assert [pupil.known for pupil in pupils[1:]] == [3, 3]


def test_failures_and_rests_move_with_their_agents():
    pupils = [Pupil(Classroom()), Pupil(Classroom()), Pupil(Classroom(fails=lambda n: n < 3))]
    with pupils_game(*pupils) as game:
        game.run_experiment(3)
        assert game.failures == [0, 0, 2]
        game.remove_agent(0)
        assert game.failures == [0, 2]
        game.run_experiment(3)
        assert game.failures == [0, 0]
    assert [text.split(" failed")[0] for text in game.news] == ["The training of agent 2"] * 2


# In the midst of an epoch


@pytest.mark.parametrize("settings", [{}, BESIDE])
def test_between_two_turns_an_agent_may_come_in_some_copies_and_leave_all(settings):
    with parallel_game(LEARNERS["ppo"], game=Meadow, agents=2, copies=3, **settings) as game:
        game.run_experiment(1)
        game.reset()
        for agent in game.agents:
            agent.model.start_epoch_action(game.epoch)
        game.take_turn()
        like = game.agents[0]
        agent = Walker(like.observation_spec, like.action_spec, newcomer(game).model)
        free = game.world.pick(game.world.inside(), 5)
        spot = next(spot for spot in free if game.world.passable[game.world.look(spot)].all())
        rewards = game.rewards.copy()
        game.add_agent(agent, spot[np.array([True, False, True])])
        assert game.active[2].tolist() == [True, False, True]
        assert np.array_equal(game.rewards[:2], rewards)
        assert game.world.count(Walker).tolist() == [3, 2, 3]
        game.take_turn()
        assert len(agent.model.memory) == 2
        game.remove_agent(0)
        assert game.world.count(Walker).tolist() == [2, 1, 2]
        steps = game.steps
        game.take_turn()
        assert game.steps == steps + 5
        game.finish_epoch(train_steps=1)
        game.run_experiment_parallel(2)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", LEARNERS)
def test_agents_that_die_early_learn_from_what_they_lived_through(kind, mode):
    with parallel_game(LEARNERS[kind], game=TiredMeadow, **MODES[mode]) as game:
        before = [bits(weights(agent)) for agent in game.agents]
        game.run_experiment_parallel(6, train_steps=2)
        after = [bits(weights(agent)) for agent in game.agents]
        assert all(old != new for old, new in zip(before, after, strict=True))
        assert game.news == []


# What is refused


def test_what_cannot_be_is_one_sentence_and_changes_nothing():
    class Stranger(Walker):
        pass

    with parallel_game(LEARNERS["ppo"], game=Meadow, agents=2) as game:
        like = game.agents[0]
        stranger = Stranger(like.observation_spec, like.action_spec, like.model)
        places = game.world.agents
        for change, sentence in [
            (lambda: game.add_agent(like), "This agent is in a game already, as agent 0."),
            (lambda: game.remove_agent(2), "There is no agent 2: there are 0 to 1."),
            (lambda: game.add_agent(stranger), "Stranger"),
        ]:
            with pytest.raises(WorldError, match=sentence):
                change()
        assert game.world.agents is places
        assert [agent.number for agent in game.agents] == [0, 1]
        assert stranger.number == UNNUMBERED
        game.remove_agent(0)
        with pytest.raises(WorldError, match="the last one cannot be removed"):
            game.remove_agent(0)
        game.run_experiment_parallel(2)
