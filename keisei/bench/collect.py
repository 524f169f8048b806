"""`keisei bench collect`: how collection scales with workers, and what transport and weights cost.

All worker counts are measured in turns, in one run: while one plays, the others are paused. Beside
each stand as many processes that play without handing anything over, which is what a collector
could have at best: cores that are all busy may be slower than one.
"""

from __future__ import annotations

import statistics
import time
from contextlib import ExitStack
from typing import Any

import numpy as np

from keisei.bench.unlinked_play import UnlinkedPlay
from keisei.config_schema import Config, ModelConfig, with_parallel
from keisei.core.experience_buffer import ExperienceBuffer
from keisei.core.ppo_agent import PPOAgent
from keisei.core.res_tower import model_factory
from keisei.training.opponent_pool import OpponentPool
from keisei.training.parallel.child_process import settle_as_child
from keisei.training.parallel.communication import Kind, MainProcessGoneError, Message
from keisei.training.parallel.model_sync import ModelSynchronizer
from keisei.training.parallel.parallel_manager import ParallelManager
from keisei.training.parallel.process_counts import usable_cores
from keisei.training.parallel.rollout_statistics import RolloutStatistics
from keisei.training.parallel.self_play import SelfPlay, groups_of
from keisei.training.parallel.worker_life import TimeSpent
from keisei.training.parallel.worker_process import WorkerSetup, work

_FIVE_MILLION = ModelConfig(depth=14, width=144, value_width=64)
_PUBLICATIONS = 21
_WARM_ROLLOUTS = 2


def bench_collect(
    config: Config, worker_counts: list[int], *, games_per_worker: int, rounds: int, seconds: float
) -> dict[str, Any]:
    """Steps a second for each number of workers, the efficiency, and the cost of transport."""
    linked: dict[int, list[float]] = {count: [] for count in worker_counts}
    unlinked: dict[int, list[float]] = {count: [] for count in worker_counts}
    with ExitStack() as stack:
        sides = {
            count: (
                stack.enter_context(_Side(config, count, games_per_worker, work)),
                stack.enter_context(UnlinkedPlay(config, count, games_per_worker)),
            )
            for count in worker_counts
        }
        for _ in range(rounds):
            for count, (workers, alone) in sides.items():
                linked[count].append(workers.steps_per_second(seconds))
                unlinked[count].append(alone.steps_per_second(seconds))
    return {
        "cores": usable_cores(),
        "games_per_worker": games_per_worker,
        **_scaling(linked),
        **{f"unlinked_{name}": figures for name, figures in _scaling(unlinked).items()},
        "transport_steps_per_second": transport_rate(config, seconds=seconds),
        **publishing(),
    }


def _scaling(rates: dict[int, list[float]]) -> dict[str, dict[str, float]]:
    """The medians for each number of processes, and what they are to the smallest number's."""
    medians = {count: statistics.median(values) for count, values in rates.items()}
    least = min(medians)
    single = medians[least] / least
    return {
        "steps_per_second": {str(count): rate for count, rate in medians.items()},
        "speed_up": {str(count): rate / single for count, rate in medians.items()},
        "efficiency": {str(count): rate / single / count for count, rate in medians.items()},
    }


class _Side:
    """One manager, its workers paused except in its turn."""

    def __init__(self, config: Config, workers: int, games: int, worker_main: Any) -> None:
        config = with_parallel(
            config,
            enabled=True,
            num_workers=workers,
            num_learners=1,
            games_per_worker=games,
            mode="async",
        )
        agent = PPOAgent(
            config.model,
            config.ppo,
            seed=config.seed,
            mixed_precision=config.training.mixed_precision,
        )
        pool = OpponentPool(config, agent) if config.games.opponent_share else None
        groups = groups_of(config, workers)
        self._manager = ParallelManager(
            config, agent, pool, groups, announce=_refuse, worker_main=worker_main
        )
        training = config.training
        length = training.parallel.rollout_length or training.rollout_length
        self._buffer = ExperienceBuffer(length, workers * games)

    def __enter__(self) -> _Side:
        self._collect()
        self._manager.pause()
        return self

    def __exit__(self, *_: object) -> None:
        self._manager.close()

    def _collect(self) -> RolloutStatistics:
        self._buffer.clear()
        return self._manager.collect(self._buffer)[1]

    def steps_per_second(self, seconds: float) -> float:
        """Collect for about so long."""
        self._manager.resume()
        for _ in range(_WARM_ROLLOUTS):
            self._collect()
        steps, start = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - start) < seconds:
            steps += self._collect().steps
        self._manager.pause()
        return steps / elapsed


def _refuse(news: str) -> None:
    raise RuntimeError(f"a worker failed during the benchmark: {news}")


def transport_rate(config: Config, *, seconds: float) -> float:
    """Steps a second from a worker that plays one rollout and writes it again and again."""
    with _Side(config, 1, 128, send_the_same_again) as side:
        return side.steps_per_second(seconds)


def send_the_same_again(setup: WorkerSetup) -> None:
    """A worker that plays one rollout and copies it into every slot it is granted."""
    settle_as_child(gives_way=False)
    config, link = setup.config, setup.link
    play = SelfPlay(config, PPOAgent(config.model, config.ppo), None, setup.group)
    played = ExperienceBuffer(config.training.rollout_length, setup.group.games)
    rest = (*play.collect(played), play.state())
    link.send(Message(Kind.READY, setup.epoch))
    try:
        while True:
            order = link.receive(1.0)
            if order is None:
                continue
            if order.kind == Kind.STOP:
                return
            if order.kind != Kind.PLAY:
                continue
            rollout = link.rollout(order.slot)
            rollout.begin(setup.epoch, order.number)
            rollout.buffer.place(played.get_serializable_batch(), 0)
            rollout.finish(*rest)
            link.commit(order, TimeSpent().encode())
    except MainProcessGoneError:
        return


def publishing() -> dict[str, float]:
    """Milliseconds to publish a network of five million parameters, plain and halved."""
    model = model_factory(_FIVE_MILLION)
    figures = {"published_parameters": float(sum(p.numel() for p in model.parameters()))}
    for name, halved in (("publish_ms", False), ("publish_half_precision_ms", True)):
        synchronizer = ModelSynchronizer(model, compression_enabled=halved, max_policy_lag=1)
        times = []
        for version in range(_PUBLICATIONS):
            start = time.perf_counter()
            synchronizer.publish(version)
            times.append(time.perf_counter() - start)
        figures[name] = 1000 * float(np.median(times))
    return figures
