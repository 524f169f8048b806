"""Checkpoints whose parts tell what they should hold, for the tests of saving and loading."""

import multiprocessing
from pathlib import Path
from typing import Any

import numpy as np
import torch

from keisei.training.checkpoint_format import Checkpoint
from keisei.training.checkpoints import CheckpointStore

# Children are forked from a server that has imported torch once: milliseconds instead of seconds.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload([__name__])


def save(store: CheckpointStore, update: int, *, attempt: int = 0, size: int = 8) -> Path:
    """Save a checkpoint whose parts all tell its update, so that a mixture would show."""
    tensors: dict[str, Any] = {"weight": torch.full((size,), update), "moment": np.full(3, attempt)}
    return store.save(update, tensors, {"update": update, "attempt": attempt})


def contents(checkpoint: Checkpoint | None) -> tuple[int, int]:
    """The update and the attempt of what `save` saved, after checking that all parts agree."""
    assert checkpoint is not None
    update, attempt = checkpoint.state["update"], checkpoint.state["attempt"]
    assert checkpoint.update == update
    assert (checkpoint.tensors["weight"] == update).all()
    assert (checkpoint.tensors["moment"] == attempt).all()
    return update, attempt


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def updates(store: CheckpointStore) -> list[int]:
    return [int(path.name.removeprefix("update-")) for path in store.paths()]


def flip(file: Path, position: int, mask: int = 0xFF) -> None:
    data = bytearray(file.read_bytes())
    data[position] ^= mask
    file.write_bytes(data)
