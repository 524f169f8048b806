"""Draw the learning curves of docs/learning.md from the figures in docs/data.

    python scripts/plot_learning.py

needs matplotlib (extra `dev`). docs/data/laptop_sweep.jsonl holds figures averaged over a tenth of
each run; the other files are from `metrics.jsonl` of runs, every fourth update (gpu_run), every
second (gpu_attack), every eighth (gpu_muon), every twelfth (gpu_muon_one_epoch), every sixteenth
(gpu_lambda, gpu_4x192) or averaged over sixteen (laptop_seed*). gpu_ratings.jsonl holds what
`keisei ladder` said of checkpoints, with the GPU minutes, starts included, and the games that they
had cost.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

DOCS = Path(__file__).parents[1] / "docs"
PANELS = (
    ("cut_share", "share of games cut"),
    ("legal_moves", "legal moves a position"),
    ("game_length", "plies a game"),
    ("entropy", "entropy"),
    ("explained_variance", "share of the returns' variance that values foretold"),
    ("calibration_error", "how far values and returns lie apart"),
    ("opening_diversity", "share of different positions at ply 12"),
)


def read(name: str) -> list[dict[str, Any]]:
    """The lines of a file of figures."""
    return [json.loads(line) for line in (DOCS / "data" / name).read_text().splitlines()]


def draw(curves: dict[str, list[dict[str, Any]]], title: str, target: str) -> None:
    """A panel for each figure there is, over millions of plies, with a line for each curve."""
    told = {key for lines in curves.values() for line in lines for key in line}
    panels = [panel for panel in PANELS if panel[0] in told]
    rows = -(-len(panels) // 2)
    figure, axes = plt.subplots(rows, 2, figsize=(10, 3 * rows), sharex=True, layout="constrained")
    for axis in axes.flat[len(panels) :]:
        axis.axis("off")
    for axis, (key, label) in zip(axes.flat, panels, strict=False):
        for name, lines in curves.items():
            points = [line for line in lines if key in line]
            steps = [line["steps"] / 1e6 for line in points]
            axis.plot(steps, [line[key] for line in points], label=name)
        axis.set_title(label, fontsize=10)
        axis.grid(alpha=0.3)
    for axis in axes[-1]:
        axis.set_xlabel("million plies")
    axes[0, 1].legend(fontsize=7)
    figure.suptitle(title)
    (DOCS / "images").mkdir(exist_ok=True)
    figure.savefig(DOCS / "images" / target, dpi=110)


def draw_ratings(lines: list[dict[str, Any]], target: str) -> None:
    """The rating over GPU minutes and over games, with its 95% interval, a line for each run."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
    for name in dict.fromkeys(line["run"] for line in lines):
        points = [line for line in lines if line["run"] == name]
        ratings = [line["rating"] for line in points]
        below = [line["rating"] - line["low"] for line in points]
        above = [line["high"] - line["rating"] for line in points]
        for axis, key, unit in zip(axes, ("gpu_minutes", "games"), (1, 1e6), strict=True):
            places = [line[key] / unit for line in points]
            axis.errorbar(places, ratings, yerr=(below, above), marker="o", capsize=3, label=name)
    for axis, label in zip(axes, ("GPU minutes", "million games"), strict=True):
        axis.set_xlabel(label)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("rating")
    axes[0].legend(fontsize=7, loc="lower right")
    figure.savefig(DOCS / "images" / target, dpi=110)


def main() -> None:
    """All pictures."""
    sweep: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in read("laptop_sweep.jsonl"):
        sweep[line["config"]].append(line)
    draw(sweep, "Eight settings, eight minutes on two cores each", "laptop_sweep.png")
    seeds = sorted((DOCS / "data").glob("laptop_seed*.jsonl"))
    runs = {path.stem.removeprefix("laptop_"): read(path.name) for path in seeds}
    draw(runs, "configs/shogi-laptop.yaml", "laptop_runs.png")
    runs = {
        "10x128, core46, no pool": read("gpu_run.jsonl"),
        "10x128, attack, pool": read("gpu_attack.jsonl"),
        "6x128 with Muon": read("gpu_muon.jsonl"),
        "the same, one epoch": read("gpu_muon_one_epoch.jsonl"),
        "minibatch 2,048, lambda .9": read("gpu_lambda.jsonl"),
        "4x192, tactics": read("gpu_4x192.jsonl"),
    }
    draw(runs, "On an H200", "gpu_run.png")
    draw_ratings(read("gpu_ratings.jsonl"), "gpu_ratings.png")


if __name__ == "__main__":
    main()
