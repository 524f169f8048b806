"""A quicker start on a GPU: its functions are compiled here while a child compiles the kernels.

Both take more than half a minute on a new machine. Kernels go to a cache on disk, so that a child
process can compile them for this one: `python -m keisei.training.parallel.device_start` reads a
config from standard input and plays a few plies of a few games with it, on the CPU.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import torch

from keisei.config_schema import Config, ModelConfig
from keisei.core.device_policy import DevicePolicy
from keisei.core.device_rollout import DeviceRollout
from keisei.core.ppo_agent import PPOAgent

_LOG = logging.getLogger(__name__)
_FEW_GAMES, _FEW_STEPS = 8, 2
_LONGEST_SECONDS = 300.0


@contextmanager
def kernels_compiled_beside(config: Config) -> Iterator[None]:
    """Have a child compile the kernels of a run with this config while entered.

    Whatever becomes of it, this process compiles what it does not find; a failure is logged.
    """
    child = subprocess.Popen(
        [sys.executable, "-m", "keisei.training.parallel.device_start"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )
    try:
        assert child.stdin is not None
        with suppress(BrokenPipeError), child.stdin as pipe:
            pipe.write(config.model_dump_json().encode())
        yield
        with suppress(subprocess.TimeoutExpired):
            child.wait(_LONGEST_SECONDS)
        if child.returncode != 0:
            _LOG.warning("The child that compiles kernels failed: this process compiles them.")
    finally:
        child.kill()
        child.wait()


def compile_ahead(
    config: Config,
    agent: PPOAgent,
    policy: DevicePolicy,
    opponent: DevicePolicy | None,
    *,
    games: int,
    opponent_games: int,
) -> None:
    """Compile what a run will call, on positions without pieces; no weight changes.

    games: of a group; opponent_games: those of them against a past self.
    """
    words = agent.model.features.words
    rollout = DeviceRollout(config.training.rollout_length, config.games.count, words, agent.device)
    for asked, rows in ((policy, games), (opponent, opponent_games)):
        if asked is not None and rows:
            asked.values(rollout.positions[0, :rows], rollout.sets[0, :rows])
    steps = min(config.ppo.minibatch, rollout.steps * rollout.games)
    chosen = torch.arange(steps, device=agent.device)
    entropy_weight = torch.tensor(config.ppo.entropy, device=agent.device)
    losses = policy.losses(rollout, chosen, rollout.advantages, entropy_weight)
    losses["loss"].backward()  # type: ignore[no-untyped-call]
    agent.optimizer.zero_grad(set_to_none=True)


def small_run(config: Config) -> Config:
    """A config that plays with the same kernels, in a moment and on the CPU."""
    parts = {
        "device": "cpu",
        "model": ModelConfig(depth=0, width=4, value_width=1, features=config.model.features),
        "games": config.games.model_copy(update={"count": _FEW_GAMES}),
        "training": config.training.model_copy(
            update={"collector": "device", "rollout_length": _FEW_STEPS}
        ),
    }
    return config.model_copy(update=parts)


def main() -> None:
    """Compile the kernels of a run."""
    from keisei.training.trainer import Trainer

    Trainer(small_run(Config.model_validate_json(sys.stdin.read()))).collect()


if __name__ == "__main__":
    main()
