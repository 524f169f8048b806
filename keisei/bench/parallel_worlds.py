"""`keisei bench worlds --parallel`: agents in parallel against the same agents one by one.

Both sides play treasurehunt with the same settings, in turns, in one run. The plain side computes
on one thread: on two it is slower, because its networks are small.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from keisei.core.threads import one_thread
from keisei.core.world_models import model_maker
from keisei.gridworld.environment import Environment
from keisei.gridworld.examples.treasurehunt import Treasurehunt, TreasurehuntRules
from keisei.gridworld.parallel_environment import ParallelEnvironment, in_parallel
from keisei.gridworld.parallel_settings import ParallelSettings
from keisei.training.memory_reuse import keep_freed_memory

_DECISIONS = 20


def bench_parallel_worlds(
    agent_counts: list[int], copy_counts: list[int], *, kind: str, rounds: int, seconds: float
) -> dict[str, Any]:
    """Ratios and rates for each number of agents and copies."""
    keep_freed_memory()
    with one_thread():
        rows = [
            _row(agents, copies, kind, rounds=rounds, seconds=seconds)
            for agents in agent_counts
            for copies in copy_counts
        ]
    return {"model": kind, "rows": rows}


def _row(agents: int, copies: int, kind: str, *, rounds: int, seconds: float) -> dict[str, Any]:
    rules = TreasurehuntRules(agents=agents)
    made: dict[str, Any] = {"copies": copies, "seed": 1, "observe": "together"}
    # As Sorrel does with IQN: a train step for every epoch of every copy.
    train_steps = copies if kind == "iqn" else 1
    parallel = in_parallel(Treasurehunt)
    with ExitStack() as stack:
        plain = Treasurehunt(model_maker(kind, {}), rules, **made)
        together, beside = (
            stack.enter_context(
                parallel(
                    model_maker(kind, {}),
                    rules,
                    **made,
                    parallel=ParallelSettings(async_learning=async_learning),
                )
            )
            for async_learning in (False, True)
        )
        sides: list[Environment] = [plain, together, beside]
        for side in sides:
            side.run_epoch(train_steps=train_steps)
        figures = [_round(sides, train_steps, seconds) for _ in range(rounds)]
        learned_share = _learned_share(beside)
    medians = {name: statistics.median(one[name] for one in figures) for name in figures[0]}
    return {"agents": agents, "copies": copies, **medians, "learned_share": learned_share}


def _round(sides: list[Environment], train_steps: int, seconds: float) -> dict[str, float]:
    plain, together, beside = sides
    rate = _rate(plain, train_steps, seconds)
    beside_rate = _rate(beside, train_steps, seconds)
    training = [_training_seconds(side, train_steps, seconds) for side in (plain, together)]
    deciding = [_deciding_seconds(side) for side in (plain, together)]
    return {
        "deciding_ratio": deciding[0] / deciding[1],
        "training_ratio": training[0] / training[1],
        "all_ratio": beside_rate / rate,
        "plain_agent_steps_per_second": rate,
        "agent_steps_per_second": beside_rate,
    }


def _rate(side: Environment, train_steps: int, seconds: float) -> float:
    """Agent-steps a second, from the first turn to the end of the last lesson."""
    steps, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        steps += side.run_epoch(train_steps=train_steps).steps
    if isinstance(side, ParallelEnvironment):
        side.finish_lessons(train_steps)
    return steps / (time.perf_counter() - started)


def _training_seconds(side: Environment, train_steps: int, seconds: float) -> float:
    """Of an epoch."""
    results: list[float] = []
    started = time.perf_counter()
    while time.perf_counter() - started < seconds / 2 or not results:
        results.append(side.run_epoch(train_steps=train_steps).training_seconds)
    return statistics.median(results)


def _deciding_seconds(side: Environment) -> float:
    """Of a turn of all agents."""
    side.reset()
    states = [agent.pov(side.world) for agent in side.agents]
    return statistics.median(_timed(lambda: side.decide(states)) for _ in range(_DECISIONS))


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _learned_share(side: ParallelEnvironment) -> float:
    """How much of what was collected was learned from."""
    return side.learned_steps / max(side.collected_steps, 1)
