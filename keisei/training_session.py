"""One sitting of `keisei train`: from the words of the command line to the last line printed."""

from __future__ import annotations

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


def run_training(words: list[str], resume: Path | None, stream: TextIO) -> bool:
    """Train a new run, or continue one; whether it reached its end.

    words: perhaps the name of a config, then `key=value` settings.
    """
    with make_display(stream) as display:
        if resume is None:
            config = config_of(words)
            trainer = Trainer(config)
            folder = RunFolder.create(config)
        else:
            folder = RunFolder.open(resume)
            config = folder.load_config(words)
            checkpoint, damaged = folder.checkpoints(config.checkpoints.keep).newest()
            for sentence in damaged:
                display.message(sentence)
            trainer = Trainer(config)
            if checkpoint is not None:
                trainer.load_checkpoint(checkpoint)
        metrics = MetricsLog(
            folder.path,
            config.logging,
            run_name=folder.path.name,
            settings=config.model_dump(),
            after_update=trainer.updates if resume is not None else None,
        )
        with metrics:
            finished = TrainingLoopManager(
                trainer,
                folder,
                metrics=metrics,
                display=display,
                evaluator=evaluate_for_training,
            ).run()
    stream.write(_closing_words(folder.path, trainer, finished=finished))
    return finished


def _closing_words(path: Path, trainer: Trainer, *, finished: bool) -> str:
    measure = f"Measure it:  keisei evaluate {path} --against greedy --games 200\n"
    if finished:
        more = 2 * trainer.config.training.total_steps
        return measure + f"Train on:    keisei train --resume {path} training.total_steps={more}\n"
    return f"Saved. Resume with:  keisei train --resume {path}\n" + measure
