"""Errors inside workers: told with their traceback, tried again later and later, then given up."""

import os
import signal
import time
from dataclasses import replace
from itertools import pairwise

import pytest

from keisei.training.parallel.self_play import SelfPlay
from keisei.training.parallel.worker_process import _Worker
from keisei.training.parallel.worker_supervisor import WorkersLostError
from tests.core.small import one_thread
from tests.training.parallel.collecting import (
    GAMES,
    STEPS,
    Learner,
    new_version,
    parallel_config,
)
from tests.training.parallel.faulty_workers import (
    ALWAYS,
    Fault,
    fail,
    kill,
    work_for_nine_plies,
)
from tests.training.parallel.surviving import (
    assert_all_accounted_for,
    collect_in_both_ways,
    survive_in_async_mode,
    survive_in_sync_mode,
)
from tests.training.small_run import STEPS_AN_UPDATE, Run

pytestmark = pytest.mark.usefixtures("nothing_stays_behind")

IN_INIT = Fault(_Worker, "__init__", what=fail)
IN_STEP = Fault(SelfPlay, "_play_one_step", what=fail, call=9)
IN_RESET = Fault(SelfPlay, "reset", what=fail)
SOON_GIVEN_UP = {"max_restarts": 2, "restart_backoff": 0.05}


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with one_thread():
        yield


@pytest.mark.parametrize("fault", [IN_INIT, IN_STEP], ids=str)
@pytest.mark.parametrize("use_shared_memory", [True, False])
def test_an_error_that_happens_once_is_logged_and_changes_nothing(fault, use_shared_memory, caplog):
    (news,) = survive_in_sync_mode(fault, use_shared_memory=use_shared_memory)
    assert "ended with exit code 1: replaced, its games go on" in news
    assert "RuntimeError: broken on purpose" in caplog.text
    assert "in faulty" in caplog.text


def test_an_error_that_happens_once_loses_and_doubles_nothing_in_async_mode():
    survive_in_async_mode(IN_STEP)


def test_games_are_reset_even_if_that_fails_at_first():
    config = parallel_config()
    with (
        Learner(config).serial() as serial,
        Learner(config).parallel(worker_main=IN_RESET) as parallel,
    ):
        collect_in_both_ways(serial, parallel, 2)
        for worker in parallel.collector.workers:
            worker.reset(parallel.collector._running.communicator)
        for group in serial.collector.groups:
            group.reset()
        collect_in_both_ways(serial, parallel, 2)
        assert parallel.collector.get_statistics()["restarts"] == 1
        assert_all_accounted_for(parallel, 4)


def test_tries_come_later_and_later():
    config = parallel_config(max_restarts=4, restart_backoff=0.2)
    times = []
    with Learner(config).parallel(worker_main=replace(IN_INIT, epochs=ALWAYS)) as learner:
        learner.collector._announce = lambda _: times.append(time.monotonic())
        with pytest.raises(WorkersLostError):
            learner.collect()
        times.append(time.monotonic())
    waits = [later - earlier for earlier, later in pairwise(times)]
    assert len(waits) == 4
    for wait, backoff in zip(waits, (0.0, 0.2, 0.4, 0.8), strict=True):
        assert backoff <= wait < backoff + 10  # a start takes its time, more on a busy machine


def test_a_rollout_is_a_new_beginning():
    config = parallel_config(max_restarts=1, restart_backoff=60.0)
    dies_after_each = Fault(_Worker, "_fetch_weights", what=kill, call=2, epochs=range(1, 5))
    with Learner(config).parallel(worker_main=dies_after_each) as learner:
        for _ in range(6):
            learner.collect()
            new_version(learner)
        assert learner.collector.workers[0].restarts == 4
        assert_all_accounted_for(learner, 6)


@pytest.mark.parametrize("fault", [IN_INIT, replace(IN_STEP, call=1)], ids=str)
def test_in_sync_mode_a_worker_that_cannot_be_kept_alive_is_an_error(fault):
    config = parallel_config(**SOON_GIVEN_UP)
    with Learner(config).parallel(worker_main=replace(fault, epochs=ALWAYS)) as learner:
        learner.collector.start_workers()
        first = learner.collector.workers[0].pid
        with pytest.raises(WorkersLostError) as lost:
            learner.collect()
        text = str(lost.value)
        assert ": given up after 3 failures in a row, the first:\nTraceback" in text
        assert f"RuntimeError: broken on purpose in process {first}" in text
        assert len(learner.news) == 2


def test_in_async_mode_the_others_go_on():
    config = parallel_config(mode="async", **SOON_GIVEN_UP)
    fault = replace(IN_STEP, epochs=ALWAYS, call=1)
    with Learner(config).parallel(worker_main=fault) as learner:
        lost, healthy = learner.collector.workers
        collections = 0
        while not lost.given_up or collections < 5:
            learner.collect()
            new_version(learner)
            collections += 1
        learner.collector.pause()
        learner.collector.resume()
        learner.collect()
        assert (lost.steps, lost.restarts) == (0, 2)
        assert healthy.steps == (collections + 1) * 2 * GAMES * STEPS
        assert "given up after 3 failures in a row, the first:\nTraceback" in learner.news[-1]
        assert_all_accounted_for(learner, collections + 1)


def test_in_async_mode_the_last_worker_lost_is_an_error():
    config = parallel_config(mode="async", max_restarts=0)
    with Learner(config).parallel() as learner:
        learner.collect()
        for worker in learner.collector.workers:
            os.kill(worker.pid, signal.SIGKILL)
        with pytest.raises(WorkersLostError, match="SIGKILL: given up after 1 failure"):
            collect_all_there_is(learner)


def collect_all_there_is(learner):
    while True:
        learner.collect()


def test_pausing_is_possible_while_a_worker_waits_for_its_next_try():
    config = parallel_config(mode="async", restart_backoff=5.0)
    fault = replace(IN_STEP, epochs=ALWAYS, call=1)
    with Learner(config).parallel(worker_main=fault) as learner:
        while learner.collector.workers[0].failures < 2:
            learner.collect()
        assert not learner.collector.workers[0].running
        learner.collector.pause()
        learner.collector.resume()
        learner.collect()


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_run_whose_workers_all_fail_tells_why_and_goes_on_in_one_process(mode, tmp_path):
    parallel = {"enabled": True, "mode": mode, "num_workers": 2, "num_learners": 1}
    run = Run(tmp_path, updates=6, parallel={**parallel, **SOON_GIVEN_UP})
    run.trainer.collector._worker_main = work_for_nine_plies
    assert run.go()
    (news,) = [text for text in run.display.messages if "Going on in one process." in text]
    assert "Traceback" in news
    assert "RuntimeError: broken on purpose" in news
    updates = [entry["steps"] for entry in run.metrics() if "steps" in entry]
    assert updates == [STEPS_AN_UPDATE * number for number in range(1, 7)]
    assert run.trainer.steps == 6 * STEPS_AN_UPDATE
