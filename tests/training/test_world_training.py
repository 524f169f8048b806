"""`keisei train` of a world as people run it: real processes, signals and files."""

import io
import json
import os
import re
import signal
import subprocess
from contextlib import contextmanager

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from keisei.cli import app
from keisei.config_loading import load_any
from keisei.gridworld.errors import WorldError
from keisei.training.metrics import read_metrics
from keisei.training.run_folder import RunFolder
from keisei.training.world_games import make_game
from keisei.training.world_training import WorldTraining
from keisei.training_session import Switches
from keisei.training_start import begin, go_on
from keisei.world_config import LearnerConfig, WorldConfig
from tests.core.small import one_thread
from tests.training.command_line import (
    KEISEI,
    assert_one_sentence,
    assert_same_end,
    keisei,
    logged_updates,
    newest,
    saved_updates,
    wait_until,
)
from tests.training.small_run import InterruptingDisplay, RecordingDisplay

EPOCHS = 70
TINY = [
    "rules.height=7",
    "rules.width=9",
    "rules.max_turns=12",
    "rules.spawn_chance=0.05",
    "copies=6",
    f"epochs={EPOCHS}",
    "learner.settings.minibatch=60",
    "checkpoints.interval=7",
    "name=tiny",
]


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with one_thread():
        yield


def begun(folder, *settings, game="treasurehunt", trace=False):
    """A session in this process; settings that are given win over those of TINY."""
    words = [game, *TINY, f"runs_folder={folder}", *settings]
    return begin(words, Switches(trace=trace, debug_serial=False))


def trained(folder, *settings, game="treasurehunt"):
    """The folder of a run that was trained to its end in this process."""
    assert begun(folder, *settings, game=game).run(io.StringIO())
    return next(folder.iterdir())


def resumed(run, *settings):
    """Train on in this process; what was said."""
    stream = io.StringIO()
    assert go_on(run, list(settings), Switches(trace=False, debug_serial=False)).run(stream)
    return stream.getvalue()


def command(*words):
    """What `keisei` does with these words, in this process."""
    return CliRunner().invoke(app, [str(word) for word in words])


