import os

import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo import ParallelEnv

from keisei.core.threads import one_thread
from keisei.core.world_models import model_maker
from keisei.gridworld.errors import WorldError
from keisei.gridworld.examples.treasurehunt import Treasurehunt
from keisei.gridworld.model import FixedModel, RandomModel
from keisei.gridworld.pettingzoo_env import WorldParallelEnv
from keisei.gridworld.pettingzoo_game import PettingZooGame, pettingzoo_game

os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # Butterfly draws with pygame
SPREAD = "mpe2.simple_spread_v3:parallel_env"
SPEAKER_LISTENER = "mpe2.simple_speaker_listener_v4:parallel_env"
ZOMBIES = "pettingzoo.butterfly.knights_archers_zombies.knights_archers_zombies:parallel_env"
PONG = "pettingzoo.butterfly.cooperative_pong.cooperative_pong:parallel_env"
SPACES = {
    "early": spaces.Discrete(6),
    "late": spaces.Tuple([spaces.MultiBinary(2), spaces.Box(-1, 1, (2, 2), np.float64)]),
    "image": spaces.Box(0, 255, (2, 2, 3), np.uint8),
    "masked": spaces.Dict(
        {"observation": spaces.Box(0, 9, (1,), np.int64), "action_mask": spaces.MultiBinary(7)}
    ),
}


class Visits(ParallelEnv):
    """Early leaves after 2 turns, late comes after 1, the others stay for 5; an action is a reward.

    Of the actions of masked, the turn's number is the only legal one.
    """

    metadata = {"name": "visits"}  # noqa: RUF012
    possible_agents = ["early", "late", "image", "masked"]  # noqa: RUF012

    def __init__(self):
        self.taken = []

    def observation_space(self, agent):
        return SPACES[agent]

    def action_space(self, agent):
        return {"early": spaces.Discrete(2, start=5), "late": spaces.Discrete(3)}.get(
            agent, spaces.Discrete(7)
        )

    def reset(self, seed=None, options=None):
        self.turn, self.seed = 0, seed
        self.agents = ["early", "image", "masked"]
        return self._observe(), {agent: {} for agent in self.agents}

    def _observe(self):
        legal = np.eye(7, dtype=np.int8)[self.turn]
        return {
            "early": self.turn,
            "late": (np.array([1, 0]), np.full((2, 2), 0.5)),
            "image": np.full((2, 2, 3), 51 * self.turn, np.uint8),
            "masked": {"observation": np.array([self.turn]), "action_mask": legal},
        }

    def step(self, actions):
        assert set(actions) == set(self.agents)
        self.taken.append(actions)
        self.turn += 1
        gone = ["early"] if self.turn == 2 else self.agents if self.turn == 5 else []
        ended = {agent: agent in gone for agent in self.agents}
        rewards = {agent: float(action) for agent, action in actions.items()}
        self.agents = [agent for agent in self.agents if agent not in gone]
        if self.turn == 1:
            self.agents.append("late")
        infos = {agent: {} for agent in SPACES}
        return self._observe(), rewards, ended, dict.fromkeys(ended, False), infos


class Diary(FixedModel):
    """Always chooses its last action, and writes down what it lives through."""

    def __init__(self, observation_shape, actions, *, copies, seed):
        super().__init__()
        self.shape, self.actions, self.seed, self.memory = observation_shape, actions, seed, self
        self.rows = []

    def take_action(self, states):
        return np.full(len(states), self.actions - 1)

    def add(self, *row):
        self.rows.append([array.copy() for array in row])

    def __len__(self):
        return len(self.rows)


@pytest.fixture(autouse=True)
def _one_thread():
    with one_thread():
        yield


@pytest.fixture
def visits():
    game = PettingZooGame(Visits, Diary, copies=2)
    game.run_epoch()
    return game


def test_each_agent_has_a_model_for_its_own_spaces_and_its_own_seed(visits):
    models = {agent.name: agent.model for agent in visits.agents}
    assert {name: model.shape for name, model in models.items()} == {
        "early": (6,),
        "late": (6,),
        "image": (12,),
        "masked": (1,),
    }
    assert [model.actions for model in models.values()] == [2, 3, 7, 7]
    assert len({model.seed for model in models.values()}) == 4


def test_observations_are_flattened_and_bytes_scaled(visits):
    early, late, image, masked = ([row[0][1] for row in a.model.rows] for a in visits.agents)
    np.testing.assert_array_equal(early, np.eye(6)[:2])
    np.testing.assert_array_equal(late, [[1, 0, 0.5, 0.5, 0.5, 0.5]] * 4)
    np.testing.assert_allclose(image[1], [0.2] * 12)
    np.testing.assert_array_equal(masked, [[0], [1], [2], [3], [4]])


def test_agents_come_late_and_leave_early_and_remember_only_when_they_acted(visits):
    dones = [[row[3].tolist() for row in agent.model.rows] for agent in visits.agents]
    no, yes = [False] * 2, [True] * 2
    assert dones == [[no, yes], [no] * 3 + [yes], [no] * 4 + [yes], [no] * 4 + [yes]]
    assert all(row[4].all() for agent in visits.agents for row in agent.model.rows)
    assert not visits.active.any()


def test_actions_reach_the_environment_counted_from_where_its_space_starts(visits):
    assert visits.copies[0].taken[0] == {"early": 6, "image": 6, "masked": 0}
    assert "late" in visits.copies[0].taken[1]
    assert visits.rewards[:, 1].tolist() == [12.0, 8.0, 30.0, 10.0]


