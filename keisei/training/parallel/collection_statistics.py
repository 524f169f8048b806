"""Figures of a parallel collection: who did how much, who waited, how old the weights were."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

from keisei.training.parallel.experience_collector import CollectorReport
from keisei.training.parallel.model_sync import ModelSynchronizer
from keisei.training.parallel.self_play_worker import SelfPlayWorker


@dataclass
class PolicyLag:
    """How many versions behind the learner the weights were that played, over trained steps."""

    least: int = 0
    mean: float = 0.0
    largest: int = 0

    @classmethod
    def of(cls, lags: NDArray[np.int64]) -> PolicyLag:
        """Of these lags of single steps."""
        if lags.size == 0:
            return cls()
        return cls(int(lags.min()), float(lags.mean()), int(lags.max()))


def worker_figures(worker: SelfPlayWorker) -> dict[str, Any]:
    """What one worker did: counts, shares of its time, restarts, memory."""
    total = sum(worker.spent) or 1.0
    return {
        "worker": worker.number,
        "pid": worker.pid,
        "steps": worker.steps,
        "games": worker.games,
        "restarts": worker.restarts,
        "given_up": worker.given_up,
        "memory_mb": memory_mb(worker.pid),
        **{f"{name}_share": seconds / total for name, seconds in worker.spent._asdict().items()},
    }


def sync_figures(synchronizer: ModelSynchronizer | None) -> dict[str, float]:
    """How the weights were published."""
    if synchronizer is None:
        return {"syncs": 0, "sync_seconds": 0.0, "sync_bytes": 0}
    return {
        "syncs": synchronizer.syncs,
        "sync_seconds": synchronizer.seconds,
        "sync_bytes": synchronizer.bytes,
    }


def memory_mb(pid: int | None) -> float:
    """Resident memory of a process; 0 if it is gone."""
    if pid is None:
        return 0.0
    try:
        return float(psutil.Process(pid).memory_info().rss) / 1e6
    except psutil.Error:
        return 0.0


def report_of(statistics: dict[str, Any]) -> CollectorReport:
    """The statistics of a collection as figures for the metrics and lines for people.

    The first line is about all workers, the others about one each.
    """
    figures = {
        f"parallel/{name}": float(value)
        for name, value in statistics.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    lines = [
        f"{statistics['workers_playing']} playing, {statistics['queue_depth']} rollouts waiting, "
        f"weights {statistics['lag_mean']:.1f} versions old (at most {statistics['lag_max']}), "
        f"{statistics['restarts']} restarts"
    ]
    for worker in statistics["workers"]:
        figures |= {
            f"worker_{worker['worker']}/{name}": float(worker[name])
            for name in ("steps", "games", "memory_mb", *_SHARES)
        }
        state = "given up" if worker["given_up"] else f"pid {worker['pid'] or 'starting'}"
        lines.append(
            f"worker {worker['worker']} ({state}): {worker['steps']:,} plies, "
            f"{worker['games']:,} games, {worker['playing_share']:.0%} of its time playing, "
            f"{worker['memory_mb']:.0f} MB"
        )
    return CollectorReport(figures, lines)


_SHARES = ("playing_share", "waiting_for_weights_share", "waiting_for_slot_share")
