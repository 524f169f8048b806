"""Make the figures of docs/worlds.md: collect them from runs, play trained agents, draw.

    python scripts/plot_worlds.py collect treasurehunt "PPO, seed 1=RUN=CPU_SECONDS" ...
    python scripts/plot_worlds.py tag RUN
    python scripts/plot_worlds.py cleanup RUN
    python scripts/plot_worlds.py draw

`collect` averages `metrics.jsonl` of runs to 80 lines each; `tag` plays every checkpoint of a run
among random players; `cleanup` replaces citizens of a run's newest checkpoint by sweepers. All
write docs/worlds/*.jsonl, from which `draw`, which needs matplotlib (extra `dev`), makes the
pictures.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from keisei.config_loading import load_any
from keisei.gridworld.environment import Environment
from keisei.gridworld.examples.tag import It
from keisei.gridworld.model import FixedModel, RandomModel, States
from keisei.gridworld.world import World
from keisei.training.checkpoint_format import Checkpoint, load_checkpoint
from keisei.training.run_folder import RunFolder
from keisei.training.world_games import make_game
from keisei.world_config import WorldConfig

FOLDER = Path(__file__).parents[1] / "docs" / "worlds"
POINTS = 80
LEFT_OUT = ("update", "time", "steps_per_second", "loss", "policy_loss", "value_loss", "clip_share")
EPOCHS = {"tag": 10, "cleanup": 4}
"""How many epochs trained agents play, in all copies of their run."""
UP, DOWN, LEFT, RIGHT, CLEAN = range(5)
LABELS = {"apples": "apples eaten", "cleaned": "cells cleaned", "reward": "total reward"}
Line = dict[str, Any]
Curves = dict[str, list[Line]]


def write(name: str, lines: list[Line]) -> None:
    """Replace a file of figures."""
    FOLDER.mkdir(exist_ok=True)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (FOLDER / f"{name}.jsonl").write_text(text)


def read(name: str) -> Curves:
    """The lines of a file of figures, by their run."""
    curves: Curves = defaultdict(list)
    for text in (FOLDER / f"{name}.jsonl").read_text().splitlines():
        line = json.loads(text)
        curves[line["run"]].append(line)
    return curves


# Collecting


def collect(name: str, runs: list[str]) -> None:
    """The curves of runs, given as LABEL=FOLDER or LABEL=FOLDER=CPU_SECONDS."""
    lines: list[Line] = []
    for run in runs:
        label, folder, seconds = [*run.split("="), "0"][:3]
        lines += thinned(label, Path(folder) / "metrics.jsonl", float(seconds))
    write(name, lines)


def thinned(label: str, metrics: Path, cpu_seconds: float) -> Iterator[Line]:
    """Means over groups of epochs; the CPU-seconds of a run are spread evenly over its epochs."""
    epochs = [json.loads(line) for line in metrics.read_text().splitlines()]
    names = [name for name in epochs[-1] if "/" not in name and name not in LEFT_OUT]
    for group in np.array_split(np.arange(len(epochs)), min(POINTS, len(epochs))):
        figures = {n: float(np.mean([epochs[i].get(n, np.nan) for i in group])) for n in names}
        epoch = float(group.mean()) + 1
        yield {
            "run": label,
            "epoch": epoch,
            "cpu_seconds": round(cpu_seconds * epoch / len(epochs), 2),
            **{name: float(f"{value:.5g}") for name, value in figures.items()},
        }


# Playing trained agents


def checkpoints(run: Path) -> Iterator[Checkpoint]:
    """Those that a run has kept, oldest first."""
    for path in RunFolder.open(run).checkpoints(1).paths():
        yield load_checkpoint(path)


def trained_game(run: Path, checkpoint: Checkpoint) -> Environment:
    """The game of a run with what its agents had learned."""
    config = load_any(run / "config.yaml")
    if not isinstance(config, WorldConfig):
        raise SystemExit(f"{run} is not a run in a world")
    game = make_game(config)
    assert isinstance(game, Environment)
    game.load_state(checkpoint.tensors, checkpoint.state["game"])
    return game


def replace_model(game: Environment, number: int, maker: Callable[..., Any]) -> None:
    """Have an agent decide with another model, which does not learn."""
    agent = game.agents[number]
    shape, actions = agent.observation_spec.shape, len(agent.action_spec)
    agent.model = maker(shape, actions, copies=game.world.copies, seed=number)


def tag(run: Path) -> None:
    """One trained player among four that act randomly, and one random among four trained."""
    everybody = set(range(5))
    lines: list[Line] = []
    for checkpoint in checkpoints(run):
        for label, trained in (
            ("one trained, four random", lambda one: {one}),
            ("one random, four trained", lambda one: everybody - {one}),
            ("all random", lambda one: set()),
        ):
            rewards = [reward_of(run, checkpoint, one, trained(one)) for one in everybody]
            reward = round(float(np.mean(rewards)), 2)
            lines.append({"run": label, "epoch": checkpoint.update, "reward": reward})
            print(lines[-1])
    write("tag_mixed", lines)
    print("it stands next to somebody: trained", beside(run, checkpoint, everybody))
    print("it stands next to somebody: random", beside(run, checkpoint, set()))


def mixed_game(run: Path, checkpoint: Checkpoint, trained: set[int]) -> Environment:
    """The game of a run, in which those who are not named act randomly."""
    game = trained_game(run, checkpoint)
    for number in set(range(len(game.agents))) - trained:
        replace_model(game, number, RandomModel)
    return game


def beside(run: Path, checkpoint: Checkpoint, trained: set[int]) -> float:
    """How often who is it has somebody next to it when a turn begins, the first five left out."""
    shares: list[float] = []

    def watch(world: World) -> None:
        rows, columns = world.agents.rows, world.agents.columns
        away = abs(rows[:, None] - rows) + abs(columns[:, None] - columns)  # [N, N, B]
        is_it = world.map[np.arange(world.copies), rows, columns, 0] == world.number_of(It)
        if world.turn >= 5:
            shares.append(float((away == 1).any(axis=1)[is_it].mean()))

    mixed_game(run, checkpoint, trained).run_experiment(EPOCHS["tag"], train_steps=0, watch=watch)
    return round(float(np.mean(shares)), 3)


def reward_of(run: Path, checkpoint: Checkpoint, one: int, trained: set[int]) -> float:
    """The mean reward of one player in an epoch."""
    game = mixed_game(run, checkpoint, trained)
    results = game.run_experiment(EPOCHS["tag"], train_steps=0)
    return float(np.mean([result.rewards[one] for result in results]))


class Sweeper(FixedModel):
    """A citizen of cleanup that does nothing but walk along the river and clean it.

    It keeps to a row, cleans if there is pollution in the 3 x 3 cells ahead, and turns where it
    cannot go on.
    """

    def __init__(
        self, observation_shape: tuple[int, ...], actions: int, *, copies: int, seed: int
    ) -> None:
        super().__init__()
        self._row = (2, 5)[seed % 2]
        self._heading = np.full(copies, RIGHT)
        self._facing = np.full(copies, DOWN)
        self._before = np.zeros((copies, 2), np.float32)
        self._walked = np.zeros(copies, np.bool_)

    def take_action(self, states: States) -> NDArray[np.int64]:
        """[B] to its row, then clean or walk."""
        place = states[:, -2:]
        stuck = self._walked & (place == self._before).all(axis=1)
        self._heading[stuck] = LEFT + RIGHT - self._heading[stuck]
        row = np.rint(place[:, 0] * 20)
        to_row = np.where(row > self._row, UP, np.where(row < self._row, DOWN, self._heading))
        ready = (row == self._row) & ~stuck & (self._facing == self._heading)
        walk = np.where(stuck, self._heading, to_row)
        action = np.where(ready & self._sees_pollution(states), CLEAN, walk)
        self._before, self._walked = place.copy(), action != CLEAN
        self._facing = np.where(self._walked, action, self._facing)
        return action

    def _sees_pollution(self, states: States) -> NDArray[np.bool_]:
        """[B] whether there is some in the 3 x 3 cells ahead, in the window of 11 x 11."""
        window = states[:, 2 * 121 : 3 * 121].reshape(-1, 11, 11)  # the third kind of `Cleanup`
        left, right = window[:, 4:7, 2:5], window[:, 4:7, 6:9]
        counts = [side.sum(axis=(1, 2)) for side in (left, right)]
        return np.asarray(np.where(self._heading == LEFT, *counts) > 0)


def cleanup(run: Path) -> None:
    """Trained citizens, of whom none, one, two ... are replaced by sweepers."""
    *_, newest = checkpoints(run)
    lines = [with_sweepers(run, newest, count) for count in range(8)]
    write("cleanup_sweepers", lines)


def with_sweepers(run: Path, checkpoint: Checkpoint, count: int) -> Line:
    """What a copy brings in an epoch with so many sweepers."""
    game = trained_game(run, checkpoint)
    for number in range(count):
        replace_model(game, number, Sweeper)
    line: Line = {"run": "sweepers", "sweepers": count, "others": len(game.agents) - count}
    results = game.run_experiment(EPOCHS["cleanup"], train_steps=0)
    for name in ("apples", "cleaned", "pollution"):
        line[name] = round(float(np.mean([result.counts[name] for result in results])), 3)
    rewards = np.mean([result.rewards for result in results], axis=0)
    line["reward_sweeper"] = round(float(rewards[:count].mean()), 3) if count else None
    line["reward_other"] = round(float(rewards[count:].mean()), 3)
    print(line)
    return line


# Drawing


def panels(count: int) -> tuple[Any, list[Any]]:
    """A figure with so many panels side by side."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, count, figsize=(5 * count, 3.6), layout="constrained")
    axes = list(np.atleast_1d(axes))
    for axis in axes:
        axis.grid(alpha=0.3)
    return figure, axes