def test_an_illegal_choice_is_replaced_by_a_legal_one_and_remembered_as_chosen(visits):
    assert [taken["masked"] for taken in visits.copies[0].taken] == [0, 1, 2, 3, 4]
    assert all((row[1] == 6).all() for row in visits.agents[3].model.rows)


def test_a_mask_among_the_infos_counts_as_well():
    class Told(Visits):
        def step(self, actions):
            *answers, infos = super().step(actions)
            infos["image"] = {"action_mask": np.eye(7)[2]}
            return *answers, infos

    game = PettingZooGame(Told, Diary)
    game.run_epoch()
    assert [taken["image"] for taken in game.copies[0].taken] == [6, 2, 2, 2, 2]


def test_an_episode_is_over_after_max_turns(visits):
    game = PettingZooGame(Visits, Diary, max_turns=3)
    result = game.run_epoch()
    assert (result.turns, result.steps, result.counts) == (3, 2 + 2 + 3 + 3, {"episode_turns": 3.0})
    assert [row[3].all() for row in game.agents[2].model.rows] == [False, False, True]


def test_copies_and_epochs_have_seeds_of_their_own(visits):
    seeds = {env.seed for env in visits.copies}
    visits.run_epoch()
    seeds |= {env.seed for env in visits.copies}
    assert len(seeds) == 4
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_results_are_logged_and_the_first_copy_can_be_watched():
    game, logged, watched = PettingZooGame(Visits, RandomModel), [], []
    results = game.run_experiment(3, log=logged.append, watch=lambda env: watched.append(env.turn))
    assert results == logged
    assert [result.epoch for result in results] == [0, 1, 2]
    assert watched == [0, 1, 2, 3, 4] * 3


@pytest.mark.parametrize(
    ("place", "options"),
    [
        (SPREAD, {}),
        (SPEAKER_LISTENER, {}),
        ("mpe2.simple_tag_v3:env", {}),  # takes turns, and can be converted
        (ZOMBIES, {"max_cycles": 40}),
        (PONG, {"max_cycles": 5, "render_mode": "rgb_array"}),
    ],
)
def test_real_environments_are_played_and_repeat_with_the_seed(place, options):
    def rewards(seed):
        game = pettingzoo_game(place, RandomModel, options=options, copies=2, seed=seed)
        return [result.rewards for result in game.run_experiment(2)]

    np.testing.assert_array_equal(rewards(1), rewards(1))


@pytest.mark.parametrize(
    ("place", "options"), [(SPEAKER_LISTENER, {}), (ZOMBIES, {"max_cycles": 30})]
)
def test_a_resumed_run_goes_on_as_if_it_had_not_stopped(place, options):
    def game():
        ppo = model_maker("ppo", {})
        return pettingzoo_game(place, ppo, options=options, copies=2, seed=4)

    unbroken, first, second = game(), game(), game()
    unbroken.run_experiment(3)
    first.run_experiment(1)
    second.load_state(*first.state())
    second.run_experiment(2)
    assert second.epoch == 3
    arrays, values = unbroken.state()
    arrays_again, values_again = second.state()
    np.testing.assert_equal(arrays_again, arrays)
    assert values_again == values


def test_ppo_learns_to_reach_the_landmark_of_simple():
    # Rewards are minus the squared distance; 20 epochs bring it from about -38 to -9.
    learner = model_maker("ppo", {"minibatch": 100, "epochs": 6})
    game = pettingzoo_game("mpe2.simple_v3:parallel_env", learner, copies=16)
    rewards = [result.total_reward for result in game.run_experiment(20)]
    assert np.mean(rewards[-5:]) > np.mean(rewards[:5]) / 2


def test_our_own_worlds_go_there_and_back():
    game = PettingZooGame(lambda: WorldParallelEnv(Treasurehunt), RandomModel, copies=2)
    assert [agent.name for agent in game.agents] == ["hunter_0", "hunter_1"]
    assert game.run_epoch().turns == 100


def no_environment():
    return "nothing"


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: pettingzoo_game("mpe2.simple_v3", RandomModel), "named as module:attribute"),
        (lambda: pettingzoo_game("no_such_zoo:env", RandomModel), "No module named 'no_such_zoo'"),
        (
            lambda: pettingzoo_game("pettingzoo.mpe.simple_v3:env", RandomModel),
            "cannot be imported: .*mpe2",
        ),
        (
            lambda: pettingzoo_game("mpe2.simple_v3:no_env", RandomModel),
            "no function or class 'no_env'",
        ),
        (
            lambda: pettingzoo_game(f"{__name__}:no_environment", RandomModel),
            "a str, which is no PettingZoo environment",
        ),
        (
            lambda: pettingzoo_game("keisei.shogi.pettingzoo_env:env", RandomModel),
            "agents of shogi_v0 take turns",
        ),
        (
            lambda: pettingzoo_game(SPREAD, RandomModel, options={"colour": "red"}),
            "cannot be made with options .*'colour'",
        ),
        (
            lambda: pettingzoo_game(SPREAD, RandomModel, options={"continuous_actions": True}),
            "agent_0 of simple_spread_v3 has Box",
        ),
        (
            lambda: pettingzoo_game(
                "pettingzoo.test.example_envs.generated_agents_parallel_v0:env", RandomModel
            ),
            "possible_agents",
        ),
        (lambda: PettingZooGame(Visits, RandomModel, copies=0), "At least one copy"),
        (lambda: PettingZooGame(Visits, RandomModel).load_state({}, {"agents": [{}]}), "1 agents"),
    ],
)
def test_what_cannot_be_trained_is_refused_in_a_sentence(wrong, sentence):
    with pytest.raises(WorldError, match=sentence):
        wrong()
