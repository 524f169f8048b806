"""Where the time of a training goes.

    python scripts/profile_training.py --mode parallel --workers 2 --timesteps 200000

Prints the share of each part of the loop and, for the main process, the functions that take most
time; writes `trace.json` (open it at ui.perfetto.dev) and `profile.pstats` to --out.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
from pathlib import Path

from keisei.config_loading import config_of
from keisei.training.trainer import Trainer


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("settings", nargs="*", help="a config and key=value settings")
    parser.add_argument("--mode", choices=("serial", "parallel"), default="parallel")
    parser.add_argument("--workers", default="auto", help="processes that play; default: auto")
    parser.add_argument("--timesteps", type=int, default=200_000, help="plies to train on")
    parser.add_argument("--out", type=Path, default=Path("profile"), help="folder for the files")
    parser.add_argument("--lines", type=int, default=15, help="functions to show")
    return parser.parse_args()


def train(trainer: Trainer, timesteps: int) -> dict[str, float]:
    """Train on so many plies; seconds of each part."""
    seconds = {"collect": 0.0, "update": 0.0}
    while trainer.steps < timesteps:
        start = time.perf_counter()
        trainer.collect()
        collected = time.perf_counter()
        trainer.perform_ppo_update()
        seconds["collect"] += collected - start
        seconds["update"] += time.perf_counter() - collected
    return seconds


def main() -> None:
    """Profile and print."""
    given = arguments()
    given.out.mkdir(parents=True, exist_ok=True)
    parallel = "training.parallel."
    settings = [f"{parallel}enabled={str(given.mode == 'parallel').lower()}"]
    if given.mode == "parallel":
        settings.append(f"{parallel}num_workers={given.workers}")
    trainer = Trainer(config_of([*given.settings, *settings]), given.out, trace=True)
    trainer.on_news = print
    profile = cProfile.Profile()
    try:
        seconds = profile.runcall(train, trainer, given.timesteps)
        report = trainer.collector.report()
    finally:
        trainer.close()
    total = sum(seconds.values())
    print(f"{trainer.steps / total:,.0f} plies/s with the profiler running")
    for name, spent in seconds.items():
        print(f"  {name:8} {spent / total:6.1%}")
    for line in report.workers:
        print(f"  {line}")
    profile.dump_stats(given.out / "profile.pstats")
    pstats.Stats(profile).strip_dirs().sort_stats("tottime").print_stats(given.lines)
    print(f"Timeline: {given.out / 'trace.json'}")


if __name__ == "__main__":
    main()
