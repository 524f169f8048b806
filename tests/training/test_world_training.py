"""`WorldTraining`: what it shows, when it stops and when it saves."""

import pytest

from keisei.training.run_folder import RunFolder
from keisei.training.world_games import make_game
from keisei.training.world_training import WorldTraining
from keisei.world_config import LearnerConfig, WorldConfig
from tests.core.small import one_thread
from tests.training.command_line import saved_updates
from tests.training.small_run import InterruptingDisplay, RecordingDisplay


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with one_thread():
        yield


def small_training(folder, **others):
    config = WorldConfig(
        runs_folder=str(folder),
        rules={"height": 6, "width": 6, "max_turns": 4},
        copies=2,
        learner=LearnerConfig(settings={"minibatch": 8}),
        **{"epochs": 5, **others},
    )
    return WorldTraining(config, make_game(config), RunFolder.create(config))


class ListedMetrics:
    """Keeps the figures, and which checkpoints there were when they came."""

    def __init__(self, training):
        self.lines, self.saved = [], []
        self._paths = training._folder.checkpoints(1).paths

    def log(self, update, values):
        self.lines.append((update, values))
        self.saved.append([int(path.name.removeprefix("update-")) for path in self._paths()])


def test_the_display_is_shown_the_world_the_agents_and_how_it_goes(tmp_path):
    training, display = small_training(tmp_path), RecordingDisplay()
    assert training.run(ListedMetrics(training), display)
    assert [snapshot.updates for snapshot in display.snapshots] == [1, 2, 3, 4, 5]
    last = display.snapshots[-1]
    assert last.board.count("\n") == 5
    assert last.board.startswith("######")
    assert [line.split(":")[0] for line in last.workers] == ["agent 0", "agent 1"]
    assert (last.steps, last.total_steps, last.games) == (5 * 16, 5 * 16, 10)
    assert len(last.history["reward"]) == 5
    assert sum(last.shares.values()) == pytest.approx(1, abs=1e-6)


def test_an_agent_that_remembers_says_how_much(tmp_path):
    learner = LearnerConfig(kind="iqn", settings={"layer_size": 8, "batch_size": 8})
    config = WorldConfig(
        runs_folder=str(tmp_path), rules={"max_turns": 4}, copies=2, epochs=2, learner=learner
    )
    training = WorldTraining(config, make_game(config), RunFolder.create(config))
    display = RecordingDisplay()
    training.run(ListedMetrics(training), display)
    assert display.snapshots[-1].workers[0].endswith(" · 16 turns remembered")


def test_ctrl_c_is_announced_and_the_epoch_is_finished_and_saved(tmp_path):
    training, display = small_training(tmp_path, epochs=50), InterruptingDisplay(2)
    assert not training.run(ListedMetrics(training), display)
    assert training.game.epoch == 2
    assert display.messages == ["Stopping after this epoch; Ctrl-C again stops at once, unsaved."]
    (run,) = tmp_path.iterdir()
    assert saved_updates(run)[-1] == 2


def test_figures_of_an_epoch_are_written_before_its_checkpoint(tmp_path):
    training = small_training(tmp_path, checkpoints={"interval": 2})
    metrics = ListedMetrics(training)
    training.run(metrics, RecordingDisplay())
    for (update, _), saved in zip(metrics.lines, metrics.saved, strict=True):
        assert update not in saved  # or a run killed in between lacks the line for ever
