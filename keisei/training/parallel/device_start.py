"""A quicker start on a GPU: what plays is compiled here while children compile the rest.

On a new machine each part takes ten seconds and more. Kernels of games and compiled functions of
torch go to caches on disk, so that a child process can compile them for this one: `python -m
keisei.training.parallel.device_start PART` reads a config from standard input and compiles
`kernels`, playing a few plies of a few games on the CPU, or the `losses`, on the GPU.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

import torch

from keisei.config_schema import Config, ModelConfig
from keisei.core.device_policy import DevicePolicy
from keisei.core.device_rollout import DeviceRollout
from keisei.core.ppo_agent import PPOAgent

KERNELS, LOSSES = PARTS = ("kernels", "losses")
_LOG = logging.getLogger(__name__)
_FEW_GAMES, _FEW_STEPS = 8, 2
_LONGEST_SECONDS = 300.0


@contextmanager
def seconds_in_log(what: str) -> Iterator[None]:
    """Tell the run's log how long a part of the start takes: all of it is taken from learning."""
    begun = time.perf_counter()
    yield
    _LOG.info("%s in %.1f s", what, time.perf_counter() - begun)


@contextmanager
def compiled_beside(config: Config, parts: Sequence[str] = PARTS) -> Iterator[None]:
    """Have children compile parts of a run with this config while entered.

    Whatever becomes of them, this process compiles what it does not find; a failure is logged.
    """
    with ExitStack() as stack:
        children = [stack.enter_context(_child(config, part)) for part in parts]
        yield
        deadline = time.monotonic() + _LONGEST_SECONDS
        for part, child in zip(parts, children, strict=True):
            with suppress(subprocess.TimeoutExpired):
                child.wait(max(deadline - time.monotonic(), 0))
            if child.returncode != 0:
                _LOG.warning(
                    "The child that compiles the %s failed: this process compiles them.", part
                )


@contextmanager
def _child(config: Config, part: str) -> Iterator[subprocess.Popen[bytes]]:
    hidden_gpu = {"CUDA_VISIBLE_DEVICES": ""} if part == KERNELS else {}
    child = subprocess.Popen(
        [sys.executable, "-m", "keisei.training.parallel.device_start", part],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **hidden_gpu},
    )
    try:
        assert child.stdin is not None
        with suppress(BrokenPipeError), child.stdin as pipe:
            pipe.write(config.model_dump_json().encode())
        yield child
    finally:
        child.kill()
        child.wait()


def compile_playing(
    agent: PPOAgent,
    policy: DevicePolicy,
    opponent: DevicePolicy | None,
    *,
    games: int,
    opponent_games: int,
) -> None:
    """Compile what chooses moves, on positions without pieces.

    games: of a group; opponent_games: those of them against a past self.
    """
    rollout = DeviceRollout(1, games, agent.model.features.words, agent.device)
    for asked, rows in ((policy, games), (opponent, opponent_games)):
        if asked is not None and rows:
            asked.values(rollout.positions[0, :rows], rollout.sets[0, :rows])


def compile_learning(config: Config, agent: PPOAgent, policy: DevicePolicy) -> None:
    """Compile what learns, on such positions; no weight changes."""
    words = agent.model.features.words
    rollout = DeviceRollout(config.training.rollout_length, config.games.count, words, agent.device)
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


def _compile_kernels(config: Config) -> None:
    from keisei.training.trainer import Trainer

    Trainer(small_run(config)).collect()


def _compile_losses(config: Config) -> None:
    from keisei.training.trainer import agent_of

    agent = agent_of(config)
    compile_learning(config, agent, DevicePolicy(agent))


def main() -> None:
    """Compile a part of a run."""
    config = Config.model_validate_json(sys.stdin.read())
    {KERNELS: _compile_kernels, LOSSES: _compile_losses}[sys.argv[1]](config)


if __name__ == "__main__":
    main()
