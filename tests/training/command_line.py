"""`keisei` as a process of its own, and what a tiny run of it leaves behind."""

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from keisei.training.checkpoints import CheckpointStore
from keisei.training.metrics import read_metrics
from tests.core.small import bits

KEISEI = Path(sys.executable).parent / "keisei"
UPDATES = 40
STEPS_AN_UPDATE = 16 * 8
TINY = [
    "model.depth=1",
    "model.width=8",
    "games.count=16",
    "games.random_start_share=1.0",
    "games.random_start_plies=400",
    "games.rewind_share=0.5",
    "games.opponent_share=0.25",
    "games.opponent_interval=3",
    "ppo.minibatch=64",
    "training.rollout_length=8",
    "training.threads=1",
    "training.parallel.enabled=false",
    f"training.total_steps={UPDATES * STEPS_AN_UPDATE}",
    "checkpoints.interval=7",
    "evaluation.interval=20",
    "evaluation.games=2",
    "evaluation.final_games=2",
    "evaluation.opponents=[random]",
    "logging.sample_games=1",
]


def keisei(*arguments):
    return subprocess.run(
        [KEISEI, *map(str, arguments)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},  # a second one is slower, see `one_thread`
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def assert_one_sentence(run, *words):
    assert run.returncode == 2
    assert run.stdout == ""
    assert run.stderr.startswith("keisei: ")
    assert run.stderr.count("\n") == 1
    for word in words:
        assert str(word) in run.stderr


def logged_updates(run):
    """The numbers of the updates in metrics.jsonl, without the lines of evaluations."""
    return [entry["update"] for entry in read_metrics(run / "metrics.jsonl") if "steps" in entry]


def evaluated_updates(run):
    path = run / "metrics.jsonl"
    return [entry["update"] for entry in read_metrics(path) if "steps" not in entry]


def saved_updates(run):
    store = CheckpointStore(run / "checkpoints", keep=1)
    return [int(path.name.removeprefix("update-")) for path in store.paths()]


def newest(run):
    checkpoint, damaged = CheckpointStore(run / "checkpoints", keep=1).newest()
    assert damaged == []
    return checkpoint


def assert_same_end(run, other):
    """That the last checkpoints of two runs are the same bit for bit."""
    one, two = newest(run), newest(other)
    assert two.state == one.state
    ours, theirs = bits(one.tensors), bits(two.tensors)
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if ours[name] != theirs[name]] == []


def wait_until(condition, process):
    """Wait for something that a process does while it lives."""
    deadline = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.005)


def training(folder, *settings, until):
    """A process of `keisei train` that has logged `until` updates, and the folder of its run."""
    return training_process(folder, *TINY, *settings, until=until)


@contextmanager
def training_process(folder, *words, until, environment=None):
    """A process of `keisei train` with these words; `until` lines of steps have been logged."""
    process = subprocess.Popen(
        [KEISEI, "train", *words, f"runs_folder={folder}"],
        env=environment,
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