def finish(figure: Any, axes: list[Any], name: str) -> None:
    """Add legends and save."""
    for axis in axes:
        axis.legend(fontsize=8)
    figure.savefig(FOLDER / f"{name}.png", dpi=90)


def plot(axis: Any, lines: list[Line], x: str, y: str, **style: Any) -> None:
    """A curve of one figure over another."""
    axis.plot([line[x] for line in lines], [line[y] for line in lines], **style)


def draw_random(axis: Any, curves: Curves, y: str) -> None:
    """The mean of the run called random, which is taken out of the curves."""
    mean = np.mean([line[y] for line in curves.pop("random")])
    axis.axhline(mean, color="grey", ls=":", label="random")


def draw_treasurehunt() -> None:
    """Total reward over CPU-seconds, for both learners."""
    figure, [axis] = panels(1)
    figure.set_size_inches(7, 4)
    curves = read("treasurehunt")
    draw_random(axis, curves, "reward")
    for label, lines in curves.items():
        plot(axis, lines, "cpu_seconds", "reward", label=label, ls="--" if "IQN" in label else "-")
    axis.axhline(350, color="grey", lw=0.8)
    axis.set(title="treasurehunt", xlabel="CPU-seconds", ylabel="total reward of an epoch")
    finish(figure, [axis], "treasurehunt")


