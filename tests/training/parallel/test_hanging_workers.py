"""Workers that fall silent are replaced after their time, and not before; nothing changes."""

import os
import re
import signal
import threading
import time

import pytest

from keisei.training.parallel import worker_supervisor
from keisei.training.parallel.self_play import SelfPlay
from keisei.training.parallel.worker_process import _Worker
from tests.core.small import one_thread
from tests.training.parallel.collecting import Learner, new_version, parallel_config
from tests.training.parallel.faulty_workers import Fault, HalfAMessage, stop
from tests.training.parallel.surviving import (
    assert_all_accounted_for,
    survive_in_async_mode,
    survive_in_sync_mode,
)

pytestmark = pytest.mark.usefixtures("nothing_stays_behind")

STEPPING = Fault(SelfPlay, "_play_one_step", what=stop, call=9)
THROUGH_PIPES = {"use_shared_memory": False}
SILENCE_S = 3.0
"""Long enough for workers that are well, on a machine that is busy with other tests too."""
LONGER_SILENCE_S = 8.0
"""For workers of async mode, which run when nobody else does."""


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with one_thread():
        yield


def test_a_silent_worker_is_replaced_and_changes_nothing():
    (news,) = survive_in_sync_mode(STEPPING, worker_timeout=SILENCE_S)
    assert re.fullmatch(r"worker 0 \(pid \d+\) said nothing for \d s: replaced, .*", news)


def test_a_silent_worker_is_replaced_while_others_play_and_the_learner_learns():
    (news,) = survive_in_async_mode(
        STEPPING, worker_timeout=LONGER_SILENCE_S, seconds_to_learn=0.03
    )
    assert "said nothing" in news


@pytest.mark.parametrize("settings", [{}, THROUGH_PIPES], ids=str)
def test_a_worker_that_stops_within_a_message_is_replaced(settings):
    (news,) = survive_in_sync_mode(HalfAMessage(stop), worker_timeout=SILENCE_S, **settings)
    assert "hung and was killed: replaced" in news


def test_a_worker_that_is_silent_from_the_start_is_replaced(monkeypatch):
    monkeypatch.setattr(worker_supervisor, "STARTUP_SECONDS", 5.0)
    (news,) = survive_in_sync_mode(Fault(_Worker, "__init__", what=stop))
    assert "said nothing" in news


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_worker_that_stops_for_a_while_goes_on(mode):
    with Learner(parallel_config(mode=mode)).parallel() as learner:
        learner.collect()
        pids = [worker.pid for worker in learner.collector.workers]
        before = learner.collector.workers[0].steps
        os.kill(pids[0], signal.SIGSTOP)
        threading.Timer(0.7, os.kill, (pids[0], signal.SIGCONT)).start()
        collections = 1
        deadline = time.monotonic() + 1.0
        while time.monotonic() < deadline or learner.collector.workers[0].steps == before:
            learner.collect()
            new_version(learner)
            collections += 1
        assert [worker.pid for worker in learner.collector.workers] == pids
        assert learner.news == []
        assert_all_accounted_for(learner, collections)


def test_workers_that_were_stopped_together_with_the_main_process_go_on():
    with Learner(parallel_config(worker_timeout=SILENCE_S)).parallel() as learner:
        learner.collect()
        pids = [worker.pid for worker in learner.collector.workers]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(SILENCE_S + 0.5)  # as Ctrl-Z would make this process do
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        learner.collect()
        assert learner.news == []


def test_a_replaced_worker_cannot_be_woken():
    with Learner(parallel_config(worker_timeout=SILENCE_S)).parallel() as learner:
        learner.collect()
        pid = learner.collector.workers[0].pid
        os.kill(pid, signal.SIGSTOP)
        learner.collect()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
        learner.collect()
        assert_all_accounted_for(learner, 3)


def test_a_silent_worker_does_not_hold_up_the_end():
    with Learner(parallel_config(mode="async")).parallel() as learner:
        learner.collect()
        os.kill(learner.collector.workers[0].pid, signal.SIGSTOP)
        begun = time.monotonic()
    assert time.monotonic() - begun < 30  # and not the 60 s that it might be silent for
