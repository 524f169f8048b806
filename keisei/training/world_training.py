"""`WorldTraining`: epochs of a world, logged, shown and saved, until the run is done or stopped."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from pathlib import Path

import numpy as np

from keisei.gridworld.environment import Environment, EpochResult
from keisei.gridworld.game import Game
from keisei.gridworld.pictures import Recorder, text_of
from keisei.training.checkpoint_format import Checkpoint
from keisei.training.display import Display
from keisei.training.metrics import MetricsLog
from keisei.training.run_folder import RunFolder
from keisei.training.stop_request import StopRequest
from keisei.training.timeline import TRACE_FILE, Timeline
from keisei.training.training_snapshot import TrainingSnapshot
from keisei.world_config import WorldConfig

_HISTORY = 60


class WorldTraining:
    """Runs a game and tells display, metrics and disk about it."""

    def __init__(
        self, config: WorldConfig, game: Game, folder: RunFolder, *, trace: bool = False
    ) -> None:
        self.config, self.game, self._folder = config, game, folder
        trace_path = folder.path / TRACE_FILE if trace else None
        self._timeline = Timeline(trace_path, "main", owner=True)
        game.trace_with(self._timeline, lambda name: Timeline(trace_path, name))
        self._store = folder.checkpoints(config.checkpoints.keep)
        self.steps = 0
        """Agent-steps: turns that an agent has taken, over all agents and copies."""
        self._best_reward: float | None = None
        self._saved_epoch = -1
        self._rewards_since_line: list[float] = []
        self._lines: list[str] = []
        self._history: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_HISTORY))
        self._seconds = {"playing": 0.0, "training": 0.0}

    def load_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Go on from there."""
        state = checkpoint.state
        self.game.load_state(checkpoint.tensors, state["game"])
        self.steps, self._best_reward = state["steps"], state["best_reward"]
        self._rewards_since_line = state["rewards_since_line"]

    def run(self, metrics: MetricsLog, display: Display) -> bool:
        """Run epochs to the end, or until asked to stop; whether the end was reached."""
        begun, steps_before = time.monotonic(), self.steps
        self.game.on_news = display.message
        with StopRequest(lambda: _announce_stop(display)) as stop:
            while self.game.epoch < self.config.epochs and not stop.requested:
                result = self._run_epoch()
                self._note(result, metrics)
                display.show(self._snapshot(result, begun, steps_before))
        finished = self.game.epoch >= self.config.epochs
        if finished:
            self.game.finish_lessons(self.config.learner.train_steps)
        if finished or self._saved_epoch != self.game.epoch:
            self.save()
        return finished

    def _run_epoch(self) -> EpochResult:
        interval = self.config.record_interval
        records = interval > 0 and self.game.epoch % interval == 0
        recorder = Recorder() if records and isinstance(self.game, Environment) else None
        with self._timeline.span("play"):
            self.game.play_epoch(recorder)
        with self._timeline.span("train"):
            result = self.game.finish_epoch(train_steps=self.config.learner.train_steps)
        if recorder is not None:
            recorder.save(self._folder.games / f"epoch-{result.epoch:06}.gif")
        return result

    def _note(self, result: EpochResult, metrics: MetricsLog) -> None:
        self.steps += result.steps
        self._seconds["playing"] += result.playing_seconds
        self._seconds["training"] += result.training_seconds
        self._rewards_since_line.append(result.total_reward)
        figures = _figures_of(result)
        for name, value in figures.items():
            self._history[name].append(value)
        metrics.log(self.game.epoch, {**figures, **_agent_figures(result), "steps": self.steps})
        if self.game.epoch % self.config.checkpoints.interval == 0:
            self._sum_up()

    def _sum_up(self) -> None:
        """Say how the last epochs were, and save; the best of such checkpoints is kept."""
        reward, count = float(np.mean(self._rewards_since_line)), len(self._rewards_since_line)
        self._rewards_since_line = []
        self._lines.append(
            f"epoch {self.game.epoch}: total reward {reward:.1f}, the mean of {count} epochs"
        )
        is_best = self._best_reward is None or reward > self._best_reward
        self._best_reward = reward if is_best else self._best_reward
        saved = self.save()
        if is_best:
            self._store.mark_best(saved)

    def close(self) -> None:
        """End the threads of the game, and the timeline."""
        self.game.close()
        self._timeline.close()

    def save(self) -> Path:
        """Write a checkpoint; where it is."""
        arrays, values = self.game.state()
        state = {
            "game": values,
            "steps": self.steps,
            "best_reward": self._best_reward,
            "rewards_since_line": self._rewards_since_line,
        }
        self._saved_epoch = self.game.epoch
        with self._timeline.span("save"):
            return self._store.save(self.game.epoch, arrays, state)

    def _snapshot(self, result: EpochResult, begun: float, steps_before: int) -> TrainingSnapshot:
        seconds = time.monotonic() - begun
        rate = (self.steps - steps_before) / max(seconds, 1e-9)
        left = (self.config.epochs - self.game.epoch) * result.steps
        shares = {name: spent / max(seconds, 1e-9) for name, spent in self._seconds.items()}
        return TrainingSnapshot(
            run=self._folder.path.name,
            round_name="epoch",
            updates=self.game.epoch,
            steps=self.steps,
            total_steps=self.steps + left,
            seconds=seconds,
            steps_per_second=rate,
            eta_seconds=left / rate if rate else None,
            games=self.game.epoch * self.config.copies,
            results={},
            reasons={},
            figures={name: values[-1] for name, values in self._history.items()},
            history={name: list(values) for name, values in self._history.items()},
            evaluations=list(self._lines),
            evaluations_title=f"Every {self.config.checkpoints.interval} epochs",
            board=text_of(self.game.world) if isinstance(self.game, Environment) else "",
            board_title="A world",
            workers=_agent_lines(self.game, result),
            workers_title="Agents",
            shares={**shares, "other": max(1 - sum(shares.values()), 0.0)},
        )


def _announce_stop(display: Display) -> None:
    display.message("Stopping after this epoch; Ctrl-C again stops at once, unsaved.")


def _figures_of(result: EpochResult) -> dict[str, float]:
    """Of all agents together: reward, what the game counts, and the mean of what they tell."""
    figures = {"reward": result.total_reward, **result.counts}
    names = dict.fromkeys(name for its in result.figures for name in its)
    for name in names:
        figures[name] = float(np.mean([its[name] for its in result.figures if name in its]))
    return figures | {"steps_per_second": result.steps / max(result.seconds, 1e-9)}


def _agent_figures(result: EpochResult) -> dict[str, float]:
    figures = {f"agent_{n}/reward": float(reward) for n, reward in enumerate(result.rewards)}
    for number, its in enumerate(result.figures):
        figures |= {f"agent_{number}/{name}": value for name, value in its.items()}
    return figures


def _agent_lines(game: Game, result: EpochResult) -> list[str]:
    lines = []
    for number, agent in enumerate(game.agents):
        parts = [f"agent {number}: reward {result.rewards[number]:.1f}"]
        parts += [f"{name} {value:.4g}" for name, value in result.figures[number].items()]
        if len(agent.model.memory):
            parts.append(f"{len(agent.model.memory):,} turns remembered")
        lines.append(" · ".join(parts))
    return lines
