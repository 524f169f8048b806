"""One sitting of `keisei train`: from the words of the command line to the last line printed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TextIO

from keisei.config_loading import load_config
from keisei.config_schema import Config
from keisei.evaluation.model_player import evaluate_for_training
from keisei.training.display import make_display
from keisei.training.metrics import MetricsLog
from keisei.training.run_folder import RunFolder
from keisei.training.trainer import Trainer
from keisei.training.training_loop_manager import TrainingLoopManager

DEFAULT_CONFIG = "shogi-laptop"


def config_of(words: list[str]) -> Config:
    """The config that the words of a command line mean: a name or file, then settings."""
    names = [word for word in words if "=" not in word]
    if len(names) > 1:
        raise ValueError(f"{names[1]!r} is not a setting: write key=value after the config")
    return load_config(
        names[0] if names else DEFAULT_CONFIG, [word for word in words if "=" in word]
    )


class TrainingSession:
    """A run that is ready to be trained, new or continued."""

    def __init__(self, trainer: Trainer, folder: RunFolder, *, resumed: bool) -> None:
        self._trainer, self._folder = trainer, folder
        self._notes: list[str] = []
        self._metrics = MetricsLog(
            folder.path,
            trainer.config.logging,
            run_name=folder.path.name,
            settings=trainer.config.model_dump(),
            after_update=trainer.updates if resumed else None,
        )

    @classmethod
    def begin(cls, words: list[str]) -> TrainingSession:
        """A new run; nothing is left behind when the settings are wrong."""
        config = config_of(words)
        trainer = Trainer(config)
        folder = RunFolder.create(config)
        try:
            return cls(trainer, folder, resumed=False)
        except ValueError:
            shutil.rmtree(folder.path)
            raise

    @classmethod
    def resume(cls, path: Path, overrides: list[str]) -> TrainingSession:
        """The run in a folder, from its newest undamaged checkpoint on."""
        folder = RunFolder.open(path)
        before, config = folder.load_config([]), folder.load_config(overrides)
        if (config.model, config.games) != (before.model, before.games):
            raise ValueError("a resumed run keeps its model and games settings; start a new one")
        checkpoint, damaged = folder.checkpoints(config.checkpoints.keep).newest()
        trainer = Trainer(config)
        if checkpoint is not None:
            trainer.load_checkpoint(checkpoint)
        folder.save_config(config)
        session = cls(trainer, folder, resumed=True)
        session._notes = damaged
        return session

    def run(self, stream: TextIO) -> bool:
        """Train to the end or until Ctrl-C; whether the end was reached."""
        with self._metrics as metrics, make_display(stream) as display:
            for note in self._notes:
                display.message(note)
            finished = TrainingLoopManager(
                self._trainer,
                self._folder,
                metrics=metrics,
                display=display,
                evaluator=evaluate_for_training,
            ).run()
        stream.write(self._closing_words(finished=finished))
        return finished

    def _closing_words(self, *, finished: bool) -> str:
        path = self._folder.path
        measure = f"Measure it:  keisei evaluate {path} --against greedy --games 200\n"
        if finished:
            more = 2 * self._trainer.config.training.total_steps
            return (
                measure + f"Train on:    keisei train --resume {path} training.total_steps={more}\n"
            )
        return f"Saved. Resume with:  keisei train --resume {path}\n" + measure
