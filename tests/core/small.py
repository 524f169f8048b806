"""Networks and rollouts small enough for tests, and exact comparison of what they hold."""

from contextlib import contextmanager

import numpy as np
import torch

from keisei.config_schema import Config, GamesConfig, ModelConfig, PPOConfig, TrainingConfig
from keisei.core.ppo_agent import PPOAgent
from keisei.shogi.vector_shogi import VectorShogi

SMALL_MODEL = ModelConfig(depth=1, width=8, value_width=8)
BOTH_CAN_MATE = "k8/2+R6/1G7/9/9/9/7g1/6+r2/8K b Pp 1"
"""Games from here end soon, whoever plays, by mate for either side or by the move limit."""


@contextmanager
def one_thread():
    """Compute on one thread: to wait for a second one takes longer than networks this small."""
    VectorShogi(2).play_random(1)  # Numba's first parallel loop sets torch's number of threads too
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def small_config(*, games=None, ppo=None, training=None, **others):
    """A config of 8 games and 8 plies an update; sections are given as dictionaries."""
    return Config(
        device="cpu",
        model=SMALL_MODEL,
        games=GamesConfig(**{"count": 8, **(games or {})}),
        ppo=PPOConfig(**{"minibatch": 32, **(ppo or {})}),
        training=TrainingConfig(
            **{"total_steps": 10_000, "rollout_length": 8, "threads": 1, **(training or {})}
        ),
        **others,
    )


def played_games(count=16, plies=30, seed=3):
    """Games in the middle, with their positions and legal moves."""
    games = VectorShogi(count, seed=seed, threads=1)
    games.play_random(plies)
    return games


def opinionated(agent, seed=0):
    """The agent with heads that are no longer zero: it prefers moves and values positions."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        agent.model.policy.weight.normal_(0, 3.0, generator=generator)
        agent.model.value.weight.normal_(0, 0.5, generator=generator)
    return agent


def small_agent(*, seed=0, mixed_precision=False, **ppo):
    """An agent with opinions; the keywords are settings of PPO."""
    config = PPOConfig(**ppo)
    return opinionated(PPOAgent(SMALL_MODEL, config, seed=seed, mixed_precision=mixed_precision))


def bits(tensors):
    """Type, shape and bytes of each tensor or array, so that == is exact."""
    arrays = {name: np.ascontiguousarray(value) for name, value in tensors.items()}
    return {name: (str(a.dtype), a.shape, a.tobytes()) for name, a in arrays.items()}
