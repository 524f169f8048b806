"""One sitting of `keisei train`: from the words of the command line to the last line printed."""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

from keisei.config_schema import Config
from keisei.evaluation.ladder import rate_for_training
from keisei.evaluation.model_player import evaluate_for_training
from keisei.evaluation.opponents import make_player
from keisei.evaluation.players import close_player
from keisei.training.display import make_display
from keisei.training.metrics import MetricsLog
from keisei.training.run_folder import RunFolder
from keisei.training.run_log import LOG_FILE, close_run_log, open_run_log
from keisei.training.trainer import Trainer
from keisei.training.training_loop_manager import TrainingLoopManager


@dataclass(frozen=True)
class Switches:
    """How a sitting runs, apart from what the run is."""

    trace: bool = False
    """Write the timeline of every process to `trace.json`."""
    debug_serial: bool = False
    """Do everything in this process."""


_PLAIN = Switches()


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
    def begin(cls, config: Config, switches: Switches = _PLAIN) -> TrainingSession:
        """A new run; nothing is left behind when the settings are wrong."""
        _check_opponents(config)
        folder = RunFolder.create(config)
        trainer = None
        try:
            trainer = Trainer(config, folder.path, **asdict(switches))
            folder.save_config(trainer.config)
            return cls(trainer, folder, resumed=False)
        except BaseException:
            if trainer is not None:
                trainer.close()
            shutil.rmtree(folder.path)
            with suppress(OSError):
                folder.path.parent.rmdir()  # unless there are other runs
            raise

    @classmethod
    def resume(
        cls, path: Path, overrides: list[str], switches: Switches = _PLAIN
    ) -> TrainingSession:
        """The run in a folder, from its newest undamaged checkpoint on."""
        folder = RunFolder.open(path)
        before, config = folder.load_config([]), folder.load_config(overrides)
        if (config.model, config.games) != (before.model, before.games):
            raise ValueError("a resumed run keeps its model and games settings; start a new one")
        if config.ppo.optimizer != before.ppo.optimizer:
            raise ValueError("a resumed run keeps its ppo.optimizer; start a new one")
        _check_opponents(config)
        checkpoint, damaged = folder.checkpoints(config.checkpoints.keep).newest()
        trainer = Trainer(config, folder.path, **asdict(switches))
        try:
            if checkpoint is not None:
                trainer.load_checkpoint(checkpoint)
            folder.save_config(trainer.config)
            session = cls(trainer, folder, resumed=True)
        except BaseException:
            trainer.close()
            raise
        session._notes = damaged
        return session

    def run(self, stream: TextIO) -> bool:
        """Train to the end or until Ctrl-C; whether the end was reached."""
        log = open_run_log(self._folder.path / LOG_FILE, "main")
        try:
            finished = self._train(stream)
        finally:
            self._trainer.close()
            close_run_log(log)
        stream.write(self._closing_words(finished=finished))
        return finished

    def _train(self, stream: TextIO) -> bool:
        with self._metrics as metrics, make_display(stream) as display:
            for note in self._notes:
                display.message(note)
            return TrainingLoopManager(
                self._trainer,
                self._folder,
                metrics=metrics,
                display=display,
                evaluator=evaluate_for_training,
                rater=rate_for_training,
            ).run()

    def _closing_words(self, *, finished: bool) -> str:
        path = self._folder.path
        measure = f"Measure it:  keisei evaluate {path} --against greedy --games 200\n"
        if finished:
            more = 2 * self._trainer.config.training.total_steps
            return (
                measure + f"Train on:    keisei train --resume {path} training.total_steps={more}\n"
            )
        return f"Saved. Resume with:  keisei train --resume {path}\n" + measure


def _check_opponents(config: Config) -> None:
    """Hear of an opponent that is not there before the training, not at the first evaluation."""
    for opponent in config.evaluation.opponents:
        close_player(make_player(opponent, config.seed))
