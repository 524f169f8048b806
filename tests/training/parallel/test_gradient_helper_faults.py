"""`GradientHelpers`: whatever happens to a helper, the update is the same."""

import os
import re
import signal
import time
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from keisei.training.parallel.gradient_parts import GradientParts
from keisei.training.parallel.gradient_process import HelperSetup, help_learning
from tests.core.small import one_thread
from tests.training.parallel.gradient_learners import (
    CHOSEN,
    Learner,
    parts_computed_here,
    processes_of,
    rollout,
)


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with one_thread():
        yield


@dataclass(frozen=True)
class Fault:
    """A helper that comes to grief at its `at`-th part; with `once` only the first one does."""

    marker: Path
    what: str
    at: int = 5
    once: bool = True

    def __call__(self, setup: HelperSetup):
        compute, parts_seen = GradientParts.compute, count(1)

        def faulty(parts, number, part):
            if next(parts_seen) == self.at and not (self.once and self.marker.exists()):
                self.marker.touch()
                parts._gradients[number] = np.nan  # as if killed in the middle of writing
                self.happen()
            compute(parts, number, part)

        GradientParts.compute = faulty
        if self.at == 0:
            self.happen()
        help_learning(setup)

    def happen(self):
        if self.what == "error":
            raise MemoryError("no room for gradients")
        os.kill(os.getpid(), signal.Signals[self.what])


def undisturbed(**settings):
    """Figures and state of two updates in which nothing happens to anybody."""
    with Learner(3, **settings) as learner:
        figures = [learner.update(rollout(seed)) for seed in (1, 2)]
        return figures, learner.everything()


@pytest.fixture(scope="module")
def expected():
    return undisturbed()


class TestFaults:
    @pytest.mark.parametrize(
        ("what", "words"),
        [
            ("SIGKILL", "helper 1 died with exit code -9|helper 2 died with exit code -9"),
            ("SIGSTOP", "did not answer in time and was killed"),
            ("error", "failed:\nTraceback .*in faulty.*MemoryError: no room for gradients"),
        ],
    )
    @pytest.mark.parametrize("settings", [{}, {"own_cores": True}, {"minibatches": 2}])
    def test_they_change_no_bit(self, what, words, settings, tmp_path):
        fault = Fault(tmp_path / "happened", what)
        patience = 4.0 if what == "SIGSTOP" else 60.0
        expected = undisturbed(**settings)
        with Learner(3, helper_main=fault, timeout=patience, **settings) as learner:
            lost = processes_of(learner.helpers)
            figures = [learner.update(rollout(seed)) for seed in (1, 2)]
            assert (figures, learner.everything()) == expected
            assert learner.helpers.restarts == len(learner.helpers.failures) >= 1
            assert re.search(words, learner.helpers.failures[0], re.DOTALL)
            assert learner.helpers.wait_until_ready()
            assert len(lost + processes_of(learner.helpers)) == 4
            assert sum(process.is_running() for process in lost) < 2

    def test_a_replacement_takes_its_part_when_it_is_ready(self, tmp_path, monkeypatch):
        with Learner(2) as learner:
            (process,) = processes_of(learner.helpers)
            process.kill()
            process.wait(5)
            here = parts_computed_here(learner.helpers, monkeypatch)
            learner.gradients(CHOSEN)
            assert here == [0, 1]
            assert learner.helpers.restarts == 1
            assert learner.helpers.wait_until_ready()
            here.clear()
            learner.gradients(CHOSEN)
            assert here == [0]
            (replacement,) = processes_of(learner.helpers)
            assert replacement.pid != process.pid

    def test_an_update_does_not_wait_for_helpers_that_start(self, expected):
        with Learner(3, ready=False) as learner:
            figures = [learner.update(rollout(seed)) for seed in (1, 2)]
            assert (figures, learner.everything()) == expected

    @pytest.mark.parametrize(("what", "at"), [("SIGKILL", 0), ("error", 1)])
    def test_a_helper_that_never_works_is_given_up(self, expected, what, at, tmp_path):
        fault = Fault(tmp_path / "happened", what, at=at, once=False)
        with Learner(3, ready=False, helper_main=fault) as learner:
            helpers, deadline = learner.helpers, time.monotonic() + 60
            while helpers._helpers and time.monotonic() < deadline:
                helpers.wait_until_ready(0.1)
                learner.gradients(CHOSEN)
            assert sum("is given up" in failure for failure in helpers.failures) == 2
            assert helpers.restarts == 2 * 4
            assert not helpers.wait_until_ready(0.1)
            figures = [learner.update(rollout(seed)) for seed in (1, 2)]
            assert (figures, learner.everything()) == expected

    def test_a_helper_that_does_not_get_ready_is_replaced(self, tmp_path, monkeypatch):
        monkeypatch.setattr("keisei.training.parallel.gradient_process.SECONDS_TO_START", 0.5)
        fault = Fault(tmp_path / "happened", "SIGSTOP", at=0, once=False)
        with Learner(2, ready=False, helper_main=fault) as learner:
            assert not learner.helpers.wait_until_ready(0.7)
            assert "was not ready in 0 seconds" in learner.helpers.failures[0]

    def test_a_replacement_that_cannot_be_started_is_told(self, monkeypatch):
        with Learner(2) as learner:
            (process,) = processes_of(learner.helpers)
            process.kill()
            process.wait(5)
            monkeypatch.setattr(learner.helpers, "_start", no_more_processes)
            learner.update()
            assert "cannot be started again: out of processes" in learner.helpers.failures[-1]

    def test_ctrl_c_is_not_for_helpers(self):
        with Learner(2) as learner:
            (process,) = processes_of(learner.helpers)
            process.send_signal(signal.SIGINT)
            learner.update()
            assert process.is_running()
            assert learner.helpers.failures == []


def no_more_processes(number):
    raise OSError("out of processes")
