"""`keisei train` with workers and helpers, stopped in every way: nothing stays, all is resumed."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

import psutil
import pytest

from keisei.training.checkpoints import CheckpointStore
from keisei.training.metrics import read_metrics
from keisei.training.run_folder import RunFolder
from keisei.training.trainer import Trainer
from keisei.training_session import TrainingSession
from tests.core.small import bits, one_thread
from tests.training.parallel.conftest import names_in_dev_shm

KEISEI = [Path(sys.executable).parent / "keisei", "train"]
ROOT = Path(__file__).parents[3]
STEPS_AN_UPDATE = 8 * 4
TINY = [
    "model.depth=0",
    "model.width=4",
    "model.value_width=4",
    "games.count=8",
    "games.max_moves=30",
    "games.opponent_share=0.25",
    "ppo.minibatch=16",
    "training.rollout_length=4",
    "training.threads=1",
    "training.parallel.enabled=true",
    "training.parallel.num_workers=2",
    "training.parallel.num_learners=2",
    "checkpoints.interval=5",
    "evaluation.interval=1000",
    "evaluation.final_games=2",
    "evaluation.opponents=[random]",
]
FAILING = """
from keisei.cli import main
from keisei.training.parallel.parallel_manager import ParallelManager
from tests.training.parallel.faulty_workers import work_for_nine_plies
if __name__ == "__main__":
    ParallelManager.__init__.__kwdefaults__["worker_main"] = work_for_nine_plies
    main()
