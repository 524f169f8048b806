"""`GradientHelpers`: helpers end with their main process, and leave nothing open."""

import gc
import subprocess
import sys
import time

import psutil
import pytest

from tests.core.small import one_thread
from tests.training.parallel.gradient_learners import Learner, processes_of

AT_ONCE = 15.0
"""Seconds: not the minute that a helper may be silent for, even on a busy machine."""


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with one_thread():
        yield


class TestEnding:
    def test_closing_ends_all_helpers_at_once(self):
        learner = Learner(3)
        with learner.helpers as helpers:
            processes = processes_of(helpers)
            started = time.monotonic()
        assert time.monotonic() - started < AT_ONCE
        assert not any(process.is_running() for process in processes)
        helpers.close()

    @pytest.mark.parametrize("ready", [False, True])
    def test_closing_ends_helpers_that_are_stopped_or_starting(self, ready):
        learner = Learner(3, ready=ready)
        processes = processes_of(learner.helpers)
        for process in processes if ready else []:
            process.suspend()
        started = time.monotonic()
        learner.helpers.close()
        assert time.monotonic() - started < AT_ONCE
        assert not any(process.is_running() for process in processes)

    def test_the_agent_goes_on_alone_afterwards(self):
        with Learner(2) as learner, Learner(2) as other:
            learner.helpers.close()
            assert learner.update() == other.update()
            learner.agent.gradient_source = None
            learner.agent.update(learner.buffer, 0.0)

    def test_file_descriptors_are_all_given_back(self):
        process = psutil.Process()
        counts = []
        for _ in range(8):
            with Learner(2, ready=False) as learner:
                learner.update()
            del learner  # the agent keeps its weights where they are
            gc.collect()
            counts.append(process.num_fds())
        assert counts[-1] <= counts[1]

    @pytest.mark.parametrize("stopped", [False, True])
    def test_nobody_outlives_a_killed_main_process(self, stopped):
        child = subprocess.Popen(
            [sys.executable, "-c", MAIN_PROCESS], stdout=subprocess.PIPE, text=True
        )
        try:
            helpers = [psutil.Process(int(pid)) for pid in child.stdout.readline().split()]
            assert len(helpers) == 2
            if stopped:
                helpers[0].suspend()
        finally:
            child.kill()
            child.wait()
            child.stdout.close()
        _, alive = psutil.wait_procs(helpers, timeout=5)
        assert alive == []


MAIN_PROCESS = """
import time
from tests.training.parallel.gradient_learners import Learner, processes_of

if __name__ == "__main__":
    learner = Learner(3)
    print(*(process.pid for process in processes_of(learner.helpers)), flush=True)
    while True:
        learner.update()
"""
