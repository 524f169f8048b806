"""Runs with workers as people run them: stopped, resumed, and in one process for debugging."""

import io
import json
import re
import signal

import pytest

from keisei.config_loading import config_of
from keisei.training.metrics import read_metrics
from keisei.training.run_folder import RunFolder
from keisei.training_session import Switches, TrainingSession
from tests.core.small import bits, one_thread
from tests.training.command_line import (
    STEPS_AN_UPDATE,
    TINY,
    UPDATES,
    assert_same_end,
    evaluated_updates,
    keisei,
    logged_updates,
    newest,
    saved_updates,
    training,
)

PARALLEL = ["training.parallel.enabled=true", "training.parallel.num_workers=2"]
SYNC = [*PARALLEL, "training.parallel.mode=sync", "training.parallel.num_learners=2"]
ASYNC = [*PARALLEL, "training.parallel.mode=async", "training.parallel.num_learners=1"]
ALIKE = [
    "ppo.learning_rate=3e-4",
    "ppo.final_learning_rate=3e-4",
    "ppo.entropy=0.01",
    "ppo.final_entropy=0.01",
]
"""What makes an update the same however many are to come."""


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with one_thread():
        yield


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a sync run from beginning to end."""
    folder = tmp_path_factory.mktemp("undisturbed")
    said = keisei("train", *TINY, *SYNC, f"runs_folder={folder}", "--trace")
    assert (said.returncode, said.stderr) == (0, "")
    return next(folder.iterdir())


def begin(folder, *settings, updates=4):
    """The folder of a finished run, trained in this process."""
    words = [*TINY, f"runs_folder={folder}", f"training.total_steps={updates * STEPS_AN_UPDATE}"]
    assert TrainingSession.begin(config_of([*words, *settings])).run(io.StringIO())
    (run,) = folder.iterdir()
    return run


def resume(run, *settings, updates=8, switches=Switches()):  # noqa: B008 (it is frozen)
    total = f"training.total_steps={updates * STEPS_AN_UPDATE}"
    assert TrainingSession.resume(run, [total, *settings], switches).run(io.StringIO())


def test_the_processes_of_a_run_log_and_trace_what_they_do(trained):
    assert logged_updates(trained) == list(range(1, UPDATES + 1))
    lines = (trained / "run.log").read_text().splitlines()
    pattern = r"\S+ \S+ [A-Z]+ \[(main|worker \d), pid (\d+)\] .+"
    writers = {re.fullmatch(pattern, line).groups() for line in lines}
    assert sorted(who for who, _ in writers) == ["main", "worker 0", "worker 1"]
    events = json.loads((trained / "trace.json").read_text())
    names = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert {"learner", "worker 0", "worker 1"} <= names
    spans = {event["name"] for event in events if event["ph"] == "X"}
    assert {"collect", "update", "publish", "evaluate", "save", "playing"} <= spans


def test_the_metrics_tell_of_every_worker(trained):
    last = [entry for entry in read_metrics(trained / "metrics.jsonl") if "steps" in entry][-1]
    assert last["parallel/workers_playing"] == 2
    assert last["worker_0/steps"] == last["worker_1/steps"] == UPDATES * STEPS_AN_UPDATE / 2
    assert last["parallel/restarts"] == last["parallel/stale_steps"] == 0


def test_a_sync_run_that_was_stopped_ends_as_one_that_was_not(trained, tmp_path):
    with training(tmp_path, *SYNC, until=3) as (process, run):
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "")
    assert "Saved. Resume with:" in output
    assert 3 <= saved_updates(run)[-1] < UPDATES
    assert TrainingSession.resume(run, []).run(io.StringIO())
    assert logged_updates(run) == list(range(1, UPDATES + 1))
    assert evaluated_updates(run) == [20, 40]
    assert_same_end(run, trained)


def test_the_same_run_in_one_process_ends_the_same(trained, tmp_path):
    words = [*TINY, *SYNC, f"runs_folder={tmp_path}"]
    assert TrainingSession.begin(config_of(words), Switches(debug_serial=True)).run(io.StringIO())
    (run,) = tmp_path.iterdir()
    assert_same_end(run, trained)


def test_an_async_run_that_was_stopped_goes_on_and_counts_every_step_once(tmp_path):
    with training(tmp_path, *ASYNC, until=3) as (process, run):
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "")
    stopped = saved_updates(run)[-1]
    assert newest(run).state["steps"] == stopped * STEPS_AN_UPDATE
    assert TrainingSession.resume(run, []).run(io.StringIO())
    assert logged_updates(run) == list(range(1, UPDATES + 1))
    assert evaluated_updates(run) == [20, 40]
    assert newest(run).state["steps"] == UPDATES * STEPS_AN_UPDATE
    assert newest(run).state["games"] > 0


def test_two_sync_sittings_are_as_one(tmp_path):
    whole = begin(tmp_path / "whole", *SYNC, *ALIKE, updates=8)
    parts = begin(tmp_path / "parts", *SYNC, *ALIKE, updates=4)
    assert newest(parts).state["updates"] == 4
    resume(parts, updates=8)
    ours, theirs = newest(whole), newest(parts)
    assert bits(theirs.tensors) == bits(ours.tensors)
    evaluations = ("best_score", "evaluated_at")  # the first sitting ended with one
    for name in ours.state.keys() - set(evaluations):
        assert theirs.state[name] == ours.state[name]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (SYNC, ["training.parallel.enabled=false"]),
        (ASYNC, ["training.parallel.enabled=false"]),
        ([], SYNC),
        ([], ASYNC),
        (SYNC, ["training.parallel.mode=async"]),
        (ASYNC, ["training.parallel.mode=sync", "training.parallel.num_workers=4"]),
    ],
    ids=str,
)
def test_a_run_may_change_how_its_games_are_shared_out(before, after, tmp_path):
    run = begin(tmp_path, *before, updates=3)
    games = newest(run).tensors["games.ply"]
    assert len(games) == (32 if before == ASYNC else 16)  # an update of async mode is of half
    resume(run, *after, updates=6)
    assert logged_updates(run) == [1, 2, 3, 4, 5, 6]
    state = newest(run).state
    assert (state["updates"], state["steps"]) == (6, 6 * STEPS_AN_UPDATE)
    assert state["agent"]["version"] == 6


def test_a_run_goes_on_with_another_number_of_games_and_says_so(tmp_path, caplog):
    run = begin(tmp_path, *SYNC, updates=2)
    resume(run, "training.parallel.num_workers=3", updates=4)  # 6 games each
    assert "has 16 games, and these settings make 18: the others begin anew." in caplog.text
    checkpoint = newest(run)
    assert len(checkpoint.tensors["games.ply"]) == 18
    assert checkpoint.state["updates"] == 4
    resume(run, "training.parallel.games_per_worker=4", updates=6)
    assert len(newest(run).tensors["games.ply"]) == 12
    assert "has 18 games, and these settings make 12: the others are given up." in caplog.text


def test_numbers_that_were_found_are_kept_for_the_next_sitting(tmp_path):
    auto = ["training.parallel.num_workers=auto", "training.parallel.num_learners=auto"]
    run = begin(tmp_path, *PARALLEL, *auto, updates=2)
    found = RunFolder.open(run).load_config([]).training.parallel
    assert isinstance(found.num_workers, int)
    assert isinstance(found.num_learners, int)
    resume(run, updates=3)
    assert RunFolder.open(run).load_config([]).training.parallel == found