"""


class Training:
    """A run of `keisei train` in a session of its own, as a terminal gives it."""

    def __init__(self, command, folder, temporary):
        self.folder = folder
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "TMPDIR": temporary, "PYTHONPATH": str(ROOT)},
        )

    @property
    def run(self):
        return next(self.folder.iterdir())

    def members(self):
        """All its processes that live, by what they are."""
        found = {"main": [], "server": [], "tracker": [], "child": []}
        for process in psutil.process_iter(["pid", "ppid", "cmdline", "status"]):
            if _session_of(process.pid) == self.process.pid and process.info["cmdline"]:
                found[_role_of(process, self.process.pid)].append(process.pid)
        return found

    def workers(self):
        """Processes that play; helpers, which learn, are not as nice."""
        return [pid for pid in self.members()["child"] if psutil.Process(pid).nice() > 0]

    def wait_until(self, condition):
        deadline = time.monotonic() + 60
        while not condition():
            assert self.process.poll() is None, self.process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def logged_updates(self):
        metrics = list(self.folder.glob("*/metrics.jsonl"))
        return metrics[0].read_bytes().count(b'"steps"') if metrics else 0

    def wait_for_updates(self, updates):
        self.wait_until(lambda: self.logged_updates() >= updates)

    def wait_for_words(self, words):
        line = ""
        while words not in line:
            line = self.process.stdout.readline()
            assert line, self.process.stderr.read()

    def press_ctrl_c(self):
        os.killpg(self.process.pid, signal.SIGINT)

    def end(self):
        """(exit code, what it said) when it has ended."""
        output, errors = self.process.communicate(timeout=60)
        assert errors == ""
        return self.process.returncode, output


def _session_of(pid):
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def _role_of(process, main):
    command = " ".join(process.info["cmdline"])
    if process.pid == main:
        return "main"
    if "resource_tracker" in command:
        return "tracker"
    return "server" if process.info["ppid"] in (main, 1) else "child"


@contextmanager
def training(folder, *settings, updates=100_000, command=KEISEI):
    """A run that leaves no process and no shared memory behind, 5 seconds after its end at most."""
    before = names_in_dev_shm()
    total = f"training.total_steps={updates * STEPS_AN_UPDATE}"
    with tempfile.TemporaryDirectory(prefix="keisei-") as temporary:
        run = Training(
            [*command, *TINY, *settings, total, f"runs_folder={folder}"], folder, temporary
        )
        try:
            yield run
            run.process.wait(60)
            deadline = time.monotonic() + 5
            while any(run.members().values()):
                assert time.monotonic() < deadline, run.members()
                time.sleep(0.05)
            assert names_in_dev_shm() <= before
        finally:
            for pids in run.members().values():
                for pid in pids:
                    os.kill(pid, signal.SIGKILL)
            run.process.communicate()


def mode(name):
    return f"training.parallel.mode={name}"


def updates_of(run):
    """(numbers of the logged ones, number of the newest saved one) of a run."""
    entries = [entry for entry in read_metrics(run / "metrics.jsonl") if "steps" in entry]
    for entry in entries:
        assert entry["steps"] == entry["update"] * STEPS_AN_UPDATE
    checkpoint, damaged = CheckpointStore(run / "checkpoints", keep=1).newest()
    assert damaged == []
    return [entry["update"] for entry in entries], checkpoint.update


def assert_learned_what_one_process_learns(run):
    """That the end of a sync run is that of the same run in one process, bit for bit."""
    checkpoint, _ = CheckpointStore(run / "checkpoints", keep=1).newest()
    with one_thread():
        trainer = Trainer(RunFolder.open(run).load_config([]), debug_serial=True)
        while trainer.updates < checkpoint.update:
            trainer.collect()
            trainer.perform_ppo_update()
        expected, found = bits(trainer.state()[0]), bits(checkpoint.tensors)
    assert [name for name in expected if expected[name] != found[name]] == []


def test_sigterm_saves_and_ends_everything_even_after_the_death_of_the_server(tmp_path):
    with training(tmp_path, mode("sync")) as run:
        run.wait_for_updates(3)
        members = run.members()
        assert {role: len(pids) for role, pids in members.items()} == {
            "main": 1,
            "server": 1,
            "tracker": 1,
            "child": 3,
        }
        os.kill(members["server"][0], signal.SIGKILL)
        run.wait_until(lambda: run.members()["server"] not in ([], members["server"]))
        run.wait_for_updates(run.logged_updates() + 5)
        run.process.send_signal(signal.SIGTERM)
        code, output = run.end()
    assert code == 130
    assert "replaced, its games go on" in output
    assert f"Saved. Resume with:  keisei train --resume {run.run}" in output
    logged, saved = updates_of(run.run)
    assert logged == list(range(1, saved + 1))
    assert_learned_what_one_process_learns(run.run)


def test_ctrl_c_saves_and_ends_everything(tmp_path):
    with training(tmp_path, mode("async")) as run:
        run.wait_for_updates(3)
        run.press_ctrl_c()
        code, output = run.end()
    logged, saved = updates_of(run.run)
    assert code == 130
    assert "Stopping after this step" in output
    assert logged == list(range(1, saved + 1))


def test_ctrl_c_does_not_end_a_server_that_is_still_loading(tmp_path):
    with training(tmp_path, mode("sync"), "training.parallel.num_learners=1") as run:
        run.wait_until(lambda: run.members()["server"])
        run.press_ctrl_c()
        code, output = run.end()
    assert code == 130
    assert "could not be started" not in output
    assert updates_of(run.run) == ([1], 1)


def test_ctrl_c_twice_ends_everything_at_once_even_a_stopped_worker(tmp_path):
    with training(tmp_path, mode("sync")) as run:
        run.wait_for_updates(3)
        os.kill(run.workers()[0], signal.SIGSTOP)  # the step cannot be finished
        run.press_ctrl_c()
        run.wait_for_words("Stopping after this step")
        pressed = time.monotonic()
        run.press_ctrl_c()
        code, _ = run.end()
        assert time.monotonic() - pressed < 10
    assert code == 130


@pytest.mark.parametrize("name", ["sync", "async"])
def test_a_killed_run_leaves_nothing_and_is_resumed(name, tmp_path):
    with training(tmp_path, mode(name), updates=40) as run:
        run.wait_for_updates(7)
        if name == "async":
            os.kill(run.workers()[0], signal.SIGSTOP)
        run.process.kill()
        assert run.process.wait() == -signal.SIGKILL
    _, saved = updates_of(run.run)
    assert 5 <= saved < 40
    with one_thread():
        assert TrainingSession.resume(run.run, []).run(StringIO())
    assert updates_of(run.run) == (list(range(1, 41)), 40)
    if name == "sync":
        assert_learned_what_one_process_learns(run.run)


def test_a_run_that_may_not_go_on_without_workers_saves_and_says_why(tmp_path):
    script = tmp_path / "failing.py"
    script.write_text(FAILING)
    settings = ["training.parallel.max_restarts=0", "training.parallel.fallback_to_serial=false"]
    command = [sys.executable, script, "train"]
    with training(tmp_path / "runs", mode("sync"), *settings, command=command) as run:
        _, errors = run.process.communicate(timeout=60)
    assert run.process.returncode == 1
    assert errors.startswith("keisei: worker ")
    assert ": given up after 1 failure, the first:\nTraceback" in errors
    assert "RuntimeError: broken on purpose" in errors
    assert updates_of(run.run) == ([1, 2], 2)
