"""The loop with workers that die: it goes on, and says so."""

import os
import signal

import pytest

from keisei.training.parallel.worker_supervisor import WorkersLostError
from tests.core.small import bits, one_thread
from tests.training.small_run import STEPS_AN_UPDATE, RecordingDisplay, Run


@pytest.fixture(autouse=True)
def _one_thread():
    with one_thread():
        yield


SYNC = {"enabled": True, "mode": "sync", "num_workers": 2, "num_learners": 1}


class KillingDisplay(RecordingDisplay):
    """Kills the workers of a run when an update is shown."""

    def __init__(self, run, update):
        super().__init__()
        self._run, self._update = run, update

    def show(self, snapshot):
        super().show(snapshot)
        if snapshot.updates == self._update:
            for worker in self._run.trainer.collector.workers:
                os.kill(worker.pid, signal.SIGKILL)


def test_a_run_whose_workers_cannot_be_kept_alive_goes_on_in_one_process(tmp_path):
    undisturbed = Run(tmp_path, updates=6, parallel=SYNC)
    assert undisturbed.go()
    run = Run(tmp_path, updates=6, parallel={**SYNC, "max_restarts": 0})
    run.display = KillingDisplay(run, 2)
    assert run.go()
    (news,) = run.display.messages
    assert "was killed by SIGKILL: given up after 1 failure" in news
    assert news.endswith("Going on in one process.")
    updates = [entry for entry in run.metrics() if "steps" in entry]
    assert [entry["steps"] for entry in updates] == [16 * number for number in range(1, 7)]
    # And nothing of what was played is lost or learned from twice.
    assert bits(run.store.newest()[0].tensors) == bits(undisturbed.store.newest()[0].tensors)
    shown = run.display.snapshots
    assert any("worker 1 (pid " in line for line in shown[0].workers)
    assert shown[-1].workers == []


def test_a_run_that_may_not_fall_back_saves_and_ends_with_the_error(tmp_path):
    settings = {**SYNC, "max_restarts": 0, "fallback_to_serial": False}
    run = Run(tmp_path, updates=6, parallel=settings)
    run.display = KillingDisplay(run, 2)
    with pytest.raises(WorkersLostError, match="given up after 1 failure"):
        run.go()
    assert run.saved() == [2]
    run.resume()
    assert run.go()
    assert run.trainer.updates == 6


def test_a_worker_that_dies_is_replaced_and_the_display_told(tmp_path):
    run = Run(tmp_path, updates=4, parallel=SYNC)
    run.display = KillingDisplay(run, 2)
    assert run.go()
    assert len(run.display.messages) == 2
    for news in run.display.messages:
        assert "was killed by SIGKILL: replaced, its games go on" in news
    last = [entry for entry in run.metrics() if "steps" in entry][-1]
    assert last["parallel/restarts"] == 2
    assert last["worker_0/steps"] == 4 * STEPS_AN_UPDATE / 2
