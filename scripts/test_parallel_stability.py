"""Whether parallel training stands kills, stops and slow-downs: nothing lost, nothing leaked.

    python scripts/test_parallel_stability.py --duration 600

Trains in async mode, in slices that are disturbed in turn: every --interval seconds something
happens to a random process that plays or learns. After every update all steps are accounted for.
Prints a table to standard error and JSON to standard output; exits with 1 if a step is lost or
counted twice, if memory, files or /dev/shm grow, or below 90% of the undisturbed throughput.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import numpy as np
import psutil
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from keisei.config_loading import config_of
from keisei.core.experience_buffer import ExperienceBuffer
from keisei.training.parallel.parallel_manager import ParallelManager
from keisei.training.parallel.rollout_statistics import RolloutStatistics
from keisei.training.trainer import Trainer

GOAL = 0.9
LONGEST_SLICE = 60.0
WARM_UPDATES = 10
SECONDS_TO_RECOVER = 2.5
"""Nothing happens so late in a slice that the next one would suffer from it."""
MEMORY_GROWTH = 0.05
KINDS = ("kill", "stop", "slow_down")
WEIGHTS = (8, 1, 1)


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("settings", nargs="*", help="a config and key=value settings")
    parser.add_argument("--duration", type=float, default=600.0, help="seconds in all")
    parser.add_argument("--interval", type=float, default=10.0, help="seconds between disturbances")
    parser.add_argument("--workers", default="auto", help="processes that play; default: auto")
    parser.add_argument("--seed", type=int, default=1, help="of the disturbances")
    return parser.parse_args()


class Continuity:
    """Checks that the rollouts of each worker follow upon one another, game by game.

    Rollouts do not name their worker. But plies are counted: where a game has not ended, the first
    ply of the next rollout is one more than the last ply of this one, in all games of a worker.
    """

    def __init__(self, workers: int, games: int) -> None:
        self._workers, self._games = workers, games
        self._next: list[NDArray[np.int64]] = []
        """[games] the ply that the games of a worker are at, -1 where a new one began; of each
        worker that was heard of."""
        self.breaks = 0

    def check(self, buffer: ExperienceBuffer) -> None:
        """Take in the rollouts of a full buffer."""
        for column in range(0, buffer.games, self._games):
            block = slice(column, column + self._games)
            first, last = _plies(buffer.positions[[0, -1], block])
            worker = self._whose(first)
            if worker == self._workers:
                self.breaks += 1
            else:
                after = np.where(buffer.ends[-1, block], -1, last + 1)
                self._next[worker : worker + 1] = [after]

    def _whose(self, plies: NDArray[np.int64]) -> int:
        """The worker that goes on with these, or the next one that was not heard of."""
        for worker, expected in enumerate(self._next):
            if ((expected == plies) | (expected < 0)).all():
                return worker
        return len(self._next)


def _plies(positions: NDArray[np.int8]) -> NDArray[np.int64]:
    """[T, B] the number of plies before each position; see `shogi.batch`."""
    low, high = (positions[..., byte].astype(np.int64) & 255 for byte in (98, 99))
    return low + 256 * high


class Accounts:
    """What was collected and learned from, checked after every update."""

    def __init__(self, trainer: Trainer, collector: ParallelManager) -> None:
        self._trainer, self._collector = trainer, collector
        self._continuity = Continuity(len(collector.workers), collector.workers[0].group.games)
        self.mismatches: list[str] = []

    def train_once(self) -> None:
        """One update, with its checks."""
        statistics = self._trainer.collect()
        self._check(statistics)
        self._trainer.perform_ppo_update()

    def _check(self, statistics: RolloutStatistics) -> None:
        trainer, buffer = self._trainer, self._trainer.buffer
        self._continuity.check(buffer)
        committed = sum(worker.steps for worker in self._collector.workers)
        checks = {
            "steps of the rollout": (statistics.steps, buffer.steps * buffer.games),
            "steps in the buffer": (len(buffer), statistics.steps),
            "steps committed in all": (committed, trainer.steps),
            "steps that train": (int(buffer.trains.sum()), statistics.trained_steps),
            "rollouts that do not follow": (self._continuity.breaks, 0),
        }
        self.mismatches += [
            f"update {trainer.updates}: {name}: {found}, not {expected}"
            for name, (found, expected) in checks.items()
            if found != expected
        ]


class Disturber:
    """Does something to a random child every `interval` seconds."""

    def __init__(self, interval: float, seed: int) -> None:
        self._interval, self._random = interval, random.Random(seed)
        self.done: Counter[str] = Counter()

    @contextmanager
    def at_work(self, seconds: float) -> Iterator[None]:
        """Disturb while the context lasts, which is about so long."""
        enough = threading.Event()
        thread = threading.Thread(target=self._disturb, args=(seconds, enough))
        thread.start()
        try:
            yield
        finally:
            enough.set()
            thread.join()

    def _disturb(self, seconds: float, enough: threading.Event) -> None:
        started = time.monotonic()
        moment = self._interval / 2
        while moment < seconds - SECONDS_TO_RECOVER:
            if enough.wait(max(started + moment - time.monotonic(), 0)):
                return
            (kind,) = self._random.choices(KINDS, WEIGHTS)
            with suppress(ProcessLookupError, IndexError):  # it has just ended, or none is there
                self._do(kind, self._random.choice(children()).pid)
                self.done[kind] += 1
            moment += self._interval

    def _do(self, kind: str, pid: int) -> None:
        if kind == "kill":
            os.kill(pid, signal.SIGKILL)
        elif kind == "stop":
            _stop_for(pid, self._random.uniform(1.0, 2.0))
        else:
            for _ in range(15):
                _stop_for(pid, 0.05)
                time.sleep(0.05)


def _stop_for(pid: int, seconds: float) -> None:
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(seconds)
    finally:
        os.kill(pid, signal.SIGCONT)


def children() -> list[psutil.Process]:
    """The processes that play or learn: those forked by the server, which is our child."""
    return [child for server in psutil.Process().children() for child in server.children()]


class Resources(NamedTuple):
    """What all processes use together, at a moment when all of them live."""

    minute: float
    main_mb: float
    all_mb: float
    files: int
    names_in_dev_shm: int

    @classmethod
    def now(cls, started: float) -> Resources:
        """Measure."""
        main = psutil.Process()
        processes = [main, *main.children(), *children()]
        rss = [process.memory_info().rss / 1e6 for process in processes]
        files = sum(process.num_fds() for process in processes[: 1 + len(main.children())])
        minute = (time.monotonic() - started) / 60
        return cls(minute, rss[0], sum(rss), files, len(os.listdir("/dev/shm")))


class Slice(NamedTuple):
    """A stretch of training."""

    disturbed: bool
    steps: int
    seconds: float


def train_for(seconds: float, accounts: Accounts, trainer: Trainer, *, disturbed: bool) -> Slice:
    """Train for about so long."""
    started, steps = time.monotonic(), trainer.steps
    while time.monotonic() - started < seconds:
        accounts.train_once()
    return Slice(disturbed, trainer.steps - steps, time.monotonic() - started)


def settle(accounts: Accounts, collector: ParallelManager) -> None:
    """Train on until every worker plays."""
    while not all(worker.ready or worker.given_up for worker in collector.workers):
        accounts.train_once()


def run_slices(
    given: argparse.Namespace, trainer: Trainer, accounts: Accounts, disturber: Disturber
) -> tuple[list[Slice], list[Resources]]:
    """Undisturbed and disturbed slices in turn, and what was used after each."""
    collector = trainer.collector
    assert isinstance(collector, ParallelManager)
    pairs = max(2, round(given.duration / (2 * LONGEST_SLICE)))
    seconds = given.duration / (2 * pairs)
    started = time.monotonic()
    slices, resources = [], [Resources.now(started)]
    for number in range(2 * pairs):
        disturbed = number % 2 == 1
        with disturber.at_work(seconds if disturbed else 0.0):
            slices.append(train_for(seconds, accounts, trainer, disturbed=disturbed))
        settle(accounts, collector)
        resources.append(Resources.now(started))
        _tell(slices[-1], resources[-1])
    return slices, resources


def _tell(slice_: Slice, used: Resources) -> None:
    kind = "disturbed" if slice_.disturbed else "undisturbed"
    sys.stderr.write(
        f"{kind}: {slice_.steps / slice_.seconds:,.0f} steps/s, {used.main_mb:,.0f} of "
        f"{used.all_mb:,.0f} MB in the main process, {used.files} files\n"
    )


def rate(slices: list[Slice], *, disturbed: bool) -> float:
    """Steps a second of the slices of one kind."""
    chosen = [part for part in slices if part.disturbed == disturbed]
    return sum(part.steps for part in chosen) / sum(part.seconds for part in chosen)


def summary(
    slices: list[Slice], resources: list[Resources], disturber: Disturber, accounts: Accounts
) -> dict[str, Any]:
    """Everything that was found, for JSON."""
    undisturbed, disturbed = (rate(slices, disturbed=kind) for kind in (False, True))
    # In the first quarter memory is taken into use: caches of compiled shapes, the largest batches.
    warm = resources[len(resources) // 4 :]
    first, last = warm[0], warm[-1]
    slope = float(np.polyfit([one.minute for one in warm], [one.all_mb for one in warm], 1)[0])
    return {
        "seconds": sum(part.seconds for part in slices),
        "undisturbed_steps_per_second": undisturbed,
        "disturbed_steps_per_second": disturbed,
        "ratio": disturbed / undisturbed,
        **{f"{kind}s": disturber.done[kind] for kind in KINDS},
        "mismatches": accounts.mismatches,
        "memory_slope_mb_per_minute": slope,
        **{f"{name}_at_start": value for name, value in first._asdict().items()},
        **{f"{name}_at_end": value for name, value in last._asdict().items()},
    }


def failures_of(report: dict[str, Any]) -> list[str]:
    """What is not as it must be."""
    failures = list(report["mismatches"])
    if report["ratio"] < GOAL:
        failures.append(f"the ratio is {report['ratio']:.3f}, below {GOAL}")
    for name in ("files", "names_in_dev_shm"):
        if report[f"{name}_at_end"] > report[f"{name}_at_start"]:
            failures.append(f"{name} have grown")
    for name in ("main_mb", "all_mb"):
        if report[f"{name}_at_end"] > (1 + MEMORY_GROWTH) * report[f"{name}_at_start"]:
            failures.append(f"{name} has grown by more than {MEMORY_GROWTH:.0%}")
    if report["processes_left"]:
        failures.append(f"{report['processes_left']} processes are left")
    return failures


def stability(given: argparse.Namespace) -> dict[str, Any]:
    """Train, disturb, and report."""
    words = ["enabled=true", "mode=async", f"num_workers={given.workers}"]
    settings = [f"training.parallel.{word}" for word in words]
    trainer = Trainer(config_of([*settings, *given.settings]))
    trainer.on_news = lambda news: None  # it is logged too, to standard error
    collector = trainer.collector
    assert isinstance(collector, ParallelManager)
    accounts, disturber = Accounts(trainer, collector), Disturber(given.interval, given.seed)
    try:
        for _ in range(WARM_UPDATES):
            accounts.train_once()
        settle(accounts, collector)
        report = summary(*run_slices(given, trainer, accounts, disturber), disturber, accounts)
        figures = collector.get_statistics()
    finally:
        trainer.close()
    for name in ("restarts", "refused_messages", "stale_steps"):
        report[name] = figures[name]
    report["helper_restarts"] = getattr(trainer.agent.gradient_source, "restarts", 0)
    report |= {"workers": len(collector.workers), "steps": trainer.steps}
    report["processes_left"] = len(children())
    report["failures"] = failures_of(report)
    return report


def table_of(report: dict[str, Any]) -> Table:
    """The figures for people."""
    table = Table(title="Stability of parallel training")
    table.add_column("")
    table.add_column("", justify="right")
    for name, value in report.items():
        if isinstance(value, list):
            text = "\n".join(value) or "none"
        else:
            text = f"{value:,.3f}" if isinstance(value, float) else f"{value:,}"
        table.add_row(name.replace("_", " "), text)
    return table


def main() -> int:
    """Whether anything failed."""
    report = stability(arguments())
    Console(stderr=True).print(table_of(report))
    print(json.dumps(report, indent=1))
    return 1 if report["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
