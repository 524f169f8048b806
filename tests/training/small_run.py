"""Training loops with everything real but the matches, and displays that keep what they hear."""

import os
import signal

from keisei.config_schema import CheckpointConfig, EvaluationConfig, LoggingConfig
from keisei.evaluation.ladder import rate_for_training
from keisei.shogi.notation.records import Ending, GameRecord, RecordedMove
from keisei.training.display import Display
from keisei.training.evaluator import Evaluation
from keisei.training.metrics import MetricsLog, read_metrics
from keisei.training.run_folder import RunFolder
from keisei.training.trainer import Trainer
from keisei.training.training_loop_manager import TrainingLoopManager
from tests.core.small import small_config

STEPS_AN_UPDATE = 4 * 4


class RecordingDisplay(Display):
    """Keeps what it is told."""

    def __init__(self):
        self.snapshots, self.messages = [], []

    def show(self, snapshot):
        self.snapshots.append(snapshot)

    def message(self, text):
        self.messages.append(text)

    def close(self):
        pass


class StubEvaluator:
    """Answers with given win rates instead of playing, and keeps what it was asked."""

    def __init__(self, *win_rates):
        self.asked = []
        self._win_rates = iter(win_rates)

    def __call__(self, agent, opponent, *, games, seed):
        self.asked.append((agent.version, opponent, games, seed))
        win_rate = next(self._win_rates, 0.0)
        moves = [RecordedMove(move) for move in ("7g7f", "3c3d")]
        records = [
            GameRecord(moves=moves, headers={"black": f"game {number}"}, ending=Ending.RESIGN)
            for number in range(3)
        ]
        line = f"vs {opponent}: {win_rate:.0%}"
        return Evaluation(opponent, line, {"win_rate": win_rate, "game_length": 2.0}, records)


class Run:
    """A run of 16 plies an update with everything real but the matches."""

    def __init__(self, folder, *, updates, evaluator=None, checkpoints=3, evaluations=4, **others):
        matches = {
            "opponents": others.pop("opponents", ("random",)),
            "ladder_games": others.pop("ladder_games", None),
        }
        self.config = small_config(
            seed=5,
            runs_folder=str(folder),
            games={"count": 4},
            training={
                "rollout_length": 4,
                "total_steps": updates * STEPS_AN_UPDATE,
                "parallel": others.pop("parallel", {}),
            },
            checkpoints=CheckpointConfig(interval=checkpoints, keep=others.pop("keep", 100)),
            evaluation=EvaluationConfig(interval=evaluations, games=6, final_games=8, **matches),
            logging=LoggingConfig(sample_games=others.pop("sample_games", 2)),
        )
        assert not others
        self.trainer = Trainer(self.config)
        self.folder = RunFolder.create(self.config)
        self.evaluator = evaluator or StubEvaluator()
        self.display = RecordingDisplay()
        self.store = self.folder.checkpoints(100)

    def resume(self, *, updates=None):
        """The next sitting, perhaps with another end."""
        if updates is not None:
            total = {"total_steps": updates * STEPS_AN_UPDATE}
            training = self.config.training.model_copy(update=total)
            self.config = self.config.model_copy(update={"training": training})
        self.trainer = Trainer(self.config)
        self.trainer.load_checkpoint(self.store.newest()[0])
        self.evaluator, self.display = StubEvaluator(), RecordingDisplay()

    def go(self):
        path = self.folder.path
        metrics = MetricsLog(
            path,
            self.config.logging,
            run_name=path.name,
            settings={},
            after_update=self.trainer.updates or None,
        )
        try:
            with metrics:
                return TrainingLoopManager(
                    self.trainer,
                    self.folder,
                    metrics=metrics,
                    display=self.display,
                    evaluator=self.evaluator,
                    rater=rate_for_training,
                ).run()
        finally:
            self.trainer.close()

    def saved(self):
        """The updates of which there are checkpoints."""
        return [int(path.name.removeprefix("update-")) for path in self.store.paths()]

    def metrics(self):
        return read_metrics(self.folder.path / "metrics.jsonl")


class InterruptingDisplay(RecordingDisplay):
    """Presses Ctrl-C when an update is shown."""

    def __init__(self, update):
        super().__init__()
        self._update = update

    def show(self, snapshot):
        super().show(snapshot)
        if snapshot.updates == self._update:
            self._update = None
            os.kill(os.getpid(), signal.SIGINT)
