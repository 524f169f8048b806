"""Train several settings for the same time, and package what they learned.

    python scripts/sweep_settings.py shogi-gpu --seconds 180 --out sweep \
        --variant "base" --variant "pool games.opponent_share=0.25"

A variant is a name and the settings that it changes. Each is ended as by Ctrl-C when its time,
start included, is up; its learning rate falls by `training.total_steps`, so set that to what the
time is enough for. They follow one another; with `--together` all share the machine, which compares
what they learn from so many plies and spares their starts.

OUT/NAME is then a model for `keisei evaluate` and `keisei ladder`, OUT/NAME.jsonl its metrics, and
OUT/summary.jsonl has a line for each variant.
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


class Variant:
    """A training under way."""

    def __init__(self, config: str, name: str, settings: list[str]) -> None:
        self.name, self.settings = name, settings
        self._runs = Path("runs") / f"sweep-{name}"
        self._before = set(self._runs.glob("*"))
        self._began = time.monotonic()
        words = [config, *settings, f"name={name}", f"runs_folder={self._runs}"]
        self._process = subprocess.Popen([*KEISEI, "train", *words], stdout=subprocess.DEVNULL)

    def end(self, seconds: float) -> tuple[Path, float]:
        """Have it end when it is so old; the run's folder and how old it became."""
        try:
            self._process.wait(max(self._began + seconds - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(PATIENCE_S)
        made = set(self._runs.glob("*")) - self._before
        if len(made) != 1:
            raise RuntimeError(f"{self.name} made {len(made)} runs")
        return made.pop(), round(time.monotonic() - self._began, 1)


def summary(variant: Variant, run: Path, seconds: float) -> dict[str, Any]:
    """What there is to tell of a run, from its last update."""
    updates = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    updates = [line for line in updates if "minibatches" in line]
    last = {key: updates[-1][key] for key in SHOWN if key in updates[-1]}
    stopped = sum(line["stopped_early"] for line in updates) / len(updates)
    named = {"name": variant.name, "settings": variant.settings, "seconds": seconds}
    return {**named, "stopped": stopped, **last}


def main() -> None:
    """Train what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", metavar="CONFIG")
    parser.add_argument("--seconds", type=float, default=180.0, help="of each variant")
    parser.add_argument("--out", type=Path, default=Path("sweep"))
    parser.add_argument("--together", action="store_true", help="all at once")
    parser.add_argument("--variant", action="append", default=[], metavar="'NAME key=value...'")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    words = [variant.split() for variant in given.variant]
    begun = (Variant(given.config, name, settings) for name, *settings in words)
    for variant in list(begun) if given.together else begun:
        run, seconds = variant.end(given.seconds)
        line = summary(variant, run, seconds)
        package(run, given.out / variant.name)
        shutil.copy(run / "metrics.jsonl", given.out / f"{variant.name}.jsonl")
        with (given.out / "summary.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
