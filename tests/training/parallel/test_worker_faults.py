"""Workers that are killed at any moment, or say what is not true: nothing is lost or doubled."""

import os
import random
import signal
import threading
import time
from contextlib import suppress
from dataclasses import replace
from multiprocessing import forkserver

import pytest

from keisei.core.experience_buffer import ExperienceBuffer
from keisei.training.parallel.communication import WorkerLink
from keisei.training.parallel.double_buffer import DoubleBuffer
from keisei.training.parallel.piped_weights import PipedModelReceiver
from keisei.training.parallel.rollout import Rollout
from keisei.training.parallel.rollout_statistics import RolloutStatistics
from keisei.training.parallel.self_play import SelfPlay
from keisei.training.parallel.worker_process import _Worker
from tests.core.small import one_thread
from tests.training.parallel.collecting import Learner, parallel_config
from tests.training.parallel.conftest import wait_until
from tests.training.parallel.faulty_workers import (
    OLD_MESSAGES,
    Fault,
    HalfAMessage,
    commit_twice,
    commit_what_is_not_whole,
    speak_for_the_dead,
)
from tests.training.parallel.surviving import (
    PAST_SELVES,
    assert_all_accounted_for,
    collect_in_both_ways,
    survive_in_async_mode,
    survive_in_sync_mode,
)

pytestmark = pytest.mark.usefixtures("nothing_stays_behind")

STEPPING = Fault(SelfPlay, "_play_one_step", call=9)
MOMENTS = {
    "at start-up": Fault(_Worker, "__init__"),
    "before it is ready": Fault(_Worker, "run"),
    "right after it is ready": Fault(_Worker, "_next_order"),
    "when ordered to play": Fault(_Worker, "_fetch_weights", call=2),
    "holding a slot": Fault(Rollout, "begin", after=True),
    "stepping": STEPPING,
    "between a game and the buffer": Fault(ExperienceBuffer, "add_batch", call=8),
    "finishing a rollout": Fault(RolloutStatistics, "as_array", call=2),
    "before the commit": Fault(Rollout, "finish", call=2, after=True),
    "within the commit": HalfAMessage(),
    "after the commit": Fault(WorkerLink, "commit", call=2, after=True),
}
COPYING_WEIGHTS = Fault(DoubleBuffer, "read", call=2, after=True)
LOADING_WEIGHTS = Fault(PipedModelReceiver, "fetch", after=True)
THROUGH_PIPES = {"use_shared_memory": False}


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with one_thread():
        yield


@pytest.mark.parametrize("moment", [*MOMENTS, "copying weights"])
def test_a_kill_changes_nothing_in_sync_mode(moment):
    (news,) = survive_in_sync_mode(MOMENTS.get(moment, COPYING_WEIGHTS))
    assert "was killed by SIGKILL: replaced, its games go on" in news


@pytest.mark.parametrize("moment", [*MOMENTS, "loading weights"])
def test_a_kill_changes_nothing_when_experience_travels_through_pipes(moment):
    survive_in_sync_mode(MOMENTS.get(moment, LOADING_WEIGHTS), **THROUGH_PIPES)


@pytest.mark.parametrize("moment", ["holding a slot", "before the commit", "after the commit"])
def test_a_kill_changes_nothing_when_workers_share_one_slot(moment):
    survive_in_sync_mode(MOMENTS[moment], queue_maxsize=1)


@pytest.mark.parametrize("moment", [*MOMENTS, "copying weights"])
def test_a_kill_loses_and_doubles_nothing_in_async_mode(moment):
    survive_in_async_mode(MOMENTS.get(moment, COPYING_WEIGHTS))


@pytest.mark.parametrize("settings", [THROUGH_PIPES, {"queue_maxsize": 1}], ids=str)
def test_a_kill_loses_and_doubles_nothing_in_async_mode_with(settings):
    survive_in_async_mode(STEPPING, **settings)


def test_all_workers_killed_at_once_change_nothing():
    survive_in_sync_mode(replace(STEPPING, workers=range(2)), restarts=2)


@pytest.mark.parametrize("settings", [{}, THROUGH_PIPES], ids=str)
def test_kills_at_random_times_change_nothing(settings):
    config = parallel_config(games=PAST_SELVES, max_restarts=1000, restart_backoff=0.0, **settings)
    with Learner(config).serial() as serial, Learner(config).parallel() as parallel:
        enough = threading.Event()
        killer = threading.Thread(
            target=kill_at_random_times, args=(parallel.collector.workers, enough)
        )
        killer.start()
        try:
            collect_in_both_ways(serial, parallel, 15)
        finally:
            enough.set()
            killer.join()
        collect_in_both_ways(serial, parallel, 2)
        assert parallel.collector.get_statistics()["restarts"] > 1
        assert_all_accounted_for(parallel, 17)


