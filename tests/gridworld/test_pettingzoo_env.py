import importlib
import sys
import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from pettingzoo.test import parallel_api_test, parallel_seed_test

from keisei.gridworld.action_spec import ActionSpec
from keisei.gridworld.agent import MovingAgent
from keisei.gridworld.entity import Empty, Wall
from keisei.gridworld.environment import Environment
from keisei.gridworld.errors import WorldError
from keisei.gridworld.examples.treasurehunt import Treasurehunt, TreasurehuntRules
from keisei.gridworld.model import RandomModel
from keisei.gridworld.observation_spec import ObservationSpec
from keisei.gridworld.pettingzoo_env import WorldParallelEnv
from keisei.gridworld.world import World

GAMES = ["treasurehunt", "tag", "iowa", "cleanup", "staghunt"]


def game_called(name):
    return getattr(importlib.import_module(f"keisei.gridworld.examples.{name}"), name.capitalize())


@dataclass(frozen=True)
class MarchRules:
    max_turns: int = 4
    gap: int = 2
    copies: int = 1


class Marcher(MovingAgent):
    """Is done when it reaches the last column; each step it makes brings 1."""

    value = 7.0

    def act(self, world, action):
        before = world.agents.columns[self.number].copy()
        self.walk(world, action)
        return (world.agents.columns[self.number] - before).astype(np.float32)

    def is_done(self, world):
        return world.agents.columns[self.number] == world.width - 1


class March(Environment):
    """Two walk to the right in rows of their own, the second with a lead of `gap` columns."""

    def __init__(self, make_model, rules=None, *, seed=0):
        self.rules = rules or MarchRules()
        world = World(2, 6, (Empty, Wall, Marcher), seed=seed, copies=self.rules.copies)
        super().__init__(world, make_model, max_turns=self.rules.max_turns)

    def setup_agents(self):
        actions = ActionSpec(["left", "right"])
        spec = ObservationSpec(
            self.world,
            (Empty, Marcher),
            features=lambda world, agent: np.full((world.copies, 1), -world.turn, np.float32),
            feature_count=1,
        )
        return [Marcher(spec, actions, self.new_model(spec, len(actions))) for _ in range(2)]

    def populate_environment(self):
        for agent in self.agents:
            column = agent.number * self.rules.gap
            agent.put(self.world, self.world.cells_at(agent.number, column))

    def counts(self):
        return {"turns": float(self.world.turn)}


def march(rules=None):
    env = WorldParallelEnv(March, rules)
    env.reset(seed=0)
    return env


def both(env, action):
    return env.step(dict.fromkeys(env.agents, action))


