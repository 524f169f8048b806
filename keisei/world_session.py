"""One sitting of `keisei train` with a world of many agents."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

import torch

from keisei.config_loading import load_any
from keisei.gridworld.game import Game
from keisei.training.display import make_display
from keisei.training.memory_reuse import keep_freed_memory
from keisei.training.metrics import MetricsLog
from keisei.training.parallel.process_counts import usable_cores
from keisei.training.parallel.world_shards import ShardedGame
from keisei.training.run_folder import RunFolder
from keisei.training.run_log import LOG_FILE, close_run_log, open_run_log
from keisei.training.timeline import TRACE_FILE
from keisei.training.world_games import make_game
from keisei.training.world_training import WorldTraining
from keisei.world_config import AgentsInParallel, WorldConfig

_KEPT_BY_A_RUN = ("game", "rules", "copies", "observe", "learner", "seed")


class WorldSession:
    """A run in a world that is ready to be trained, new or continued."""

    def __init__(self, config: WorldConfig, game: Game, folder: RunFolder, *, trace: bool) -> None:
        keep_freed_memory()
        if config.threads:
            torch.set_num_threads(config.threads)
        self._folder = folder
        self._training = WorldTraining(config, game, folder, trace=trace)
        self._notes: list[str] = []
        self._after_epoch: int | None = None

    @classmethod
    def begin(cls, config: WorldConfig, *, trace: bool, debug_serial: bool) -> WorldSession:
        """A new run; nothing is left behind when the settings are wrong."""
        make_game(config, debug_serial=True).close()  # to hear of wrong settings first
        _check_recording(config)
        folder = RunFolder.create(config)
        return cls(config, _game_of(config, folder, trace, debug_serial), folder, trace=trace)

    @classmethod
    def resume(
        cls, path: Path, overrides: list[str], *, trace: bool, debug_serial: bool
    ) -> WorldSession:
        """The run in a folder, from its newest undamaged checkpoint on."""
        folder = RunFolder.open(path)
        before, config = (_world_config(path, words) for words in ([], overrides))
        for name in _KEPT_BY_A_RUN:
            if getattr(config, name) != getattr(before, name):
                raise ValueError(f"a resumed run keeps its {name}; start a new one")
        checkpoint, damaged = folder.checkpoints(config.checkpoints.keep).newest()
        game = _game_of(config, folder, trace, debug_serial)
        session = cls(config, game, folder, trace=trace)
        if checkpoint is not None:
            session._training.load_checkpoint(checkpoint)
        folder.save_config(config)
        session._notes, session._after_epoch = damaged, session._training.game.epoch
        return session

    def run(self, stream: TextIO) -> bool:
        """Train to the end or until Ctrl-C; whether the end was reached."""
        config = self._training.config
        log = open_run_log(self._folder.path / LOG_FILE, "main")
        metrics = MetricsLog(
            self._folder.path,
            config.logging,
            run_name=self._folder.path.name,
            settings=config.model_dump(),
            after_update=self._after_epoch,
        )
        try:
            with metrics, make_display(stream) as display:
                for note in self._notes:
                    display.message(note)
                finished = self._training.run(metrics, display)
        finally:
            self._training.close()
            close_run_log(log)
        stream.write(self._closing_words(finished=finished))
        return finished

    def _closing_words(self, *, finished: bool) -> str:
        path = self._folder.path
        if finished:
            more = 2 * self._training.config.epochs
            return f"Train on:  keisei train --resume {path} epochs={more}\n"
        return f"Saved. Resume with:  keisei train --resume {path}\n"


def _world_config(path: Path, overrides: list[str]) -> WorldConfig:
    config = load_any(path / "config.yaml", overrides)
    if not isinstance(config, WorldConfig):
        raise ValueError(f"{path} is a run of shogi, not of a world")
    return config


def _in_processes(parallel: AgentsInParallel) -> bool:
    return parallel.enabled and not parallel.use_threads


def _check_recording(config: WorldConfig) -> None:
    if config.record_interval and _in_processes(config.parallel):
        raise ValueError("record_interval films worlds of this process: set parallel.use_threads")


def _game_of(config: WorldConfig, folder: RunFolder, trace: bool, debug_serial: bool) -> Game:
    """The game, played in this process or by others."""
    if not _in_processes(config.parallel):
        return make_game(config, debug_serial=debug_serial)
    free = usable_cores() - config.parallel.async_learning  # the learner has a core of its own
    shards = max(1, min(config.parallel.num_workers or free, config.copies))
    return ShardedGame(
        config,
        shards,
        log_path=folder.path / LOG_FILE,
        trace_path=folder.path / TRACE_FILE if trace else None,
        debug_serial=debug_serial,
    )