def kill_at_random_times(workers, enough):
    moments = random.Random(5)
    for _ in range(
        40
    ):  # not for ever: on a busy machine a worker may start for longer than it lives
        if enough.wait(moments.uniform(0.0, 0.2)):
            break
        pid = moments.choice(workers).pid
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_the_death_of_the_server_that_forks_workers_changes_nothing():
    config = parallel_config(games=PAST_SELVES, restart_backoff=0.1)
    with Learner(config).serial() as serial, Learner(config).parallel() as parallel:
        collect_in_both_ways(serial, parallel, 2)
        first = kill_the_server()
        killer = threading.Thread(target=kill_the_next_server, args=(first,))
        killer.start()
        collect_in_both_ways(serial, parallel, 2)
        killer.join()
        assert any("could not be started" in news for news in parallel.news)
        assert_all_accounted_for(parallel, 4)


def kill_the_server():
    pid = forkserver._forkserver._forkserver_pid
    os.kill(pid, signal.SIGKILL)
    return pid


def kill_the_next_server(before):
    """While it is loading, and a worker is waiting to be started."""
    wait_until(lambda: forkserver._forkserver._forkserver_pid not in (None, before), seconds=10)
    time.sleep(0.2)
    kill_the_server()


def test_workers_that_are_replaced_during_a_pause_stay_paused():
    config = parallel_config(games=PAST_SELVES)
    with Learner(config).serial() as serial, Learner(config).parallel() as parallel:
        collect_in_both_ways(serial, parallel, 1)
        manager, workers = parallel.collector, parallel.collector.workers
        manager.pause()
        for worker in workers:
            os.kill(worker.pid, signal.SIGKILL)
        collecting = threading.Thread(target=collect_in_both_ways, args=(serial, parallel, 1))
        collecting.start()
        wait_until(lambda: all(w.epoch == 2 and w.ready for w in workers), seconds=10)
        collecting.join(0.3)
        assert collecting.is_alive()
        manager.resume()
        collecting.join(10)
        collect_in_both_ways(serial, parallel, 1)
        assert_all_accounted_for(parallel, 3)


def test_a_worker_that_dies_while_the_run_ends_does_not_disturb_it():
    with Learner(parallel_config(mode="async")).parallel() as learner:
        learner.collect()
        os.kill(learner.collector.workers[0].pid, signal.SIGKILL)
    assert learner.news == []


@pytest.mark.parametrize("queue_maxsize", [None, 1])
@pytest.mark.parametrize("settings", [{}, THROUGH_PIPES], ids=str)
def test_a_rollout_that_is_not_whole_is_refused_and_its_worker_replaced(queue_maxsize, settings):
    (news,) = survive_in_sync_mode(
        commit_what_is_not_whole, queue_maxsize=queue_maxsize, **settings
    )
    assert "sent a torn rollout" in news


def test_a_rollout_that_is_announced_twice_is_collected_once():
    (news,) = survive_in_sync_mode(commit_twice)
    assert "sent a torn rollout" in news
    survive_in_async_mode(commit_twice)


def test_messages_of_an_earlier_incarnation_are_refused_and_counted():
    config = parallel_config(games=PAST_SELVES)
    with (
        Learner(config).serial() as serial,
        Learner(config).parallel(worker_main=speak_for_the_dead) as parallel,
    ):
        collect_in_both_ways(serial, parallel, 3)
        figures = parallel.collector.get_statistics()
        assert figures["refused_messages"] == len(OLD_MESSAGES)
        assert figures["restarts"] == 1
        assert_all_accounted_for(parallel, 3)


@pytest.mark.parametrize("settings", [{}, THROUGH_PIPES], ids=str)
@pytest.mark.parametrize("version", [2**31 - 2, 2**32 - 2, 2**62])
def test_versions_may_be_large(version, settings):
    config = parallel_config(games=PAST_SELVES, **settings)
    with (
        Learner(config).serial() as serial,
        Learner(config).parallel(worker_main=STEPPING) as parallel,
    ):
        serial.agent.version = parallel.agent.version = version
        collect_in_both_ways(serial, parallel, 4)
        assert set(parallel.buffer.versions.ravel().tolist()) == {version + 3}
        assert parallel.collector.get_statistics()["restarts"] == 1
