"""Train several settings, one after the other, for the same time, and package what they learned.

    python scripts/sweep_settings.py shogi-gpu --seconds 180 --out sweep \
        --variant "base" --variant "pool games.opponent_share=0.25"

A variant is a name and the settings that it changes. Each is ended as by Ctrl-C when its time,
start included, is up; its learning rate falls by `training.total_steps`, so set that to what the
time is enough for. OUT/NAME is then a model for `keisei evaluate` and `keisei ladder`,
OUT/NAME.jsonl its metrics, and OUT/summary.jsonl has a line for each variant.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from package_model import package

KEISEI = [sys.executable, "-c", "from keisei.cli import main; main()"]
SHOWN = ("steps", "games", "steps_per_second", "entropy", "kl", "explained_variance", "cut_share")
PATIENCE_S = 60.0


def train(config: str, name: str, settings: list[str], seconds: float) -> Path:
    """Train until the time is up; the run's folder."""
    before = set(Path("runs").glob("*"))
    words = [config, *settings, f"name={name}"]
    process = subprocess.Popen([*KEISEI, "train", *words], stdout=subprocess.DEVNULL)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE_S)
    made = set(Path("runs").glob("*")) - before
    if len(made) != 1:
        raise RuntimeError(f"{name} made {len(made)} runs: {' '.join(words)}")
    return made.pop()


def summary(name: str, settings: list[str], run: Path, seconds: float) -> dict[str, Any]:
    """What there is to tell of a run, from its last update."""
    updates = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    updates = [line for line in updates if "minibatches" in line]
    last = {key: updates[-1][key] for key in SHOWN if key in updates[-1]}
    stopped = sum(line["stopped_early"] for line in updates) / len(updates)
    return {"name": name, "settings": settings, "seconds": seconds, "stopped": stopped, **last}


def main() -> None:
    """Train what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", metavar="CONFIG")
    parser.add_argument("--seconds", type=float, default=180.0, help="of each variant")
    parser.add_argument("--out", type=Path, default=Path("sweep"))
    parser.add_argument("--variant", action="append", default=[], metavar="'NAME key=value...'")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for name, *settings in (variant.split() for variant in given.variant):
        began = time.monotonic()
        run = train(given.config, name, settings, given.seconds)
        line = summary(name, settings, run, round(time.monotonic() - began, 1))
        package(run, given.out / name)
        shutil.copy(run / "metrics.jsonl", given.out / f"{name}.jsonl")
        with (given.out / "summary.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
