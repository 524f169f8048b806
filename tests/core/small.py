"""Networks and rollouts small enough for tests, and exact comparison of what they hold."""

from contextlib import contextmanager

import numpy as np
import pytest
import torch

from keisei.config_schema import Config, GamesConfig, ModelConfig, PPOConfig, TrainingConfig
from keisei.core.fused_network import FusedNetwork
from keisei.core.llvm_code import has_pair_products
from keisei.core.ppo_agent import PPOAgent
from keisei.shogi.vector_shogi import VectorShogi

SMALL_MODEL = ModelConfig(depth=1, width=8, value_width=8)
FUSED_MODEL = ModelConfig(depth=1, width=16, value_width=8, features="tactics")
"""In mixed precision by kernels of our own, see `FusedNetwork`."""
BOTH_CAN_MATE = "k8/2+R6/1G7/9/9/9/7g1/6+r2/8K b Pp 1"
"""Games from here end soon, whoever plays, by mate for either side or by the move limit."""

needs_pair_products = pytest.mark.skipif(
    not has_pair_products(), reason="this processor has no products of pairs of bfloat16"
)


def networks(*, in_children=False):
    """Model and precision of agents, computed by torch and by kernels of our own.

    By these where they can run, for which a test has to use the fixture `no_tiles`; `in_children`,
    which no fixture reaches, only where they are used anyway.
    """
    left_to_torch = pytest.mark.skipif(
        in_children and torch.cpu._is_amx_tile_supported(),
        reason="this processor multiplies tiles: torch computes small networks",
    )
    by_kernels = [needs_pair_products, left_to_torch]
    return [
        pytest.param(_network(SMALL_MODEL, False), id="float32"),
        pytest.param(_network(SMALL_MODEL, True), id="bfloat16"),
        pytest.param(_network(FUSED_MODEL, True), id="kernels", marks=by_kernels),
    ]


def _network(model, mixed_precision):
    return {"model": model, "mixed_precision": mixed_precision}


def computes_as_said(agent):
    """Whether it is `FusedNetwork` that computes if an agent of `networks` is the one for that."""
    said = agent.mixed_precision and agent.model_config == FUSED_MODEL
    return isinstance(agent._half, FusedNetwork) == said


@contextmanager
def one_thread():
    """Compute on one thread: to wait for a second one takes longer than networks this small."""
    VectorShogi(2).play_random(1)  # Numba's first parallel loop sets torch's number of threads too
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def small_config(*, model=SMALL_MODEL, games=None, ppo=None, training=None, **others):
    """A config of 8 games and 8 plies an update; sections are given as dictionaries."""
    return Config(
        device="cpu",
        model=model,
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


def small_agent(*, model=SMALL_MODEL, seed=0, mixed_precision=False, **ppo):
    """An agent with opinions; the keywords are settings of PPO."""
    config = PPOConfig(**ppo)
    return opinionated(PPOAgent(model, config, seed=seed, mixed_precision=mixed_precision))


def bits(tensors):
    """Type, shape and bytes of each tensor or array, so that == is exact."""
    arrays = {name: np.ascontiguousarray(value) for name, value in tensors.items()}
    return {name: (str(a.dtype), a.shape, a.tobytes()) for name, a in arrays.items()}