@pytest.mark.parametrize("name", GAMES)
def test_every_game_passes_the_tests_of_pettingzoo_without_a_warning(name):
    game = game_called(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parallel_api_test(WorldParallelEnv(game), num_cycles=200)
        parallel_seed_test(lambda: WorldParallelEnv(game))


def episode(env, **reset):
    """All that an episode of seeded random actions shows."""
    observations, _ = env.reset(**reset)
    random, shown = np.random.default_rng(0), [observations]
    while env.agents:
        actions = {name: int(random.integers(env.action_space(name).n)) for name in env.agents}
        shown.append(env.step(actions))
    return shown


# The seed test of PettingZoo 1.27 looks at one step only.
@pytest.mark.parametrize("name", GAMES)
def test_a_seed_repeats_an_episode_to_its_end_and_observations_lie_in_their_space(name):
    env, other = WorldParallelEnv(game_called(name)), WorldParallelEnv(game_called(name))
    first, again = episode(env, seed=5), episode(other, seed=5)
    np.testing.assert_equal(first, again)
    for observations, *_ in first[1:]:
        assert all(seen in env.observation_space(who) for who, seen in observations.items())


def test_without_a_seed_episodes_differ():
    env = WorldParallelEnv(Treasurehunt)
    first, second = episode(env, seed=5)[0], episode(env)[0]
    assert not np.array_equal(first["hunter_0"], second["hunter_0"])


def test_a_step_is_a_turn_of_an_environment_whose_agents_observe_together():
    environment = Treasurehunt(RandomModel, seed=3, observe="together")
    env = WorldParallelEnv(Treasurehunt)
    env.reset(seed=3)
    gained = np.zeros(2)
    random_models = [agent.model for agent in Treasurehunt(RandomModel, seed=3).agents]
    while env.agents:
        environment.take_turn()
        chosen = [int(model.take_action(np.zeros((1, 150)))[0]) for model in random_models]
        _, rewards, *_ = env.step(dict(zip(env.agents, chosen, strict=True)))
        gained += list(rewards.values())
    assert gained.tolist() == environment.rewards[:, 0].tolist()


def test_who_is_done_is_terminated_and_leaves_while_the_others_go_on():
    env = march()
    for _ in range(2):
        _, _, terminations, truncations, infos = both(env, 1)
    assert not any(terminations.values())
    assert infos == {"marcher_0": {}, "marcher_1": {}}
    _, rewards, terminations, truncations, _ = both(env, 1)
    assert rewards == {"marcher_0": 1.0, "marcher_1": 1.0}
    assert terminations == {"marcher_0": False, "marcher_1": True}
    assert truncations == {"marcher_0": False, "marcher_1": False}
    assert env.agents == ["marcher_0"]


def test_who_is_not_done_in_the_last_turn_is_truncated_and_the_game_tells_its_counts():
    env = march()
    for _ in range(3):
        both(env, 1)
    _, _, terminations, truncations, infos = both(env, 1)
    assert (terminations, truncations) == ({"marcher_0": False}, {"marcher_0": True})
    assert infos == {"marcher_0": {"turns": 4.0}}
    assert env.agents == []


def test_who_is_done_in_the_very_last_turn_is_terminated():
    env = march(MarchRules(max_turns=3))
    for _ in range(3):
        _, _, terminations, truncations, _ = both(env, 1)
    assert terminations == {"marcher_0": False, "marcher_1": True}
    assert truncations == {"marcher_0": True, "marcher_1": False}


def test_of_features_the_space_knows_no_bounds():
    space = WorldParallelEnv(March).observation_space("marcher_0")
    assert space.high.tolist() == [1.0] * 24 + [np.inf]
    assert space.low.tolist() == [0.0] * 24 + [-np.inf]


def test_the_world_is_shown_as_text_or_image():
    text = WorldParallelEnv(March, render_mode="ansi")
    text.reset()
    assert text.render() == "@.....\n..@..."
    image = WorldParallelEnv(March, render_mode="rgb_array")
    image.reset()
    picture = image.render()
    assert (picture.shape, picture.dtype) == ((32, 96, 3), np.uint8)
    assert picture[0, 0].tolist() == list(Marcher.colour)
    assert WorldParallelEnv(March).render() is None


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: WorldParallelEnv(March, render_mode="3d"), "render_mode is one of"),
        (lambda: WorldParallelEnv(March, MarchRules(copies=2)), "one copy"),
        (lambda: WorldParallelEnv(March).step({}), "call reset"),
        (lambda: march().step({"marcher_0": 1}), "marcher_1 is alive and needs an action"),
        (lambda: both(march(), 2), "marcher_0 has actions 0 to 1"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(wrong, sentence):
    with pytest.raises(WorldError, match=sentence):
        wrong()


def test_a_game_of_other_rules_is_that_game():
    env = WorldParallelEnv(Treasurehunt, TreasurehuntRules(agents=3, window=3))
    assert env.possible_agents == ["hunter_0", "hunter_1", "hunter_2"]
    assert env.observation_space("hunter_2").shape == (54,)


@pytest.mark.parametrize(
    ("module", "missing"),
    [
        ("keisei.gridworld.pettingzoo_env", "pettingzoo"),
        ("keisei.gridworld.pettingzoo_game", "pettingzoo"),
        ("keisei.gridworld.gymnasium_env", "gymnasium"),
        ("keisei.shogi.pettingzoo_env", "pettingzoo"),
    ],
)
def test_without_the_extra_an_import_says_what_to_install(module, missing, monkeypatch):
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ModuleNotFoundError, match=rf"needs? {missing}: .*keisei\[pettingzoo\]"):
        importlib.import_module(module)
