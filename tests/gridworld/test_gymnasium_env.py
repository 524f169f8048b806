import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from keisei.gridworld.errors import WorldError
from keisei.gridworld.examples.treasurehunt import Treasurehunt, TreasurehuntRules
from keisei.gridworld.gymnasium_env import WorldEnv

ALONE = TreasurehuntRules(agents=1)


def test_a_game_of_one_agent_passes_the_check_of_gymnasium_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(WorldEnv(Treasurehunt, ALONE), skip_render_check=True)


@pytest.mark.parametrize("render_mode", ["ansi", "rgb_array"])
def test_it_can_be_registered_and_made_by_name(render_mode):
    gymnasium.register(
        "Treasurehunt-v0", entry_point=lambda **settings: WorldEnv(Treasurehunt, ALONE, **settings)
    )
    env = gymnasium.make("Treasurehunt-v0", render_mode=render_mode)
    env.reset(seed=0)
    assert len(env.render()) == (21 * 22 - 1 if render_mode == "ansi" else 21 * 16)
    gymnasium.registry.pop("Treasurehunt-v0")


def test_an_episode_is_truncated_after_the_games_turns_and_brings_what_is_walked_to():
    env = WorldEnv(Treasurehunt, TreasurehuntRules(agents=1, spawn_chance=0.0, max_turns=30))
    env.reset(seed=1)
    rewards, truncated = [], False
    while not truncated:
        _, reward, terminated, truncated, _ = env.step(np.int64(0))
        assert not terminated
        rewards.append(reward)
    assert len(rewards) == 30
    assert rewards == sorted(rewards, reverse=True)  # it walks up, and then against the wall
    assert rewards[-1] == -1.0


def test_a_game_of_several_agents_is_refused():
    with pytest.raises(WorldError, match=r"has one agent, and this game has 2"):
        WorldEnv(Treasurehunt)