@contextmanager
def training(folder, *settings, until):
    """A process of `keisei train` that has logged `until` epochs, and the folder of its run."""
    process = subprocess.Popen(
        [KEISEI, "train", "treasurehunt", *TINY, f"runs_folder={folder}", *settings],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_until(lambda: list(folder.glob("*/metrics.jsonl")), process)
        run = next(folder.iterdir())
        metrics = run / "metrics.jsonl"
        wait_until(lambda: metrics.read_bytes().count(b'"steps"') >= until, process)
        yield process, run
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """(what the command said, the folder) of a run from beginning to end."""
    folder = tmp_path_factory.mktemp("undisturbed")
    words = ["treasurehunt", *TINY, f"runs_folder={folder}", "record_interval=30"]
    said = keisei("train", *words, "--trace")
    assert said.returncode == 0, said.stderr
    return said, next(folder.iterdir())


# What a run leaves behind


def test_a_run_leaves_config_metrics_checkpoints_and_films_behind(undisturbed):
    said, run = undisturbed
    assert re.fullmatch(r"tiny-\d{8}-\d{6}", run.name)
    assert {path.name for path in run.iterdir()} == {
        "config.yaml",
        "metrics.jsonl",
        "run.log",
        "tensorboard",
        "checkpoints",
        "games",
        "trace.json",
    }
    assert said.stderr == ""
    assert f"Train on:  keisei train --resume {run} epochs={2 * EPOCHS}\n" in said.stdout
    assert "epoch 7: total reward " in said.stdout
    assert saved_updates(run)[-1] == EPOCHS
    assert list((run / "tensorboard").iterdir())
    assert RunFolder.open(run).is_of_a_world()


def test_the_metrics_have_a_line_for_each_epoch_with_each_agent(undisturbed):
    _, run = undisturbed
    assert logged_updates(run) == list(range(1, EPOCHS + 1))
    lines = read_metrics(run / "metrics.jsonl")
    assert [line["steps"] for line in lines] == [n * 2 * 12 * 6 for n in range(1, EPOCHS + 1)]
    last = lines[-1]
    assert last["reward"] == pytest.approx(last["agent_0/reward"] + last["agent_1/reward"])
    assert last["loss"] == pytest.approx((last["agent_0/loss"] + last["agent_1/loss"]) / 2)
    assert last["steps_per_second"] > 0


def test_films_are_recorded_every_so_many_epochs(undisturbed):
    _, run = undisturbed
    films = sorted(path.name for path in (run / "games").iterdir())
    assert films == ["epoch-000000.gif", "epoch-000030.gif", "epoch-000060.gif"]
    with Image.open(run / "games" / films[0]) as film:
        assert film.size == (9 * 16, 7 * 16)
        assert 1 < film.n_frames <= 12


def test_the_trace_shows_when_was_played_and_trained(undisturbed):
    _, run = undisturbed
    events = json.loads((run / "trace.json").read_text())
    spans = [event["name"] for event in events if event["ph"] == "X"]
    assert spans.count("play") == spans.count("train") == EPOCHS
    assert "save" in spans


def test_the_best_checkpoint_is_kept(undisturbed):
    _, run = undisturbed
    best = RunFolder.open(run).checkpoints(1).best()
    assert best.is_dir()
    means = [
        np.mean([line["reward"] for line in read_metrics(run / "metrics.jsonl")[n : n + 7]])
        for n in range(0, EPOCHS - 6, 7)
    ]
    assert newest(run).state["best_reward"] == pytest.approx(max(means))
    assert best.name == f"update-{7 * (int(np.argmax(means)) + 1):08}"


# The same again, whatever happened


def test_the_same_seed_repeats_a_run_and_another_does_not(undisturbed, tmp_path):
    again, other = (trained(tmp_path / name, f"seed={name}") for name in ("1", "2"))
    assert_same_end(again, undisturbed[1])
    assert newest(other).state["game"] != newest(again).state["game"]


def test_a_killed_run_resumes_to_the_same_end(undisturbed, tmp_path):
    with training(tmp_path, until=10) as (process, run):
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert 7 <= saved_updates(run)[-1] < EPOCHS
    resumed(run)
    assert logged_updates(run) == list(range(1, EPOCHS + 1))
    assert_same_end(run, undisturbed[1])


def test_ctrl_c_saves_and_says_how_to_resume_and_the_run_ends_the_same(undisturbed, tmp_path):
    with training(tmp_path, until=3) as (process, run):
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "")
    assert "Stopping after this epoch; Ctrl-C again stops at once, unsaved." in output
    assert f"Saved. Resume with:  keisei train --resume {run}\n" in output
    stopped_after = logged_updates(run)[-1]
    assert 3 <= stopped_after < EPOCHS
    assert saved_updates(run)[-1] == stopped_after
    said = command("train", "--resume", run)
    assert (said.exit_code, said.stderr) == (0, "")
    assert logged_updates(run) == list(range(1, EPOCHS + 1))
    assert_same_end(run, undisturbed[1])


@pytest.mark.parametrize("kind", ["ppo", "iqn", "random"])
def test_a_run_in_two_sittings_equals_one_in_one(tmp_path, kind):
    learner = [
        f"learner={{kind: {kind}, settings: {{}}, train_steps: 2}}",
        "checkpoints.interval=4",
    ]
    if kind == "iqn":
        learner += ["learner.settings.layer_size=8", "learner.settings.memory_turns=50"]
    unbroken = trained(tmp_path / "unbroken", "epochs=9", *learner)
    run = trained(tmp_path / "two", "epochs=5", *learner)
    resumed(run, "epochs=9")
    assert_same_end(run, unbroken)
    assert logged_updates(run) == list(range(1, 10))
    assert "epochs: 9 " in (run / "config.yaml").read_text()  # the next sitting knows


