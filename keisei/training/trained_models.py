"""Trained models: from a run or one of its checkpoints to a network that is ready to play."""

from __future__ import annotations

import warnings
from pathlib import Path

import torch

from keisei.config_schema import ModelConfig, PPOConfig
from keisei.core.ppo_agent import PPOAgent
from keisei.prefixed_names import below
from keisei.training.checkpoint_format import Checkpoint, CheckpointError, load_checkpoint
from keisei.training.checkpoints import CheckpointStore

MODEL_PREFIX = "agent.model."
"""What the names of a network's tensors begin with in a checkpoint."""


def find_checkpoint(path: Path) -> Checkpoint:
    """The checkpoint at `path`, or the best (else the newest) one of the run at `path`."""
    if not (path / "config.yaml").is_file():
        return load_checkpoint(path)
    store = CheckpointStore(path / "checkpoints", keep=1)
    best = store.best()
    if best is not None:
        return load_checkpoint(best)
    newest, damaged = store.newest()
    if newest is None:
        raise CheckpointError(damaged[0] if damaged else f"{path} has no checkpoint yet")
    for sentence in damaged:
        warnings.warn(sentence, stacklevel=2)
    return newest


def load_model(path: Path, device: torch.device) -> PPOAgent:
    """The network of a checkpoint or run, ready to play."""
    checkpoint = find_checkpoint(path)
    if "model" not in checkpoint.state:
        raise ValueError(f"{path} trained the agents of a world: it has no player of shogi")
    agent = PPOAgent(ModelConfig(**checkpoint.state["model"]), PPOConfig(), device=device)
    agent.model.load_state_dict(below(MODEL_PREFIX, checkpoint.tensors))
    return agent
