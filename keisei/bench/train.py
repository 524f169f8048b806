"""`keisei bench train`: how fast a config trains, where the time goes, what the network allows.

The ceiling is the same network doing nothing but its arithmetic: one inference and `epochs`
training passes for each step, on positions that are there already.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from keisei.config_schema import (
    Config,
    GamesConfig,
    ModelConfig,
    TrainingConfig,
    with_parallel,
)
from keisei.core.device_rollout import DeviceRollout
from keisei.core.ppo_agent import PPOAgent
from keisei.core.recorded_call import RecordedCall
from keisei.training.trainer import Trainer

PREDECESSOR = ModelConfig(depth=9, width=256, squeeze_excitation=True, value_width=256)
PREDECESSOR_STEPS_PER_SECOND = 22.5
"""What the predecessor collected with that network on two such cores."""
_WARM_UPDATES = 3
_OPENING_PLIES = 100  # so that the games measured are not all openings


def bench_train(config: Config, updates: int = 10) -> dict[str, Any]:
    """Rates and shares of `updates` updates of a config, in one process."""
    trainer = Trainer(with_parallel(config, enabled=False))
    _play_into_the_game(trainer)
    for _ in range(_WARM_UPDATES):
        trainer.collect()
        trainer.perform_ppo_update()
    seconds = {"games": 0.0, "inference": 0.0, "update": 0.0}
    rates, ceilings = [], []
    started = time.perf_counter()
    spent_on_ceiling = 0.0
    for _ in range(updates):
        start = time.perf_counter()
        rollout = trainer.collect()
        collected = time.perf_counter()
        trainer.perform_ppo_update()
        ended = time.perf_counter()
        seconds["games"] += rollout.games_seconds
        seconds["inference"] += rollout.inference_seconds
        seconds["update"] += ended - collected
        rates.append(rollout.steps / (ended - start))
        ceilings.append(_ceiling(trainer))
        spent_on_ceiling += time.perf_counter() - ended
    total = time.perf_counter() - started - spent_on_ceiling
    shares = {name: spent / total for name, spent in seconds.items()}
    return {
        "device": str(trainer.agent.device),
        "model": f"{config.model.depth}x{config.model.width}",
        "parameters": sum(p.numel() for p in trainer.agent.model.parameters()),
        "steps_per_second": statistics.median(rates),
        "ceiling_steps_per_second": statistics.median(ceilings),
        "share_of_ceiling": statistics.median(
            rate / ceiling for rate, ceiling in zip(rates, ceilings, strict=True)
        ),
        "share_of_time": {**shares, "other": max(1 - sum(shares.values()), 0.0)},
    }


def bench_predecessor(seconds: float = 20.0) -> dict[str, float]:
    """Collection alone with the predecessor's network, and its ratio to what that reached."""
    config = Config(
        model=PREDECESSOR, games=GamesConfig(count=64), training=TrainingConfig(rollout_length=2)
    )
    trainer = Trainer(config)
    trainer.collect()
    steps, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds:
        steps += trainer.collect().steps
    return {
        "predecessor_network_steps_per_second": steps / elapsed,
        "vs_predecessor": steps / elapsed / PREDECESSOR_STEPS_PER_SECOND,
    }


def _play_into_the_game(trainer: Trainer) -> None:
    """Play with the untrained network until games of all lengths run."""
    for _ in range(-(-_OPENING_PLIES // trainer.buffer.steps)):
        trainer.collect()


def _ceiling(trainer: Trainer) -> float:
    """Steps/s of one inference and `epochs` training passes, and nothing else."""
    agent, config = trainer.agent, trainer.config
    played, learned = _samples(trainer)
    inference = _seconds(agent, agent.forward_only, played) / len(played)
    learning = _seconds(agent, agent.forward_and_backward, learned) / len(learned)
    return 1 / (inference + config.ppo.epochs * learning)


def _samples(trainer: Trainer) -> tuple[Tensor, Tensor]:
    """Positions [B, 100] on the device: a batch as it is played, and one as it is learned from."""
    positions = torch.as_tensor(trainer.buffer.positions).to(trainer.agent.device)
    steps, games = positions.shape[:2]
    batch = -(-games // 2) if isinstance(trainer.buffer, DeviceRollout) else games
    size = min(trainer.config.ppo.minibatch, steps * games)
    chosen = torch.randperm(steps * games)[:size].to(positions.device)
    return positions[0, :batch].clone(), positions.flatten(0, 1)[chosen]


def _seconds(
    agent: PPOAgent, work: Callable[[Tensor, Tensor], None], positions: Tensor, times: int = 3
) -> float:
    """Of one call; recorded where the agent records what it does."""
    sets = agent.model.features.sets_of(positions.cpu().numpy()).to(agent.device)
    call = RecordedCall(work, positions, sets) if agent.records else work

    def synchronise() -> None:
        if agent.device.type == "cuda":
            torch.cuda.synchronize()

    call(positions, sets)
    synchronise()
    start = time.perf_counter()
    for _ in range(times):
        call(positions, sets)
    synchronise()
    return (time.perf_counter() - start) / times