def test_a_run_killed_before_its_first_checkpoint_begins_again(tmp_path):
    run = trained(tmp_path / "unbroken", "epochs=5")
    config = load_any(run / "config.yaml", [f"runs_folder={tmp_path / 'killed'}"])
    killed = RunFolder.create(config).path
    (killed / "metrics.jsonl").write_bytes((run / "metrics.jsonl").read_bytes()[:-200])
    resumed(killed)
    assert logged_updates(killed) == [1, 2, 3, 4, 5]
    assert_same_end(killed, run)


def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used(tmp_path):
    run = trained(tmp_path, "epochs=10")
    end = newest(run)
    tensors = end.path / "tensors.safetensors"
    tensors.write_bytes(tensors.read_bytes()[:-100])
    said = resumed(run)
    assert said.startswith(f"{end.path} is damaged: tensors.safetensors is truncated")
    assert newest(run).update == 10
    assert newest(run).state == end.state


# What is refused


def refusal(folder, *settings, game="treasurehunt"):
    """The sentence for settings that must be refused; nothing is left behind."""
    with pytest.raises(ValueError, match=r".") as refused:
        begun(folder / "runs", *settings, game=game)
    assert not (folder / "runs").exists()
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("rules.agent=3", "agent is not among the rules of treasurehunt; did you mean agents?"),
        ("rules.agents=two", "agents of the rules of treasurehunt is 'two', but must be a whole"),
        ("rules.agents=0", "A game has at least one agent"),
        ("rules.agents=40", "40 different cells are wanted where a copy has only 35"),
        ("rules.window=4", "its size is odd, not 4"),
        ("rules.height=-3", "A world has at least one row"),
        ("learner.settings.gama=1", "the model ppo has no setting 'gama'; it has hidden"),
        ("learner.settings.gamma=2", "ppo.gamma cannot be 2: "),
        ("learner.kind=dqn", "learner.kind is 'dqn', but must be one of ppo, iqn, random"),
        ("game=treasure", "There is no game 'treasure': known are treasurehunt, cleanup, tag"),
        ("game=nothing.py:Game", "The game's file nothing.py does not exist"),
    ],
)
def test_settings_that_are_wrong_are_one_sentence_and_leave_no_folder(tmp_path, setting, sentence):
    assert sentence in refusal(tmp_path, setting)


def test_wrong_rules_on_the_command_line_are_one_sentence_and_leave_no_folder(tmp_path):
    runs = tmp_path / "runs"
    words = ("train", "treasurehunt", *TINY, f"runs_folder={runs}", "rules.windw=4")
    assert_one_sentence(keisei(*words), "windw is not among the rules", "window")
    assert not runs.exists()


def test_a_folder_of_runs_that_was_there_before_stays(tmp_path):
    (tmp_path / "runs").mkdir()
    with pytest.raises(WorldError):
        begun(tmp_path / "runs", "rules.window=4")
    assert (tmp_path / "runs").is_dir()


@pytest.mark.parametrize(
    "setting",
    ["rules.height=8", "copies=5", "seed=2", "observe=together", "learner.kind=iqn", "game=tag"],
)
def test_a_resumed_run_keeps_what_decides_its_course(undisturbed, setting):
    _, run = undisturbed
    before = (run / "config.yaml").read_bytes()
    kept = setting.partition("=")[0].partition(".")[0]
    with pytest.raises(ValueError, match=f"a resumed run keeps its {kept}; start a new one"):
        resumed(run, setting)
    assert (run / "config.yaml").read_bytes() == before


def test_a_folder_that_is_no_run_is_not_resumed(tmp_path):
    with pytest.raises(ValueError, match=r"is not a run: it has no config\.yaml"):
        resumed(tmp_path)


def test_benches_of_shogi_refuse_a_world():
    said = command("bench", "collect", "treasurehunt")
    assert said.exit_code == 2
    assert said.stderr == "keisei: treasurehunt is a world, and this is for shogi\n"


def test_an_evaluation_of_shogi_refuses_the_run_of_a_world(undisturbed):
    said = command("evaluate", undisturbed[1])
    assert said.exit_code == 2
    assert said.stderr.startswith("keisei: ")


# A game of one's own


