"""How `keisei train` begins: by what the words of the command line ask for, shogi or a world."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Protocol, TextIO

from keisei.config_loading import any_config_of
from keisei.training.run_folder import RunFolder
from keisei.training_session import Switches, TrainingSession
from keisei.world_config import WorldConfig
from keisei.world_session import WorldSession

__all__ = ["Session", "Switches", "begin", "go_on"]


class Session(Protocol):
    """A run that is ready to be trained."""

    def run(self, stream: TextIO) -> bool:
        """Train to the end or until Ctrl-C; whether the end was reached."""


def begin(words: list[str], switches: Switches) -> Session:
    """A new run."""
    config = any_config_of(words)
    if isinstance(config, WorldConfig):
        return WorldSession.begin(config, **asdict(switches))
    return TrainingSession.begin(config, switches)


def go_on(path: Path, overrides: list[str], switches: Switches) -> Session:
    """The run in a folder, continued."""
    if RunFolder.open(path).is_of_a_world():
        return WorldSession.resume(path, overrides, **asdict(switches))
    return TrainingSession.resume(path, overrides, switches)
