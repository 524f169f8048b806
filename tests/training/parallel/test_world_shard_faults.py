"""Workers of a world that are killed, hang or fail: the run comes to the same, or tells why not."""

import os
import random
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from keisei.gridworld.environment import Environment
from keisei.training.parallel.communication import Message, WorkerLink
from keisei.training.parallel.double_buffer import DoubleBuffer
from keisei.training.parallel.worker_supervisor import WorkersLostError
from keisei.training.parallel.world_rollout import WorldRollout
from keisei.training.parallel.world_worker import _WorldWorker, work
from tests.core.small import one_thread
from tests.training.parallel.conftest import wait_until
from tests.training.parallel.faulty_workers import ALWAYS, OLD_MESSAGES, Fault, fail, kill, stop
from tests.training.parallel.sharded_worlds import (
    Run,
    outcome_in_one_process,
    supervised,
    world_config,
)

pytestmark = pytest.mark.usefixtures("nothing_stays_behind")

PLAYING = Fault(Environment, "take_turn", call=14, work=work)
MOMENTS = {
    "at start-up": Fault(_WorldWorker, "__init__", work=work),
    "before it is ready": Fault(_WorldWorker, "run", work=work),
    "copying weights": Fault(DoubleBuffer, "read", call=2, after=True, work=work),
    "holding a slot": Fault(WorldRollout, "begin", call=2, after=True, work=work),
    "playing": PLAYING,
    "handing over": Fault(WorldRollout, "put_turns", call=4, work=work),
    "before the commit": Fault(WorldRollout, "finish", call=2, after=True, work=work),
    "after the commit": Fault(WorkerLink, "commit", call=2, after=True, work=work),
}


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with one_thread():
        yield


@pytest.fixture(scope="module")
def expected(_one_thread):
    return {kind: outcome_in_one_process(world_config(kind)) for kind in ("ppo", "iqn")}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_kill_changes_nothing(moment, expected):
    with Run(worker_main=MOMENTS[moment]) as run:
        assert run.epochs(4).outcome() == expected["ppo"]
        assert run.game.get_statistics()["restarts"] == 1
    (news,) = run.news
    assert "was killed by SIGKILL: replaced, its games go on" in news


def test_a_kill_changes_nothing_for_agents_that_explore(expected):
    with Run(world_config("iqn"), worker_main=PLAYING) as run:
        assert run.epochs(4).outcome() == expected["iqn"]
        assert run.game.get_statistics()["restarts"] == 1


def test_all_killed_at_once_change_nothing(expected):
    with Run(worker_main=replace(PLAYING, workers=range(3))) as run:
        assert run.epochs(4).outcome() == expected["ppo"]
        assert run.game.get_statistics()["restarts"] == 3


def test_a_kill_changes_nothing_where_epochs_are_begun_ahead():
    beside = {"enabled": True, "async_learning": True, "deterministic": True}
    config = world_config(parallel=beside)
    expected = outcome_in_one_process(config, epochs=6)
    with Run(config, worker_main=PLAYING).epochs(3) as run:
        for worker in run.game.workers.each:  # they play, or have played, what is asked for next
            os.kill(worker.pid, signal.SIGKILL)
        assert run.epochs(3).outcome() == expected
        assert run.game.get_statistics()["restarts"] == 4


def test_kills_between_epochs_change_nothing(expected):
    with Run().epochs(2) as run:
        for worker in run.game.workers.each:
            os.kill(worker.pid, signal.SIGKILL)
        assert run.epochs(2).outcome() == expected["ppo"]
        assert run.game.get_statistics()["restarts"] == 3


def test_kills_at_random_times_change_nothing():
    with Run(supervision=supervised(max_restarts=1000)) as run:
        workers, enough = run.game.workers.each, threading.Event()
        killer = threading.Thread(target=kill_at_random_times, args=(workers, enough))
        killer.start()
        try:
            while sum(worker.restarts for worker in workers) < 5:
                run.epochs(1)
        finally:
            enough.set()
            killer.join()
        found = run.epochs(1).outcome()
        assert found == outcome_in_one_process(epochs=run.game.epoch)


