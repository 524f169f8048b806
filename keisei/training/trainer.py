"""`Trainer`: all parts of a run, and what makes them continue exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from keisei.config_schema import Config
from keisei.core.experience_buffer import ExperienceBuffer
from keisei.core.ppo_agent import PPOAgent
from keisei.training.checkpoint_format import Checkpoint
from keisei.training.opponent_pool import OpponentPool
from keisei.training.parallel.experience_collector import (
    ExperienceCollector,
    RolloutStatistics,
    SerialCollector,
)


def pick_device(wanted: str) -> torch.device:
    """The device of a config; a GPU that is asked for and missing is an error."""
    available = torch.cuda.is_available()
    if wanted == "cuda" and not available:
        raise ValueError("device is cuda, but no GPU is available; use device=cpu or auto")
    return torch.device("cuda" if available and wanted != "cpu" else "cpu")


class Trainer:
    """The learner, the games and the counters of one run."""

    def __init__(self, config: Config) -> None:
        self.config = config
        threads = config.training.threads or torch.get_num_threads()
        self.agent = PPOAgent(
            config.model,
            config.ppo,
            device=pick_device(config.device),
            seed=config.seed,
            compile=config.training.compile,
            mixed_precision=config.training.mixed_precision,
        )
        self.pool = OpponentPool(config, self.agent) if config.games.opponent_share else None
        self.collector: ExperienceCollector = SerialCollector(
            config, self.agent, self.pool, threads=threads
        )
        # After the games: Numba's first parallel loop resets the number of OpenMP's threads.
        torch.set_num_threads(threads)
        self.buffer = ExperienceBuffer(config.training.rollout_length, config.games.count)
        self.updates = 0
        self.steps = 0
        self.games = 0
        self.best_score: float | None = None

    @property
    def progress(self) -> float:
        """From 0 to 1: how much of the run is done."""
        return min(self.steps / self.config.training.total_steps, 1.0)

    def collect(self) -> RolloutStatistics:
        """Play one rollout into the buffer and compute its advantages."""
        self.buffer.clear()
        last_values, statistics = self.collector.collect(self.buffer)
        self.buffer.compute_advantages_and_returns(
            last_values,
            gamma=self.config.ppo.gamma,
            gae_lambda=self.config.ppo.gae_lambda,
            cut_games=self.config.ppo.cut_games,
        )
        self.steps += statistics.steps
        self.games += statistics.games
        return statistics

    def perform_ppo_update(self) -> dict[str, float]:
        """Learn from the rollout in the buffer; the figures of the update."""
        try:
            return self.agent.update(self.buffer, self.progress)
        finally:
            self.updates += 1
            if self.pool is not None:
                self.pool.after_update(self.updates)

    def state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """(tensors, JSON) of everything that the run continues from."""
        tensors, agent = self.agent.state()
        everything: dict[str, Any] = {f"agent.{name}": value for name, value in tensors.items()}
        everything |= {f"games.{name}": array for name, array in self.collector.state().items()}
        state: dict[str, Any] = {
            "agent": agent,
            "updates": self.updates,
            "steps": self.steps,
            "games": self.games,
            "best_score": self.best_score,
            "model": self.config.model.model_dump(),
        }
        if self.pool is not None:
            weights, state["pool"] = self.pool.state()
            everything |= {f"pool.{name}": value for name, value in weights.items()}
        return everything, state

    def load_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Continue from a checkpoint of a run with the same config."""
        tensors, state = checkpoint.tensors, checkpoint.state
        self.agent.load_state(_below("agent.", tensors), state["agent"])
        games = {name: np.asarray(array) for name, array in _below("games.", tensors).items()}
        self.collector.load_state(games)
        if self.pool is not None:
            self.pool.load_state(_below("pool.", tensors), state["pool"])
        self.updates, self.steps, self.games = state["updates"], state["steps"], state["games"]
        self.best_score = state["best_score"]


def _below(prefix: str, tensors: dict[str, Any]) -> dict[str, Any]:
    return {
        name.removeprefix(prefix): value
        for name, value in tensors.items()
        if name.startswith(prefix)
    }
