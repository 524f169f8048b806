"""What a run writes about itself: real files, real kills, Weights & Biases offline for real."""

import json
import math
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from keisei.config_schema import LoggingConfig
from keisei.training.metrics import MetricsError, MetricsLog, read_metrics

OFF = LoggingConfig()

# Runs in a process of its own, because Weights & Biases keeps state in its process.
CHILD = """
import os, signal, sys
from pathlib import Path
from keisei.config_schema import LoggingConfig
from keisei.training.metrics import MetricsLog
def open_log(wandb="off", after_update=None):
    return MetricsLog(Path(sys.argv[1]), LoggingConfig(wandb=wandb), run_name="a run",
                      settings={"seed": 1}, after_update=after_update)
"""


def child(folder, body):
    """Run `body` after CHILD with a home of its own and no login."""
    home = folder.parent / "home"
    home.mkdir(exist_ok=True)
    clean = {key: value for key, value in os.environ.items() if not key.startswith("WANDB_")}
    return subprocess.run(
        [sys.executable, "-c", CHILD + body, str(folder)],
        env={**clean, "HOME": str(home), "NETRC": str(home / "netrc")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def open_log(folder, after_update=None):
    return MetricsLog(folder, OFF, run_name="a run", settings={}, after_update=after_update)


def write_updates(folder, updates, after_update=None, **figures):
    with open_log(folder, after_update) as log:
        for update in updates:
            log.log(update, {"loss/policy": update / 10, **figures})


def tensorboard(folder, name):
    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return [(event.step, round(event.value, 4)) for event in events.Scalars(name)]


def updates_in(folder):
    return [entry["update"] for entry in read_metrics(folder / "metrics.jsonl")]


def refuse_constants(text):
    raise AssertionError(f"{text} is not JSON")


def test_every_update_is_a_line_of_strict_json_as_soon_as_it_is_logged(tmp_path):
    log = open_log(tmp_path)
    log.log(1, {"loss": 0.5, "games": 12, "kl": math.nan, "ratio": -math.inf})
    log.log(2, {"loss": np.float32(0.25), "games": np.int64(13)})
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    first, second = (json.loads(line, parse_constant=refuse_constants) for line in lines)
    assert list(first) == ["update", "time", "loss", "games", "kl", "ratio"]
    assert first["time"] == pytest.approx(second["time"], abs=10)
    del first["time"], second["time"]
    assert first == {"update": 1, "loss": 0.5, "games": 12, "kl": None, "ratio": None}
    assert second == {"update": 2, "loss": 0.25, "games": 13}
    log.close()
    log.close()


def test_tensorboard_has_the_same_figures(tmp_path):
    write_updates(tmp_path, [1, 2, 3], kl=math.nan)
    assert tensorboard(tmp_path, "loss/policy") == [(1, 0.1), (2, 0.2), (3, 0.3)]
    assert len(tensorboard(tmp_path, "kl")) == 3


def test_nothing_that_was_logged_is_lost_by_a_kill(tmp_path):
    run = child(
        tmp_path / "run",
        "log = open_log()\n"
        "for update in (1, 2, 3): log.log(update, {'loss': update})\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n",
    )
    assert run.returncode == -signal.SIGKILL
    assert updates_in(tmp_path / "run") == [1, 2, 3]
    assert tensorboard(tmp_path / "run", "loss") == [(1, 1), (2, 2), (3, 3)]


def test_resuming_cuts_off_what_came_after_the_checkpoint(tmp_path):
    path = tmp_path / "metrics.jsonl"
    write_updates(tmp_path, [1, 2, 3, 4, 5])
    before = path.read_bytes().splitlines()
    with path.open("ab") as file:
        file.write(b'{"update": 6, "ti')
    write_updates(tmp_path, [4, 5], after_update=3, resumed=1)
    after = path.read_bytes().splitlines()
    assert updates_in(tmp_path) == [1, 2, 3, 4, 5]
    assert after[:3] == before[:3]
    assert all(json.loads(line)["resumed"] == 1 for line in after[3:])
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["metrics.jsonl", "tensorboard"]


def test_tensorboard_forgets_what_came_after_the_checkpoint(tmp_path):
    with open_log(tmp_path) as log:
        for update in (1, 2, 3, 4, 5, 6):
            log.log(update, {"loss": 1})
    with open_log(tmp_path, after_update=3) as log:
        for update in (4, 5):
            log.log(update, {"loss": 2})
    expected = [(1, 1), (2, 1), (3, 1), (4, 2), (5, 2)]
    assert tensorboard(tmp_path, "loss") == expected


@pytest.mark.parametrize("tail", [b"", b"{", b'{"update": 3, "loss": 0.', b"\0\0\0", b"null"])
def test_a_torn_last_line_is_not_read_and_goes_when_the_run_resumes(tmp_path, tail):
    path = tmp_path / "metrics.jsonl"
    write_updates(tmp_path, [1, 2])
    whole = path.read_bytes()
    path.write_bytes(whole + tail)
    assert updates_in(tmp_path) == [1, 2]
    open_log(tmp_path, after_update=9).close()
    assert path.read_bytes() == whole


def test_a_last_line_that_lacks_only_its_end_is_kept(tmp_path):
    path = tmp_path / "metrics.jsonl"
    write_updates(tmp_path, [1, 2])
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    write_updates(tmp_path, [3], after_update=2)
    assert updates_in(tmp_path) == [1, 2, 3]


def test_a_broken_line_in_the_middle_is_named(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"update": 1}\n{"upd\n{"update": 3}\n')
    with pytest.raises(MetricsError, match=r"metrics\.jsonl: line 2 is not a line of metrics"):
        read_metrics(path)
    with pytest.raises(MetricsError, match="line 2"):
        open_log(tmp_path, after_update=1)
    assert path.read_text().count("\n") == 3


def test_resuming_before_anything_was_logged_starts_a_file(tmp_path):
    write_updates(tmp_path / "new" / "run", [1], after_update=0)
    assert updates_in(tmp_path / "new" / "run") == [1]


def test_a_new_run_does_not_write_into_the_figures_of_another(tmp_path):
    write_updates(tmp_path, [1])
    with pytest.raises(MetricsError, match="resume that run or take another folder"):
        open_log(tmp_path)
    assert updates_in(tmp_path) == [1]


def test_weights_and_biases_offline_writes_into_the_run_folder_and_says_nothing(tmp_path):
    folder = tmp_path / "run"
    run = child(
        folder,
        "with open_log('offline') as log: log.log(1, {'loss/policy': 0.5})\n"
        "with open_log('offline', after_update=1) as log: log.log(2, {'loss/policy': 0.4})\n",
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    identity = (folder / "wandb_id.txt").read_text()
    records = sorted(folder.glob(f"wandb/offline-run-*-{identity}/run-{identity}.wandb"))
    assert 1 <= len(records) <= 2  # two sittings within one second share a folder
    data = b"".join(record.read_bytes() for record in records)
    assert b"loss/policy" in data
    assert b"a run" in data
    assert updates_in(folder) == [1, 2]


def test_weights_and_biases_without_a_login_is_one_sentence_and_changes_nothing(tmp_path):
    write_updates(tmp_path / "run", [1, 2])
    run = child(
        tmp_path / "run",
        "from keisei.training.metrics import MetricsError\n"
        "try: open_log('online', after_update=1)\n"
        "except MetricsError as error: print(error)\n",
    )
    assert run.stdout == (
        "not logged in to Weights & Biases: run `wandb login`, or set logging.wandb to offline "
        "or off\n"
    )
    assert run.stderr == ""
    assert updates_in(tmp_path / "run") == [1, 2]


def test_weights_and_biases_that_is_not_installed_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(MetricsError, match="pip install wandb"):
        MetricsLog(tmp_path, LoggingConfig(wandb="offline"), run_name="a run", settings={})


def test_what_weights_and_biases_refuses_is_one_sentence(tmp_path):
    run = child(
        tmp_path / "run",
        "from keisei.training.metrics import MetricsError\n"
        "config = LoggingConfig(wandb='offline', wandb_project='a/b')\n"
        "try: MetricsLog(Path(sys.argv[1]), config, run_name='a run', settings={})\n"
        "except MetricsError as error: print(error)\n",
    )
    assert run.stdout.startswith("Weights & Biases does not start (Invalid project name 'a/b'")
    assert run.stdout.count("\n") == 1
    assert run.stderr == ""