def kill_at_random_times(workers, enough):
    moments, longest = random.Random(5), 0.3
    while not enough.wait(moments.uniform(0.0, longest)):
        longest *= 1.1  # on a busy machine a worker may need longer than that to start
        pid = moments.choice(workers).pid
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_a_worker_that_hangs_is_replaced(expected):
    hangs = replace(PLAYING, what=stop)
    with Run(worker_main=hangs, supervision=supervised(worker_timeout=0.7)) as run:
        assert run.epochs(4).outcome() == expected["ppo"]
    (news,) = run.news
    assert "said nothing for" in news


def test_a_rollout_that_is_not_whole_is_refused(expected):
    with Run(worker_main=commit_what_is_not_whole) as run:
        assert run.epochs(4).outcome() == expected["ppo"]
    (news,) = run.news
    assert "sent a torn rollout" in news


def commit_what_is_not_whole(setup):
    if (setup.number, setup.epoch) == (0, 1):
        WorldRollout.finish = lambda *_: None
    work(setup)


def test_what_an_earlier_incarnation_says_is_refused(expected):
    with Run(worker_main=speak_for_the_dead) as run:
        assert run.epochs(4).outcome() == expected["ppo"]
        assert run.game.get_statistics()["refused_messages"] == len(OLD_MESSAGES)


def speak_for_the_dead(setup):
    if (setup.number, setup.epoch) == (0, 1):
        kill()
    if (setup.number, setup.epoch) == (0, 2):
        for kind in OLD_MESSAGES:
            setup.link.send(Message(kind, epoch=1, payload=b"of another life"))
    work(setup)


def test_one_that_fails_again_and_again_is_given_up_with_its_first_traceback():
    fails = replace(PLAYING, what=fail, epochs=ALWAYS, call=1)
    settings = supervised(max_restarts=2)
    with Run(worker_main=fails, supervision=settings) as run:
        before = run.outcome()
        with pytest.raises(WorkersLostError, match=r"(?s)3 failures in a row.*broken on purpose"):
            run.epochs(1)
        assert run.outcome() == before
        assert run.game.get_statistics()["workers"][0]["given_up"]


GAME = """
from keisei.gridworld.examples.treasurehunt import Treasurehunt

class Trap(Treasurehunt):
    def start_epoch_action(self, epoch):
        if epoch == 1:
            raise ArithmeticError("the trap of epoch 1")
"""


def test_an_error_in_the_world_of_a_file_travels_home(tmp_path, monkeypatch):
    (tmp_path / "trap.py").write_text(GAME)
    monkeypatch.chdir(tmp_path)
    config = world_config(game="trap.py:Trap")
    with Run(config, shards=2, supervision=supervised(max_restarts=0)) as run:
        run.epochs(1)
        for _ in range(2):  # it is tried again, with new workers, and tells again
            with pytest.raises(WorkersLostError, match=r"(?s)in start_epoch_action.*of epoch 1"):
                run.epochs(1)
        assert run.game.epoch == 1


MAIN = """
import os, signal
from tests.training.parallel.sharded_worlds import Run

if __name__ == "__main__":
    run = Run(shards=2).epochs(1)
    print(*(worker.pid for worker in run.game.workers.each), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_workers_end_when_the_main_process_is_killed(tmp_path):
    script = tmp_path / "main.py"
    script.write_text(MAIN)
    root = Path(__file__).parents[3]
    main = subprocess.run(
        [sys.executable, script],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert main.returncode == -signal.SIGKILL
    pids = [int(word) for word in main.stdout.split()]
    assert len(pids) == 2
    wait_until(lambda: not any(psutil.pid_exists(pid) for pid in pids), seconds=5)
