"""`keisei bench worlds --parallel`: agents in parallel against the same agents one by one.

All sides play treasurehunt with the same settings, in turns, in one run:

- one after the other, on one thread: on two it is slower, because its networks are small;
- together: parallel actions and parallel training;
- beside: also async learning, all in one process, at full speed: what cannot be learned from in
  time is forgotten;
- paced: the same at the pace of the learner;
- in processes: the same, but worker processes play, and every epoch is learned from.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any, NamedTuple

from keisei.core.threads import one_thread
from keisei.gridworld.game import Game
from keisei.training.memory_reuse import keep_freed_memory
from keisei.training.parallel.process_counts import usable_cores
from keisei.training.parallel.world_shards import ShardedGame
from keisei.training.world_games import make_game
from keisei.world_config import WorldConfig

_DECISIONS = 20
_WARM_EPOCHS = 2
_TOGETHER: dict[str, Any] = {"enabled": True}
_PACED: dict[str, Any] = {**_TOGETHER, "async_learning": True}
_BESIDE: dict[str, Any] = {**_PACED, "keep_pace": False}
_TRACKED = ("beside", "paced")
"""Whose pauses are measured, and how much of what they collected they learned from."""
_ALL_THREE = (*_TRACKED, "processes")
"""Sides with all three switches on."""


class Measured(NamedTuple):
    """One side for a while."""

    rate: float
    """Agent-steps a second, from the first turn to the end of the last lesson."""
    training_seconds: float
    """Of an epoch, the median."""


def bench_parallel_worlds(
    agent_counts: list[int],
    copy_counts: list[int],
    *,
    kind: str,
    rounds: int,
    seconds: float,
    device: str = "cpu",
) -> dict[str, Any]:
    """Ratios and rates for each number of agents and copies."""
    keep_freed_memory()
    with one_thread():
        rows = [
            _row(_config(agents, copies, kind, device), rounds=rounds, seconds=seconds)
            for agents in agent_counts
            for copies in copy_counts
        ]
    return {"model": kind, "device": device, "cores": usable_cores(), "rows": rows}


def _config(agents: int, copies: int, kind: str, device: str) -> WorldConfig:
    return WorldConfig.model_validate(
        {
            "game": "treasurehunt",
            "rules": {"agents": agents},
            "copies": copies,
            "observe": "together",
            "device": device,
            # As Sorrel does with IQN: a train step for every epoch of every copy.
            "learner": {"kind": kind, "train_steps": copies if kind == "iqn" else 1},
        }
    )


def _row(config: WorldConfig, *, rounds: int, seconds: float) -> dict[str, Any]:
    train_steps = config.learner.train_steps
    with ExitStack() as stack:
        sides = {name: stack.enter_context(closing(side)) for name, side in _sides(config)}
        for side in sides.values():  # until all is compiled, and memory in use
            for _ in range(_WARM_EPOCHS):
                side.run_epoch(train_steps=train_steps)
                side.finish_lessons(train_steps)  # weights are taken over, too
        figures = [_round(sides, train_steps, seconds) for _ in range(rounds)]
        learned_shares = {f"{name}_learned_share": _learned_share(sides[name]) for name in _TRACKED}
    medians = {name: statistics.median(one[name] for one in figures) for name in figures[0]}
    row = {"agents": config.rules["agents"], "copies": config.copies}
    longest = {
        f"{name}_longest_pause_of_all_seconds": max(
            one[f"{name}_longest_pause_seconds"] for one in figures
        )
        for name in _TRACKED
    }
    return {**row, **medians, **learned_shares, **longest}


def _learned_share(side: Any) -> float:
    return float(side.learned_steps / max(side.collected_steps, 1))


def _sides(config: WorldConfig) -> list[tuple[str, Game]]:
    """Those of a row, ready for their first epoch."""
    return [
        ("one_by_one", make_game(config)),
        ("together", make_game(_with(config, _TOGETHER))),
        ("beside", make_game(_with(config, _BESIDE))),
        ("paced", make_game(_with(config, _PACED))),
        ("processes", in_processes(config)),
    ]


def in_processes(config: WorldConfig) -> ShardedGame:
    """The game played by worker processes, which leave a core to the learner beside them.

    Every epoch is learned from while the next one is played.
    """
    shards = max(1, min(usable_cores() - 1, config.copies))
    return ShardedGame(_with(config, {**_PACED, "deterministic": True}), shards)


def _with(config: WorldConfig, parallel: dict[str, Any]) -> WorldConfig:
    return WorldConfig.model_validate({**config.model_dump(), "parallel": parallel})


def _round(sides: dict[str, Game], train_steps: int, seconds: float) -> dict[str, float]:
    """Of a turn of every side, and the longest pause and snapshot of those that learn beside."""
    tracked: dict[str, Any] = {name: sides[name] for name in _TRACKED}
    for side in tracked.values():
        side.pauses.longest.clear()
    measured = {name: _measured(side, train_steps, seconds) for name, side in sides.items()}
    plain, together = measured["one_by_one"], measured["together"]
    deciding = {name: _deciding_seconds(sides[name]) for name in ("one_by_one", "together")}
    return {
        "deciding_ratio": deciding["one_by_one"] / deciding["together"],
        "training_ratio": plain.training_seconds / together.training_seconds,
        **{f"{name}_ratio": measured[name].rate / plain.rate for name in _ALL_THREE},
        **{f"{name}_agent_steps_per_second": one.rate for name, one in measured.items()},
        **{
            f"{name}_longest_{what}_seconds": side.pauses.longest.get(what, 0.0)
            for name, side in tracked.items()
            for what in ("pause", "snapshot")
        },
    }


def _measured(side: Game, train_steps: int, seconds: float) -> Measured:
    steps, training = 0, []
    started = time.perf_counter()
    while time.perf_counter() - started < seconds:
        result = side.run_epoch(train_steps=train_steps)
        steps += result.steps
        training.append(result.training_seconds)
    side.finish_lessons(train_steps)
    return Measured(steps / (time.perf_counter() - started), statistics.median(training))


def _deciding_seconds(side: Any) -> float:
    """Of a turn of all agents."""
    side.reset()
    states = side.look()
    return statistics.median(_timed(lambda: side.decide(states)) for _ in range(_DECISIONS))


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
