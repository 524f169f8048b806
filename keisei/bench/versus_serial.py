"""Training in parallel against training in one process, in turns on the same machine.

Each side trains in a process of its own, so that each has its own threads; it works only in its
turn. `python -m keisei.bench.versus_serial WORDS` is such a side: for every number of seconds on
standard input it trains for so long and answers with a line of JSON.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import Any

import psutil

from keisei.config_loading import config_of
from keisei.core.devices import pick_device
from keisei.training.parallel.process_counts import usable_cores
from keisei.training.trainer import Trainer

SERIAL = "training.parallel.enabled=false"
PARALLEL = "training.parallel.enabled=true"
_WARM_UPDATES = 2
_ROUNDS_A_START = 3
"""Then all sides are started anew: one start of the same training is up to 3% faster than another,
for as long as it runs."""


def bench_versus_serial(
    words: list[str], *, rounds: int, seconds: float, more_sides: dict[str, list[str]] | None = None
) -> dict[str, Any]:
    """Steps a second and cores used by each side, and the ratios of parallel to serial.

    `unlinked`, without a GPU, is what this machine has to give: on every core a training with one
    thread, none of which knows of the others. Cores that are all busy may be slower than one.
    """
    one_thread = [SERIAL, "training.threads=1"]
    sides = {
        "serial": [SERIAL],
        "serial_one_thread": one_thread,
        "parallel": [PARALLEL],
        **(more_sides or {}),
    }
    if pick_device(config_of(words).device).type == "cpu":
        sides["unlinked"] = one_thread
    processes = {name: usable_cores() if name == "unlinked" else 1 for name in sides}
    answers: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
    for first in range(0, rounds, _ROUNDS_A_START):
        with ExitStack() as stack:
            running = {
                name: stack.enter_context(_Side([*words, *settings], processes[name]))
                for name, settings in sides.items()
            }
            for _ in range(first, min(first + _ROUNDS_A_START, rounds)):
                for name, side in running.items():
                    answers[name].append(side.train(seconds))
                    _tell(name, answers[name][-1])
    report: dict[str, Any] = {"cores": usable_cores()}
    for name, turns in answers.items():
        rate = statistics.median(turn["steps"] / turn["seconds"] for turn in turns)
        report[f"{name}_steps_per_second"] = rate
        report[f"{name}_cores_used"] = statistics.median(
            turn["cpu_seconds"] / turn["seconds"] for turn in turns
        )
    for name in sides:
        if not name.startswith("serial"):
            for other in ("serial", "serial_one_thread"):
                ratio = report[f"{name}_steps_per_second"] / report[f"{other}_steps_per_second"]
                report[f"{name}_vs_{other}"] = ratio
    return report


def _tell(name: str, turn: dict[str, float]) -> None:
    """One line for each turn: a measurement takes minutes."""
    sys.stderr.write(f"{name}: {turn['steps'] / turn['seconds']:,.0f} steps/s\n")
    sys.stderr.flush()


class _Side:
    """Processes that train when they are told to, each by itself."""

    def __init__(self, words: list[str], processes: int) -> None:
        command = [sys.executable, "-m", "keisei.bench.versus_serial", *words]
        self._processes = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(processes)
        ]

    def __enter__(self) -> _Side:
        self.train(0.1)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.communicate()

    def train(self, seconds: float) -> dict[str, float]:
        """Train for about so long: steps, seconds, and seconds of all its processors.

        Of several processes, what they did in the mean of their seconds.
        """
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(f"{seconds}\n")
            process.stdin.flush()
        answers: list[dict[str, float]] = []
        for process in self._processes:
            assert process.stdout is not None
            answers.append(json.loads(process.stdout.readline()))
        total = {name: sum(answer[name] for answer in answers) for name in answers[0]}
        return {**total, "seconds": total["seconds"] / len(answers)}


def _be_a_side(words: list[str]) -> None:
    trainer = Trainer(config_of(words))
    try:
        for line in sys.stdin:
            sys.stdout.write(json.dumps(_train(trainer, float(line))) + "\n")
            sys.stdout.flush()
            trainer.collector.pause()
    finally:
        trainer.close()


def _train(trainer: Trainer, seconds: float) -> dict[str, float]:
    trainer.collector.resume()
    for _ in range(_WARM_UPDATES):  # what was played ahead in the turns of others is used up
        trainer.collect()
        trainer.perform_ppo_update()
    steps, cpu, start = trainer.steps, _cpu_seconds(), time.perf_counter()
    while time.perf_counter() - start < seconds:
        trainer.collect()
        trainer.perform_ppo_update()
    return {
        "steps": trainer.steps - steps,
        "seconds": time.perf_counter() - start,
        "cpu_seconds": _cpu_seconds() - cpu,
    }


def _cpu_seconds() -> float:
    """Of this process and all below it."""
    main = psutil.Process()
    total = 0.0
    for process in (main, *main.children(recursive=True)):
        times = process.cpu_times()
        total += times.user + times.system
    return total


if __name__ == "__main__":
    _be_a_side(sys.argv[1:])
