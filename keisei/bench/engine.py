"""`keisei bench engine`: speed of the rules, ours and others', interleaved in one run.

The machine may be busy and its clock may change, so both sides take turns in short rounds, and a
ratio is the median over rounds of the ratio within a round.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keisei.shogi.dense import DenseView
from keisei.shogi.perft import perft
from keisei.shogi.vector_shogi import VectorShogi

PEER_SCRIPT = Path(__file__).parents[2] / "benchmarks" / "engine_peers.py"
PEER_NAMES = ("cshogi", "rsshogi", "pgx")
RULES_BATCH = 1024
DENSE_BATCH = 256
_WARM_UP_PLIES = 200  # so that games of all lengths run, as in a long training

_START_UP = """
import time
start = time.perf_counter()
from keisei.shogi.dense import DenseView
from keisei.shogi.perft import perft
from keisei.shogi.vector_shogi import VectorShogi
games = VectorShogi(64, threads=1)
games.step(games.random_actions())
first_step = time.perf_counter() - start
DenseView(games)
perft(2)
if {threads} > 1:
    games = VectorShogi(64)
    games.step(games.random_actions())
    DenseView(games)
print(first_step, time.perf_counter() - start)
"""

Rates = dict[str, float]


class Peer:
    """Another engine, in a process of its own."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [sys.executable, str(PEER_SCRIPT), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "JAX_PLATFORMS": "cpu"},
        )
        self.tasks: list[str] = self._read().get("tasks", [])

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    def rate(self, task: str, seconds: float) -> float:
        """Steps (or perft nodes) per second."""
        assert self._process.stdin is not None
        print(task, seconds, file=self._process.stdin, flush=True)
        return float(self._read()["rate"])

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the benchmark process of {self.name} died")
        answer: dict[str, Any] = json.loads(line)
        return answer


def _our_steps(threads: int | None, *, dense: bool) -> Callable[[float], float]:
    """A function that plays for some seconds and returns steps per second."""
    games = VectorShogi(DENSE_BATCH if dense else RULES_BATCH, threads=threads)
    games.play_random(_WARM_UP_PLIES)
    view = DenseView(games) if dense else None

    def rate(seconds: float) -> float:
        steps = 0
        start = time.perf_counter()
        while (elapsed := time.perf_counter() - start) < seconds:
            games.step(games.random_actions())
            if view is not None:
                view.update()
            steps += games.num_games
        return steps / elapsed

    return rate


def _our_perft(_seconds: float) -> float:
    start = time.perf_counter()
    leaves = perft(5)
    return leaves / (time.perf_counter() - start)


def _contestants(peers: list[Peer]) -> dict[str, Callable[[float], float]]:
    """Everything that is measured, by name, in an order that puts opponents side by side."""
    theirs = {
        f"{peer.name}_{task}": (lambda seconds, peer=peer, task=task: peer.rate(task, seconds))
        for peer in peers
        for task in peer.tasks
    }
    ours = {
        "rules": _our_steps(1, dense=False),
        "rules_all_threads": _our_steps(None, dense=False),
        "obs_mask": _our_steps(1, dense=True),
        "obs_mask_all_threads": _our_steps(None, dense=True),
        "perft": _our_perft,
    }
    ordered: dict[str, Callable[[float], float]] = {}
    for name, rate in ours.items():
        ordered[name] = rate
        ordered |= {key: theirs[key] for key in theirs if key.endswith(f"_{name}")}
    return ordered


def start_up_seconds() -> Rates:
    """Seconds to compile everything from nothing, and from then on to the first step."""
    threads = _threads()
    with tempfile.TemporaryDirectory() as folder:
        runs = []
        for _ in range(4):
            output = subprocess.run(
                [sys.executable, "-c", _START_UP.format(threads=threads)],
                env={**os.environ, "KEISEI_CACHE": folder},
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            runs.append([float(word) for word in output.split()])
    return {
        "cold_compile_seconds": runs[0][1],
        "warm_start_seconds": statistics.median(first_step for first_step, _ in runs[1:]),
    }


def _threads() -> int:
    return VectorShogi(10**3).threads


def bench_engine(rounds: int = 7, seconds: float = 0.5) -> dict[str, Any]:
    """All rates (medians over the rounds), ratios to the opponents, and start-up times."""
    peers = [Peer(name) for name in PEER_NAMES] if PEER_SCRIPT.exists() else []
    try:
        contestants = _contestants(peers)
        for rate in contestants.values():  # nobody pays for compilation or a cold cache
            rate(min(seconds, 0.2))
        history: list[Rates] = []
        for _ in range(rounds):
            history.append({name: rate(seconds) for name, rate in contestants.items()})
    finally:
        for peer in peers:
            peer.close()
    medians = {name: statistics.median(r[name] for r in history) for name in contestants}
    return {
        "threads": _threads(),
        "rounds": rounds,
        "steps_per_second": {k: v for k, v in medians.items() if "perft" not in k},
        "perft_nodes_per_second": {k: v for k, v in medians.items() if "perft" in k},
        **_ratios(history),
        **start_up_seconds(),
        "bytes_per_game": VectorShogi(1).bytes_per_game,
        "opponents_missing": [name for name in PEER_NAMES if f"{name}_rules" not in contestants],
    }


def _ratios(history: list[Rates]) -> Rates:
    """Medians over rounds of the quotient of two contestants of the same round."""
    pairs = {
        "all_threads_vs_one": ("rules_all_threads", "rules"),
        "vs_cshogi_rules": ("rules", "cshogi_rules"),
        "vs_cshogi_obs_mask": ("obs_mask", "cshogi_obs_mask"),
        "vs_cshogi_perft": ("perft", "cshogi_perft"),
        "vs_rsshogi_rules": ("rules", "rsshogi_rules"),
        "vs_rsshogi_perft": ("perft", "rsshogi_perft"),
        "vs_pgx": ("obs_mask", "pgx_obs_mask"),
    }
    return {
        name: statistics.median(r[ours] / r[theirs] for r in history)
        for name, (ours, theirs) in pairs.items()
        if theirs in history[0]
    }
