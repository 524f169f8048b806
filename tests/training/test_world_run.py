"""`keisei train` of a world as people run it: real processes, signals and files."""

import json
import re
import signal

import numpy as np
import pytest
from PIL import Image

from keisei.config_loading import load_any
from keisei.training.metrics import read_metrics
from keisei.training.run_folder import RunFolder
from tests.core.small import one_thread
from tests.training.command_line import (
    assert_same_end,
    keisei,
    logged_updates,
    newest,
    saved_updates,
)
from tests.training.tiny_world_runs import EPOCHS, TINY, command, resumed, trained, training


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with one_thread():
        yield


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
