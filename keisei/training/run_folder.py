"""The folder of a run: everything it leaves behind, and how it is found again."""

from __future__ import annotations

import time
from pathlib import Path

from keisei.config_loading import dump_config, load_any, load_config
from keisei.config_schema import Config
from keisei.training.checkpoints import CheckpointStore
from keisei.world_config import WorldConfig


class RunFolder:
    """`config.yaml`, `metrics.jsonl`, `tensorboard/`, `checkpoints/` and `games/` of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.games = path / "games"

    @classmethod
    def create(cls, config: Config | WorldConfig) -> RunFolder:
        """A new folder named after the config and the time, with the config in it."""
        stamp = time.strftime("%Y%m%d-%H%M%S")
        for number in range(1, 1000):
            suffix = "" if number == 1 else f"-{number}"
            path = Path(config.runs_folder) / f"{config.name}-{stamp}{suffix}"
            try:
                path.mkdir(parents=True)
            except FileExistsError:
                continue
            folder = cls(path)
            folder.save_config(config)
            return folder
        raise FileExistsError(f"{config.runs_folder} holds a thousand runs of this second")

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """The folder of an earlier run."""
        if not (path / "config.yaml").is_file():
            raise ValueError(f"{path} is not a run: it has no config.yaml")
        return cls(path)

    def save_config(self, config: Config | WorldConfig) -> None:
        """Write the settings, whole or not at all."""
        unfinished = self.path / ".config.yaml"
        unfinished.write_text(dump_config(config))
        unfinished.replace(self.path / "config.yaml")

    def load_config(self, overrides: list[str]) -> Config:
        """The settings the run was started with, and what is to be different from now on."""
        return load_config(self.path / "config.yaml", overrides)

    def is_of_a_world(self) -> bool:
        """Whether the run trains the agents of a world, not a player of shogi."""
        return isinstance(load_any(self.path / "config.yaml"), WorldConfig)

    def checkpoints(self, keep: int) -> CheckpointStore:
        """The store of its checkpoints."""
        return CheckpointStore(self.path / "checkpoints", keep=keep)
