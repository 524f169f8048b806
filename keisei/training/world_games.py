"""From the settings of a run to its game: one that ships, one in a file, or one of PettingZoo."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import inspect
import sys
from pathlib import Path
from typing import Any

import numpy as np

from keisei.core.devices import pick_device
from keisei.core.world_models import model_maker
from keisei.gridworld.environment import Environment
from keisei.gridworld.errors import WorldError
from keisei.gridworld.game import Game
from keisei.gridworld.model import Model, ModelMaker
from keisei.gridworld.parallel_environment import in_parallel
from keisei.gridworld.parallel_pool import LessonPool
from keisei.gridworld.parallel_settings import ParallelSettings
from keisei.gridworld.rules import dataclass_of
from keisei.training.parallel.lesson_pool import ProcessLessonPool
from keisei.world_config import AgentsInParallel, WorldConfig

GAMES = ("treasurehunt", "cleanup", "tag", "iowa", "staghunt")
PETTINGZOO = "pettingzoo:"


def make_game(config: WorldConfig, *, debug_serial: bool = False, first_copy: int = 0) -> Game:
    """The game of a run, ready for its first epoch.

    first_copy: the number of its first copy, where others play those before. The worlds are then
    those of the whole run; the models draw other random numbers than those of the first copies.
    """
    device = str(pick_device(config.device))
    make_model = model_maker(config.learner.kind, config.learner.settings, device=device)
    if first_copy:
        make_model = _with_other_seeds(make_model, first_copy)
    if config.game.startswith(PETTINGZOO):
        if config.parallel.enabled:
            raise WorldError("parallel is for worlds of this package, not for PettingZoo's.")
        return _pettingzoo_game(config, make_model)
    game = _game_class(config.game)
    if not dataclasses.is_dataclass(getattr(game, "Rules", None)):
        raise WorldError(f"{config.game} has no Rules, a dataclass of what can be set; write one.")
    _check_call(game, config.game, first_copy)
    rules = dataclass_of(game.Rules, config.rules, f"the rules of {config.game}")
    made: dict[str, Any] = {"copies": config.copies, "seed": config.seed}
    if first_copy:
        made["first_copy"] = first_copy
    if not config.parallel.enabled:
        plain: Game = game(make_model, rules, **made, observe=config.observe or "in_turn")
        return plain
    together = config.parallel.parallel_actions
    return in_parallel(game)(
        make_model,
        rules,
        **made,
        observe=config.observe or ("together" if together else "in_turn"),
        parallel=_settings_of(config.parallel, debug_serial=debug_serial),
        lesson_pool=_lesson_pool_of(config.parallel, debug_serial=debug_serial),
    )


def found_from_anywhere(config: WorldConfig) -> WorldConfig:
    """The same, with the whole path of a game in a file: processes may run in other folders."""
    file, colon, class_name = config.game.rpartition(":")
    if not colon or config.game.startswith(PETTINGZOO):
        return config
    return config.model_copy(update={"game": f"{Path(file).resolve()}:{class_name}"})


def _settings_of(parallel: AgentsInParallel, *, debug_serial: bool) -> ParallelSettings:
    return ParallelSettings(
        parallel_actions=parallel.parallel_actions,
        parallel_training=parallel.parallel_training,
        async_learning=parallel.async_learning,
        train_interval=parallel.train_interval,
        backlog=parallel.backlog,
        keep_pace=parallel.keep_pace,
        lesson_timeout=parallel.lesson_timeout if parallel.async_learning else None,
        max_agents_per_lesson=parallel.max_agents_per_lesson if parallel.async_learning else None,
        num_workers=parallel.num_workers,
        deterministic=parallel.deterministic,
        debug_serial=debug_serial,
    )


def _lesson_pool_of(parallel: AgentsInParallel, *, debug_serial: bool) -> LessonPool | None:
    """Processes to train in, unless all is done in one thread or in those that only play."""
    if not (parallel.training_processes and parallel.parallel_training) or debug_serial:
        return None
    return ProcessLessonPool(parallel.training_processes, timeout=parallel.lesson_timeout)


def _with_other_seeds(make_model: ModelMaker, number: int) -> ModelMaker:
    """The same models, each with another seed for every number."""

    def make(observation_shape: tuple[int, ...], actions: int, *, copies: int, seed: int) -> Model:
        other = int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
        return make_model(observation_shape, actions, copies=copies, seed=other)

    return make


def _check_call(game: Any, name: str, first_copy: int) -> None:
    """Refuse a game that cannot be made as those that ship are."""
    more = {"first_copy": first_copy} if first_copy else {}
    try:
        inspect.signature(game.Rules).bind()
        inspect.signature(game).bind(None, None, copies=1, seed=0, observe="in_turn", **more)
    except TypeError as error:
        raise WorldError(
            f"{name} cannot be made as Game(make_model, Rules(), copies=..., seed=..., "
            f"observe=...{', first_copy=...' if first_copy else ''}): {error}."
        ) from None


def _pettingzoo_game(config: WorldConfig, make_model: Any) -> Game:
    try:
        from keisei.gridworld.pettingzoo_game import pettingzoo_game
    except ModuleNotFoundError as error:
        raise WorldError(str(error)) from None
    return pettingzoo_game(
        config.game.removeprefix(PETTINGZOO),
        make_model,
        copies=config.copies,
        seed=config.seed,
        options=dict(config.rules),
    )


def _game_class(name: str) -> Any:
    """A game's class: of a shipped game by its name, of another by file.py:Class."""
    if name in GAMES:
        module = importlib.import_module(f"keisei.gridworld.examples.{name}")
        return getattr(module, name.capitalize())
    file, colon, class_name = name.rpartition(":")
    if not colon:
        raise WorldError(
            f"There is no game {name!r}: known are {', '.join(GAMES)}; your own is file.py:Class, "
            "one of PettingZoo is pettingzoo:module:function."
        )
    found = getattr(_module_in(Path(file)), class_name, None)
    if not (isinstance(found, type) and issubclass(found, Environment)):
        raise WorldError(f"{file} has no game {class_name}, which would be an Environment.")
    return found


def _module_in(path: Path) -> Any:
    """The module in a file, imported once."""
    if not path.is_file():
        raise WorldError(f"The game's file {path} does not exist.")
    name = f"keisei_game_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise WorldError(f"{path} is not a Python file.")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise WorldError(f"{path} cannot be run: {type(error).__name__}: {error}") from error
    return module
