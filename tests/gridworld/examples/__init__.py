"""What the tests of the games have in common: to put agents somewhere, to act, and to replay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from keisei.gridworld.agent import Agent
from keisei.gridworld.environment import Environment
from keisei.gridworld.model import RandomModel


class Record(NamedTuple):
    maps: np.ndarray
    """[T, B, H, W, layers] after each turn."""
    states: np.ndarray
    """[T, N, B, ...]"""
    rewards: np.ndarray
    """[T, N, B]"""


def arrange(environment: Environment, places: Sequence[tuple[int, int]]) -> None:
    """Put the agents at these rows and columns, the same in every copy."""
    world = environment.world
    for agent in environment.agents:
        agent.leave(world, np.arange(world.copies))
    for agent, (row, column) in zip(environment.agents, places, strict=True):
        agent.put(world, world.cells_at(row, column, layer=agent.layer))


def act(environment: Environment, agent: Agent, action: str) -> np.ndarray:
    """[B] what an agent gets for an action, the same in every copy."""
    actions = np.full(environment.world.copies, agent.action_spec.number(action))
    return agent.act(environment.world, actions)


def play(environment: Environment, actions: np.ndarray) -> Record:
    """Play turns with given actions [T, N, B]."""
    maps, states, rewards = [], [], []
    for turn in actions:
        before = environment.rewards.copy()
        environment.begin_turn()
        for agent, action in zip(environment.agents, turn, strict=True):
            states.append(agent.pov(environment.world))
            environment.execute(agent, states[-1], action)
        maps.append(environment.world.map.copy())
        rewards.append(environment.rewards - before)
    shape = (*actions.shape, -1)
    return Record(np.array(maps), np.array(states).reshape(shape), np.array(rewards))


def random_actions(environment: Environment, turns: int, seed: int = 0) -> np.ndarray:
    """[T, N, B]"""
    choices = len(environment.agents[0].action_spec)
    shape = (turns, len(environment.agents), environment.world.copies)
    return np.random.default_rng(seed).integers(0, choices, shape)


def assert_a_copy_lives_through_the_same_alone(game: Any, rules: Any = None) -> None:
    """Copy 2 of 4 copies, and the same copy alone, for equal actions."""
    together = game(RandomModel, rules, copies=4, seed=5)
    alone = game(RandomModel, rules, copies=1, seed=5, first_copy=2)
    actions = random_actions(together, 60)
    whole, part = play(together, actions), play(alone, actions[:, :, 2:3])
    np.testing.assert_array_equal(whole.maps[:, 2:3], part.maps)
    np.testing.assert_array_equal(whole.states[:, :, 2:3], part.states)
    np.testing.assert_array_equal(whole.rewards[:, :, 2:3], part.rewards)
    assert whole.maps[0, 2].tobytes() != whole.maps[0, 3].tobytes()


def assert_seeds_repeat_a_run(game: Any) -> None:
    """The same seed brings the same rewards, for several epochs, and another seed others."""
    for observe in ("in_turn", "together"):
        runs = [
            [
                result.rewards.tolist()
                for result in game(
                    RandomModel, copies=3, seed=seed, observe=observe
                ).run_experiment(2)
            ]
            for seed in (1, 1, 2)
        ]
        assert runs[0] == runs[1]
        assert runs[0] != runs[2]


def assert_nothing_but_these_changes(record: Record, kinds: Sequence[int]) -> None:
    """How many cells of each of these kinds a copy has is the same in all turns."""
    for kind in kinds:
        counts = (record.maps == kind).sum(axis=(2, 3, 4))
        assert (counts == counts[0, 0]).all()
