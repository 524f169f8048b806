"""`keisei train` and `keisei evaluate` as people run them: real processes, kills and damage."""

import json
import re
import shutil
import signal
from pathlib import Path

import pytest
import torch

from keisei.shogi.notation.conversion import read_games
from keisei.training.checkpoint_format import load_checkpoint
from keisei.training.checkpoints import CheckpointStore
from keisei.training.run_folder import RunFolder
from keisei.training_session import TrainingSession
from tests.training.command_line import (
    STEPS_AN_UPDATE,
    TINY,
    UPDATES,
    assert_one_sentence,
    assert_same_end,
    evaluated_updates,
    keisei,
    logged_updates,
    newest,
    saved_updates,
    training,
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """(what the command said, the folder) of a run from beginning to end."""
    folder = tmp_path_factory.mktemp("undisturbed")
    said = keisei("train", *TINY, f"runs_folder={folder}", "name=tiny")
    assert said.returncode == 0, said.stderr
    return said, next(folder.iterdir())


@pytest.fixture
def copy(trained, tmp_path):
    """A copy of that run, to be changed."""
    return Path(shutil.copytree(trained[1], tmp_path / trained[1].name))


def test_a_run_leaves_config_metrics_checkpoints_and_games_behind(trained):
    said, run = trained
    assert re.fullmatch(r"tiny-\d{8}-\d{6}", run.name)
    assert {path.name for path in run.iterdir()} == {
        "config.yaml",
        "metrics.jsonl",
        "run.log",
        "tensorboard",
        "checkpoints",
        "games",
    }
    assert logged_updates(run) == list(range(1, UPDATES + 1))
    assert evaluated_updates(run) == [20, 40]
    assert saved_updates(run)[-3:] == [28, 35, 40]
    assert newest(run).state["games"] > 0
    for update in (20, 40):
        (game,) = read_games(run / "games" / f"update-{update:08}-random-1.kif")
        assert len(game.moves) > 8
    assert said.stderr == ""
    assert f"keisei evaluate {run} " in said.stdout
    assert f"keisei train --resume {run} training.total_steps={2 * 40 * 128}\n" in said.stdout


def test_evaluate_tells_people_and_programs_the_same(trained):
    _, run = trained
    words = ("evaluate", run, "--against", "random", "--games", 4, "--seed", 3)
    text, data = keisei(*words), keisei(*words, "--json")
    assert (text.returncode, data.returncode) == (0, 0)
    report = json.loads(data.stdout)
    assert report["player"] == str(run)
    assert (report["opponent"], report["games"]) == ("random", 4)
    assert report["wins"] + report["draws"] + report["losses"] == 4
    first = text.stdout.splitlines()[0]
    counts = [int(number) for number in re.findall(r"(\d+) (?:win|draw|loss)", first)]
    assert first.startswith("vs random: ")
    assert counts == [report["wins"], report["draws"], report["losses"]]
    assert report["elo"]["text"] in text.stdout


def test_a_finished_run_is_trained_on_with_more_steps(copy):
    more = UPDATES + 3
    said = keisei("train", "--resume", copy, f"training.total_steps={more * STEPS_AN_UPDATE}")
    assert (said.returncode, said.stderr) == (0, "")
    assert logged_updates(copy) == list(range(1, more + 1))
    assert saved_updates(copy)[-1] == more
    assert newest(copy).state["updates"] == more
    kept = RunFolder.open(copy).load_config([])
    assert kept.training.total_steps == more * STEPS_AN_UPDATE  # the next sitting knows


@pytest.mark.parametrize(
    "setting", ["model.width=12", "model.depth=2", "games.count=8", "games.opponent_share=0.5"]
)
def test_a_resumed_run_keeps_its_model_and_its_games(trained, setting):
    _, run = trained
    before = (run / "config.yaml").read_bytes()
    with pytest.raises(ValueError, match="keeps its model and games settings; start a new one"):
        TrainingSession.resume(run, [setting])
    assert (run / "config.yaml").read_bytes() == before


def test_a_resumed_run_keeps_its_optimizer(trained):
    _, run = trained
    with pytest.raises(ValueError, match=r"keeps its ppo\.optimizer; start a new one"):
        TrainingSession.resume(run, ["ppo.optimizer=adamw"])


def test_a_killed_run_resumes_to_the_same_end(trained, tmp_path):
    with training(tmp_path, until=10) as (process, run):
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert 7 <= saved_updates(run)[-1] <= logged_updates(run)[-1] <= UPDATES
    said = keisei("train", "--resume", run)
    assert (said.returncode, said.stderr) == (0, "")
    assert logged_updates(run) == list(range(1, UPDATES + 1))
    assert evaluated_updates(run) == [20, 40]
    assert_same_end(run, trained[1])


def test_ctrl_c_saves_and_says_how_to_resume_and_the_run_ends_the_same(trained, tmp_path):
    with training(tmp_path, until=3) as (process, run):
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "")
    assert "Stopping after this step" in output
    assert f"Saved. Resume with:  keisei train --resume {run}\n" in output
    stopped_after = logged_updates(run)[-1]
    assert 3 <= stopped_after < UPDATES
    assert saved_updates(run)[-1] == stopped_after
    said = keisei("train", "--resume", run)
    assert (said.returncode, said.stderr) == (0, "")
    assert logged_updates(run) == list(range(1, UPDATES + 1))
    assert_same_end(run, trained[1])


