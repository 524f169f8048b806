"""`TrainingLoopManager`: collect, learn, log, evaluate, save, until the run is done or stopped."""

from __future__ import annotations

import re
import time
from collections import defaultdict, deque

from keisei.core.ppo_agent import NonFiniteLossError
from keisei.shogi.notation.conversion import write_games
from keisei.training.display import Display
from keisei.training.evaluator import Evaluation, Evaluator, Rater
from keisei.training.metrics import MetricsLog
from keisei.training.parallel.experience_collector import CollectorReport
from keisei.training.parallel.rollout_statistics import RolloutStatistics
from keisei.training.parallel.worker_supervisor import WorkersLostError
from keisei.training.run_folder import RunFolder
from keisei.training.stop_request import StopRequest
from keisei.training.trainer import Trainer
from keisei.training.training_snapshot import TrainingSnapshot

_HISTORY = 60
_MOST_FAILURES = 3
"""Updates in a row that may meet a loss that is not a number."""


class TrainingLoopManager:
    """Runs a `Trainer` and tells display, metrics and disk about it."""

    def __init__(
        self,
        trainer: Trainer,
        folder: RunFolder,
        *,
        metrics: MetricsLog,
        display: Display,
        evaluator: Evaluator,
        rater: Rater,
    ) -> None:
        self._trainer, self._folder = trainer, folder
        self._metrics, self._display = metrics, display
        self._evaluator, self._rater = evaluator, rater
        self._config = trainer.config
        self._store = folder.checkpoints(self._config.checkpoints.keep)
        self._failures = 0
        self._begun = time.monotonic()
        self._steps_before = trainer.steps
        self._seconds = {"games": 0.0, "inference": 0.0, "update": 0.0}
        self._totals = RolloutStatistics()
        self._figures: dict[str, float] = {}
        self._history: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_HISTORY))
        self._evaluations: list[str] = []
        self._report = CollectorReport()
        self._told_of_tracing = False

    def run(self) -> bool:
        """Train to the end, or until asked to stop; whether the end was reached."""
        trainer = self._trainer
        total_steps = self._config.training.total_steps
        trainer.on_news = self._display.message
        with StopRequest(self._announce_stop) as stop:
            while trainer.steps < total_steps and not stop.requested:
                self._evaluate_if_due()  # of the last sitting, if it was stopped just then
                self._train_once()
                if trainer.steps < total_steps and not stop.requested:
                    self._evaluate_if_due()
                    self._save_if_due()
            if not stop.requested and trainer.evaluated_at != trainer.updates:
                self._evaluate(self._config.evaluation.final_games)
        self.save()
        return trainer.steps >= total_steps

    def _announce_stop(self) -> None:
        self._display.message("Stopping after this step; Ctrl-C again stops at once, unsaved.")

    def _train_once(self) -> None:
        trainer = self._trainer
        start = time.monotonic()
        rollout = self._collect()
        collected = time.monotonic()
        try:
            figures = trainer.perform_ppo_update()
            self._failures = 0
        except NonFiniteLossError as error:
            figures = {}
            self._failures += 1
            self._display.message(f"Update {trainer.updates}: {error}")
            if self._failures >= _MOST_FAILURES:
                raise
        ended = time.monotonic()
        self._spend(collected - start, rollout)
        self._seconds["update"] += ended - collected
        self._totals.add(rollout)
        self._report = trainer.collector.report()
        self._trace()
        self._note(figures | _figures_of(rollout, ended - start))
        self._display.show(self._snapshot())

    def _trace(self) -> None:
        """Add the policy lag to the timeline; say once if that cannot be written."""
        timeline = self._trainer.timeline
        timeline.counter("policy lag", self._report.figures.get("parallel/lag_mean", 0.0))
        if timeline.failure is not None and not self._told_of_tracing:
            self._told_of_tracing = True
            self._display.message(timeline.failure)

    def _spend(self, collecting: float, rollout: RolloutStatistics) -> None:
        """Share out the time of collecting to what was done meanwhile, here or by workers."""
        parts = {"games": rollout.games_seconds, "inference": rollout.inference_seconds}
        for name, seconds in parts.items():
            self._seconds[name] += collecting * seconds / max(sum(parts.values()), 1e-9)

    def _collect(self) -> RolloutStatistics:
        """Collect; in this process from now on, if no worker can be kept alive."""
        try:
            return self._trainer.collect()
        except WorkersLostError as error:
            if not self._config.training.parallel.fallback_to_serial:
                self.save()
                raise
            self._display.message(f"{error}\nGoing on in one process.")
            self._trainer.fall_back_to_serial()
            return self._trainer.collect()

    def _evaluate_if_due(self) -> None:
        updates = self._trainer.updates
        due = updates > 0 and updates % self._config.evaluation.interval == 0
        if due and self._trainer.evaluated_at != updates:
            self._evaluate(self._config.evaluation.games)

    def _save_if_due(self) -> None:
        if self._trainer.updates % self._config.checkpoints.interval == 0:
            self.save()

    def save(self) -> None:
        """Write a checkpoint."""
        with self._trainer.timeline.span("save"):
            self._store.save(self._trainer.updates, *self._trainer.state())

    def _evaluate(self, games: int) -> None:
        """Play every opponent; the best checkpoint so far is kept."""
        self._trainer.collector.pause()
        with self._trainer.timeline.span("evaluate"):
            self._play_every_opponent(games)
        self._trainer.collector.resume()

    def _play_every_opponent(self, games: int) -> None:
        trainer, settings = self._trainer, self._config.evaluation
        seed = self._config.seed + trainer.updates
        evaluations = [
            self._evaluator(trainer.agent, opponent, games=games, seed=seed)
            for opponent in settings.opponents
        ]
        for result in evaluations:
            self._save_games(result)
        told = list(evaluations)
        if settings.ladder_games:
            told.append(self._rater(trainer.agent, games=settings.ladder_games, seed=seed))
        self._tell_of(told)
        trainer.evaluated_at = trainer.updates
        score = sum(result.figures["win_rate"] for result in evaluations)
        if trainer.best_score is None or score > trainer.best_score:
            trainer.best_score = score
            self._store.mark_best(self._store.save(trainer.updates, *trainer.state()))
        self._display.show(self._snapshot())

    def _tell_of(self, results: list[Evaluation]) -> None:
        updates = self._trainer.updates
        self._evaluations += [f"update {updates}: {result.line}" for result in results]
        self._metrics.log(
            updates,
            {
                f"evaluation/{_name_of(result)}/{name}": value
                for result in results
                for name, value in result.figures.items()
            },
        )

    def _save_games(self, result: Evaluation) -> None:
        self._folder.games.mkdir(exist_ok=True)
        chosen = result.records[: self._config.logging.sample_games]
        for number, record in enumerate(chosen, 1):
            name = f"update-{self._trainer.updates:08}-{_name_of(result)}-{number}.kif"
            write_games([record], "kif", self._folder.games / name)

    def _note(self, figures: dict[str, float]) -> None:
        trainer = self._trainer
        self._figures |= figures
        for name, value in figures.items():
            self._history[name].append(value)
        self._metrics.log(
            trainer.updates,
            {
                **figures,
                **self._report.figures,
                "steps": trainer.steps,
                "games": trainer.games,
            },
        )

    def _snapshot(self) -> TrainingSnapshot:
        trainer, totals = self._trainer, self._totals
        seconds = time.monotonic() - self._begun
        rate = (trainer.steps - self._steps_before) / max(seconds, 1e-9)
        left = self._config.training.total_steps - trainer.steps
        shares = {name: spent / max(seconds, 1e-9) for name, spent in self._seconds.items()}
        return TrainingSnapshot(
            run=self._folder.path.name,
            updates=trainer.updates,
            steps=trainer.steps,
            total_steps=self._config.training.total_steps,
            seconds=seconds,
            steps_per_second=rate,
            eta_seconds=max(left, 0) / rate if rate else None,
            games=totals.games,
            results={
                "black wins": totals.black_wins,
                "white wins": totals.white_wins,
                "draws": totals.draws,
                "cut": totals.cut,
            },
            reasons=dict(totals.reasons),
            figures=self._figures,
            history={name: list(values) for name, values in self._history.items()},
            evaluations=list(self._evaluations),
            board=trainer.collector.board(),
            workers=self._report.workers,
            shares={**shares, "other": max(1 - sum(shares.values()), 0.0)},
        )


def _name_of(result: Evaluation) -> str:
    """The opponent's name without what files and metrics do not like."""
    return re.sub(r"[^\w.+-]+", "-", result.opponent)


def _figures_of(rollout: RolloutStatistics, seconds: float) -> dict[str, float]:
    figures = {
        "legal_moves": rollout.legal_moves / rollout.steps,
        "steps_per_second": rollout.steps / seconds,
        "games_finished": float(rollout.games),
    }
    if rollout.games:
        figures |= {
            "cut_share": rollout.cut / rollout.games,
            "draw_share": rollout.draws / rollout.games,
            "black_win_share": rollout.black_wins / rollout.games,
            "game_length": rollout.plies / rollout.games,
        }
    return figures
