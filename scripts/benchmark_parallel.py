"""How training and collecting scale with worker processes.

    python scripts/benchmark_parallel.py --workers 1,2,4,8

Trains the config serially (with all threads, and with one) and with each number of workers, in
turns on the same machine, then measures collection alone. `--json` prints everything as JSON.
"""

from __future__ import annotations

import argparse
import json

from rich.console import Console
from rich.table import Table

from keisei.bench.collect import bench_collect
from keisei.bench.report import collect_table
from keisei.bench.versus_serial import PARALLEL, bench_versus_serial
from keisei.config_loading import config_of


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("settings", nargs="*", help="a config and key=value settings")
    parser.add_argument("--workers", default="1,2", help="numbers of workers, such as 1,2,4,8")
    parser.add_argument("--mode", choices=("sync", "async"), default="async")
    parser.add_argument("--rounds", type=int, default=5, help="how often all sides take turns")
    parser.add_argument("--seconds", type=float, default=8.0, help="length of one turn")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser.parse_args()


def training_table(report: dict[str, float]) -> Table:
    """Steps a second of every side, and its ratio to the serial ones."""
    table = Table(title=f"Training on {report['cores']} cores")
    for title in ("", "steps/s", "cores used", "vs serial", "vs one thread"):
        table.add_column(title, justify="right")
    for name in [key.removesuffix("_cores_used") for key in report if key.endswith("_cores_used")]:
        ratios = [
            report[f"{name}_steps_per_second"] / report[f"{serial}_steps_per_second"]
            for serial in ("serial", "serial_one_thread")
        ]
        table.add_row(
            name.replace("_", " "),
            f"{report[f'{name}_steps_per_second']:,.0f}",
            f"{report[f'{name}_cores_used']:.2f}",
            *(f"{ratio:.2f}" for ratio in ratios),
        )
    return table


def main() -> None:
    """Measure and print."""
    given = arguments()
    counts = [int(word) for word in given.workers.split(",")]
    mode = f"training.parallel.mode={given.mode}"
    sides = {
        f"workers_{count}": [PARALLEL, f"training.parallel.num_workers={count}", mode]
        for count in counts
    }
    training = bench_versus_serial(
        [*given.settings, mode], rounds=given.rounds, seconds=given.seconds, more_sides=sides
    )
    config = config_of(given.settings)
    collecting = bench_collect(
        config,
        counts,
        games_per_worker=config.games.count,
        rounds=given.rounds,
        seconds=given.seconds / 2,
    )
    if given.json:
        print(json.dumps({"training": training, "collecting": collecting}, indent=1))
    else:
        Console().print(training_table(training), collect_table(collecting))


if __name__ == "__main__":
    main()