def draw_tag() -> None:
    """Tags while five learn together, and how they do among random players."""
    figure, [left, right] = panels(2)
    curves = read("tag")
    draw_random(left, curves, "tags")
    for label, lines in curves.items():
        plot(left, lines, "epoch", "tags", label=label)
    left.set(title="tag: five learn together", xlabel="epoch", ylabel="tags in an epoch")
    for label, lines in read("tag_mixed").items():
        plot(right, lines, "epoch", "reward", marker=".", label=label)
    right.set(title="tag: one among others", xlabel="epoch", ylabel="reward of the one")
    right.set_ylim(100, 200)
    finish(figure, [left, right], "tag")


def draw_cleanup() -> None:
    """What citizens learn by themselves, and what cleaning would bring them."""
    figure, [left, middle, right] = panels(3)
    [lines] = read("cleanup").values()
    for name in ("apples", "cleaned", "reward"):
        plot(left, lines, "epoch", name, label=LABELS[name])
    left.set(title="cleanup: ten learn by themselves", xlabel="epoch", ylabel="in an epoch")
    swept = read("cleanup_sweepers")["sweepers"]
    plot(middle, swept, "cleaned", "apples", marker="o", label="0 to 7 of ten sweep")
    offset = {"textcoords": "offset points", "fontsize": 8}
    for line in swept:
        middle.annotate(line["sweepers"], (line["cleaned"], line["apples"]), (4, -10), **offset)
    middle.set(title="apples by cleaning", xlabel="cells cleaned", ylabel="apples eaten")
    plot(right, swept, "sweepers", "reward_other", marker="o", label="of each who does not sweep")
    plot(right, swept[1:], "sweepers", "reward_sweeper", marker="o", label="of each sweeper")
    right.set(title="the dilemma", xlabel="sweepers of ten", ylabel="reward in an epoch")
    finish(figure, [left, middle, right], "cleanup")


def draw_iowa_and_staghunt() -> None:
    """Which decks are taken; what is hunted."""
    figure, [left, right] = panels(2)
    [decks], [hunts] = read("iowa").values(), read("staghunt").values()
    for name in ("DeckA", "DeckB", "DeckC", "DeckD"):
        plot(left, decks, "epoch", name, label=name)
    left.set(title="iowa", xlabel="epoch", ylabel="taken in an epoch")
    for name in ("hares", "stags"):
        plot(right, hunts, "epoch", name, label=name)
    right.set(title="staghunt", xlabel="epoch", ylabel="caught in an epoch")
    finish(figure, [left, right], "iowa_staghunt")


def draw() -> None:
    """All pictures."""
    draw_treasurehunt()
    draw_tag()
    draw_cleanup()
    draw_iowa_and_staghunt()


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    collecting = verbs.add_parser("collect", help="average the metrics of runs")
    collecting.add_argument("name", help="of the file of figures")
    collecting.add_argument("runs", nargs="+", help="LABEL=FOLDER or LABEL=FOLDER=CPU_SECONDS")
    for name in ("tag", "cleanup"):
        verbs.add_parser(name, help="play its trained agents").add_argument("run", type=Path)
    verbs.add_parser("draw", help="all pictures")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # networks so small wait more for threads than they compute
    if arguments.verb == "collect":
        collect(arguments.name, arguments.runs)
    elif arguments.verb == "draw":
        draw()
    else:
        {"tag": tag, "cleanup": cleanup}[arguments.verb](arguments.run)


if __name__ == "__main__":
    main()