MY_GAME = '''
"""A corridor with a coin at its end."""
from dataclasses import dataclass
import numpy as np
from keisei.gridworld.action_spec import ActionSpec
from keisei.gridworld.agent import MovingAgent
from keisei.gridworld.entity import Empty, Entity
from keisei.gridworld.environment import Environment
from keisei.gridworld.observation_spec import ObservationSpec
from keisei.gridworld.world import World

class Coin(Entity):
    value, passable = 1.0, True

class Walker(MovingAgent):
    pass

class Corridor(Environment):
    @dataclass
    class Rules:
        length: int = 4

    def __init__(self, make_model, rules, *, copies, seed, observe):
        self.rules = rules
        world = World(1, rules.length, [Empty, Coin, Walker], copies=copies, seed=seed)
        super().__init__(world, make_model, max_turns=5, observe=observe, seed=seed)

    def setup_agents(self):
        sight = ObservationSpec(self.world, [Coin])
        return [Walker(sight, ActionSpec(["left", "right"]), self.new_model(sight, 2))]

    def populate_environment(self):
        self.world.place(Coin, self.world.cells_at(0, self.rules.length - 1))
        self.agents[0].put(self.world, self.world.cells_at(0, 0))

    def counts(self):
        return {"coins_left": float(self.world.count(Coin).mean())}
'''


@pytest.fixture
def my_game(tmp_path):
    (tmp_path / "my.py").write_text(MY_GAME)
    return tmp_path / "my.py"


def test_a_game_in_a_file_of_ones_own_is_trained(tmp_path, my_game):
    run = trained(tmp_path / "runs", "rules={length: 3}", "epochs=3", game=f"{my_game}:Corridor")
    assert logged_updates(run) == [1, 2, 3]
    lines = read_metrics(run / "metrics.jsonl")
    assert all(0 <= line["coins_left"] <= 1 for line in lines)
    assert all(line["reward"] == pytest.approx(1 - line["coins_left"]) for line in lines)
    resumed(run, "epochs=4")
    assert logged_updates(run) == [1, 2, 3, 4]


def test_what_is_wrong_with_a_game_of_ones_own_is_one_sentence(tmp_path, my_game):
    words = ("rules={}",)
    assert f"{my_game} has no game Coridor, which would be" in refusal(
        tmp_path, *words, game=f"{my_game}:Coridor"
    )
    assert "has no game Walker" in refusal(tmp_path, *words, game=f"{my_game}:Walker")
    my_game.write_text("import no_such_module_at_all")
    sentence = refusal(tmp_path, *words, game=f"{my_game}:Corridor")
    assert f"{my_game} cannot be run: ModuleNotFoundError: " in sentence
    (tmp_path / "notes.txt").write_text("no Python")
    sentence = refusal(tmp_path, *words, game=f"{tmp_path / 'notes.txt'}:Corridor")
    assert sentence == f"{tmp_path / 'notes.txt'} is not a Python file."


def test_a_game_without_rules_is_told_to_have_some(tmp_path, my_game):
    my_game.write_text(MY_GAME.replace("class Rules", "class Settings"))
    sentence = refusal(tmp_path, "rules={}", game=f"{my_game}:Corridor")
    assert sentence.endswith(
        "my.py:Corridor has no Rules, a dataclass of what can be set; write one."
    )


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("length: int = 4", "length: int"), (", copies, seed, observe)", ", copies, seed)")],
)
def test_a_game_that_cannot_be_made_from_settings_is_one_sentence(tmp_path, my_game, wrong, right):
    my_game.write_text(MY_GAME.replace(wrong, right))
    refusal(tmp_path, "rules={}", game=f"{my_game}:Corridor")


def test_a_game_whose_act_answers_the_wrong_shape_is_one_sentence(tmp_path, my_game):
    wrong = "class Walker(MovingAgent):\n    def act(self, world, action):\n        return 0.0"
    my_game.write_text(MY_GAME.replace("class Walker(MovingAgent):\n    pass", wrong))
    said = command("train", f"{my_game}:Corridor", f"runs_folder={tmp_path}", "epochs=2")
    assert said.exit_code in (1, 2)
    assert said.stderr.startswith("keisei: Walker.act must answer for each copy")


# The training itself


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