def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used(copy):
    damaged = copy / "checkpoints" / f"update-{UPDATES:08}"
    tensors = damaged / "tensors.safetensors"
    tensors.write_bytes(tensors.read_bytes()[:-100])
    said = keisei("train", "--resume", copy)
    assert (said.returncode, said.stderr) == (0, "")
    first = said.stdout.splitlines()[0]
    assert first.startswith(f"{damaged} is damaged: tensors.safetensors is truncated")
    assert first.endswith("; update-00000035 is used instead.")
    assert logged_updates(copy) == list(range(1, UPDATES + 1))
    assert load_checkpoint(damaged).update == UPDATES  # and written anew


def test_metrics_that_cannot_be_read_are_one_sentence(copy):
    lines = (copy / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    lines[5] = b"not a line of metrics\n"
    (copy / "metrics.jsonl").write_bytes(b"".join(lines))
    run = keisei("train", "--resume", copy)
    assert run.returncode in (1, 2)
    assert run.stderr == f"keisei: {copy / 'metrics.jsonl'}: line 6 is not a line of metrics\n"


def test_a_run_whose_network_is_nonsense_ends_with_one_sentence(copy):
    checkpoint = newest(copy)
    checkpoint.tensors["agent.model.stem.weight"].fill_(float("nan"))
    store = CheckpointStore(copy / "checkpoints", keep=100)
    store.save(checkpoint.update, checkpoint.tensors, checkpoint.state)
    said = keisei("train", "--resume", copy, f"training.total_steps={80 * STEPS_AN_UPDATE}")
    assert said.returncode not in (0, 130)
    assert said.stdout.count("policy_loss is nan and value_loss is nan") == 3
    assert "Traceback" not in said.stderr
    assert "policy_loss is nan" in said.stderr


def test_a_model_that_does_not_exist_is_one_sentence(tmp_path):
    assert_one_sentence(keisei("evaluate", tmp_path / "nothing"), tmp_path / "nothing")


def test_a_run_without_a_checkpoint_is_one_sentence(trained, tmp_path):
    shutil.copy(trained[1] / "config.yaml", tmp_path)
    assert_one_sentence(keisei("evaluate", tmp_path), tmp_path, "no checkpoint")


def test_a_damaged_model_is_one_sentence(copy):
    damaged = copy / "checkpoints" / f"update-{UPDATES:08}"
    with (damaged / "tensors.safetensors").open("r+b") as file:
        file.seek(-50, 2)
        file.write(b"\xff" * 8)
    assert_one_sentence(keisei("evaluate", damaged), damaged, "wrong SHA-256")


def test_a_wrong_key_is_one_sentence_and_leaves_no_folder(tmp_path):
    runs = tmp_path / "runs"
    run = keisei("train", *TINY, f"runs_folder={runs}", "training.total_stepz=5")
    assert_one_sentence(run, "training.total_stepz", "training.total_steps")
    assert not runs.exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_missing_is_one_sentence_and_leaves_no_folder(tmp_path):
    runs = tmp_path / "runs"
    assert_one_sentence(keisei("train", *TINY, f"runs_folder={runs}", "device=cuda"), "no GPU")
    assert not runs.exists()


def test_a_folder_that_is_no_run_is_not_resumed(tmp_path):
    assert_one_sentence(keisei("train", "--resume", tmp_path), tmp_path, "not a run")
    assert list(tmp_path.iterdir()) == []
