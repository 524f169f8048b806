"""How many processes play and how many learn: `num_workers: auto` and `num_learners: auto`.

A short measurement tells what a ply and what a learned step cost one core, each as a fixed cost a
batch and a cost for each of its rows. From these the best way to share out the cores is computed:
either some play while the others learn, or all do both and the players give way to the learners.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil

from keisei.config_schema import Config, ParallelConfig
from keisei.core.experience_buffer import ExperienceBuffer
from keisei.core.ppo_agent import PPOAgent
from keisei.core.threads import one_thread
from keisei.training.parallel.self_play import Group, SelfPlay, rollouts_of_an_update

_WORKER_BYTES = 250e6
"""Memory of a worker with a small network."""
_LARGE, _SMALL = 64, 8
"""Rows of the batches that are measured."""
_TIMES = 3
_BETWEEN_MINIBATCHES = 2e-3
"""Seconds that all learners wait for each other and for the optimizer, seen with 12 of them."""
_MOST_MINIBATCHES = 4
"""Computed at once in async mode, so that no gradient is more than three steps old."""


class ProcessCounts(NamedTuple):
    """Processes that play, and processes that compute gradients."""

    workers: int
    learners: int

    def have_own_cores(self) -> bool:
        """Whether there is one for each of them."""
        return self.workers + self.learners <= usable_cores()


def minibatches_at_once(parallel: ParallelConfig) -> int:
    """As many as the config says or leaves to be found; there may be fewer learners."""
    if parallel.minibatches_at_once != "auto":
        return parallel.minibatches_at_once
    return 1 if parallel.mode == "sync" else _MOST_MINIBATCHES


class Cost(NamedTuple):
    """Seconds of one core for a batch."""

    fixed: float
    per_row: float

    def of_batch(self, rows: float) -> float:
        """Seconds for a batch of so many rows."""
        return self.fixed + self.per_row * rows


def process_counts(config: Config, agent: PPOAgent) -> ProcessCounts:
    """The counts that a config gives or leaves to be found."""
    parallel = config.training.parallel
    workers = None if parallel.num_workers == "auto" else parallel.num_workers
    learners = None if parallel.num_learners == "auto" else parallel.num_learners
    if agent.device.type != "cpu":
        learners = 1
    if workers is not None and learners is not None:
        return ProcessCounts(workers, learners)
    cores = usable_cores()
    if agent.device.type != "cpu":
        return ProcessCounts(min(max(cores - 1, 1), _most_workers()), 1)
    playing, learning = measure_costs(config, agent)
    candidates = [
        (expected_rate(config, counts, cores, playing, learning), counts)
        for counts in _candidates(cores, _worker_counts(config, cores), learners)
    ]
    return max(candidates)[1]


def expected_rate(
    config: Config, counts: ProcessCounts, cores: int, playing: Cost, learning: Cost
) -> float:
    """Plies a second that these processes should reach on so many cores."""
    parallel = config.training.parallel
    rollouts = rollouts_of_an_update(parallel, counts.workers)
    games = parallel.games_per_worker or config.games.count / rollouts
    play = playing.of_batch(games) / games
    at_once = min(minibatches_at_once(parallel), counts.learners)
    part = at_once * config.ppo.minibatch / counts.learners
    learn = config.ppo.epochs * (learning.of_batch(part) + _BETWEEN_MINIBATCHES) / part
    playing_alone = min(counts.workers, cores) / play
    learning_alone = min(counts.learners, cores) / learn
    overlap = parallel.mode == "async"
    if overlap and counts.workers + counts.learners <= cores:
        return min(playing_alone, learning_alone)
    return 1 / (1 / playing_alone + 1 / learning_alone)  # the same cores do first this, then that


def _worker_counts(config: Config, cores: int) -> Iterable[int]:
    """One for every profile at least, and for every core at most."""
    parallel = config.training.parallel
    if parallel.num_workers != "auto":
        return [parallel.num_workers]
    fewest = max(len(parallel.worker_profiles), 1)
    return range(fewest, max(fewest, min(cores, _most_workers())) + 1)


def _candidates(
    cores: int, worker_counts: Iterable[int], learners: int | None
) -> Iterator[ProcessCounts]:
    for players in worker_counts:
        rest = {max(cores - players, 1), cores} if learners is None else {learners}
        for learner_count in rest:
            yield ProcessCounts(players, learner_count)


def measure_costs(config: Config, agent: PPOAgent) -> tuple[Cost, Cost]:
    """(playing, learning) with one thread, on games and weights that are thrown away."""
    copy = agent.copy_for_playing()
    with one_thread():
        play = SelfPlay(config, copy, None, Group(0, _LARGE))
        buffer = ExperienceBuffer(_TIMES, _LARGE)
        play.collect(buffer)
        zeros = np.zeros(_LARGE, np.float32)
        buffer.compute_advantages_and_returns(zeros, gamma=1, gae_lambda=1, cut_games="draw")
        minibatch = next(copy.minibatches(buffer))
        fractions = play.games.random_fractions()

        def choose(rows: int) -> None:
            games = play.games
            copy.select_actions(
                games.positions[:rows],
                games.legal[:rows],
                games.legal_counts[:rows],
                fractions[:rows],
            )

        def learn(rows: int) -> None:
            part = type(minibatch)(*(tensor[:rows] for tensor in minibatch if tensor is not None))
            copy.gradients_of(part, 0.01)

        return _cost(choose), _cost(learn)


def _cost(work: Callable[[int], None]) -> Cost:
    small, large = (_fastest(partial(work, rows)) for rows in (_SMALL, _LARGE))
    per_row = max((large - small) / (_LARGE - _SMALL), 1e-9)
    return Cost(max(small - _SMALL * per_row, 0.0), per_row)


def _fastest(work: Callable[[], None]) -> float:
    work()
    seconds = math.inf
    for _ in range(_TIMES):
        start = time.perf_counter()
        work()
        seconds = min(seconds, time.perf_counter() - start)
    return seconds


def usable_cores() -> int:
    """Cores this process may use, by its affinity and by the quota of its container."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    return max(1, min(cores, _container_quota()))


def _container_quota(path: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    try:
        quota, period = path.read_text().split()
        return math.ceil(int(quota) / int(period))
    except (OSError, ValueError):  # no such file, or "max"
        return 10**6


def _most_workers() -> int:
    """As many as fit into half of the free memory."""
    return max(1, int(psutil.virtual_memory().available / 2 / _WORKER_BYTES))
