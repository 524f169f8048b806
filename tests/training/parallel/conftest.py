"""What every test of processes needs: a quick start, and the proof that nothing stays behind."""

import gc
import os
import time
from multiprocessing import forkserver

import psutil
import pytest

from keisei.training.parallel.child_process import SELF_PLAY, WORLDS, child_context


@pytest.fixture(scope="session", autouse=True)
def _children_start_quickly():
    """The server that children are forked from loads what they need, whoever starts it first."""
    child_context().set_forkserver_preload([SELF_PLAY, WORLDS])
    forkserver.ensure_running()


@pytest.fixture
def nothing_stays_behind():
    """No process, no name in /dev/shm, no open file."""
    forkserver.ensure_running()
    before = names_in_dev_shm(), open_files()
    yield
    wait_until(lambda: grandchildren() == [], seconds=5)
    assert names_in_dev_shm() <= before[0]
    if open_files() > before[1]:
        gc.collect()
    assert open_files() <= before[1]


def grandchildren():
    """The processes that the server of this process has forked."""
    children = psutil.Process().children()
    return [child for server in children for child in server.children()]


def names_in_dev_shm():
    """Without semaphores: other programs on this machine make them all the time."""
    return {name for name in os.listdir("/dev/shm") if not name.startswith("sem.")}


def open_files():
    return len(os.listdir("/proc/self/fd"))


def wait_until(condition, *, seconds):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it has not happened in time"
        time.sleep(0.01)
