"""`StopRequest` with real signals to a real process."""

import os
import signal
import subprocess
import sys

import pytest

from keisei.training.stop_request import StopRequest

# Says when it is ready, then counts how often it is woken, until the second signal.
CHILD = """
import signal, sys, time
from keisei.training.stop_request import StopRequest

def say(text):
    print(text, flush=True)

with StopRequest(lambda: say("noted")) as stop:
    say("ready")
    try:
        while not stop.requested:
            time.sleep(0.01)
        say("requested")
        time.sleep(30)
    except KeyboardInterrupt:
        say("interrupted")
        raise SystemExit(7)
"""


@pytest.fixture
def child():
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    yield process
    process.kill()
    process.communicate()


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_is_noted_and_the_second_interrupts(child, first, second):
    child.send_signal(first)
    assert child.stdout.readline() == "noted\n"
    assert child.stdout.readline() == "requested\n"
    assert child.poll() is None
    child.send_signal(second)
    output, errors = child.communicate(timeout=20)
    assert (output, errors, child.returncode) == ("interrupted\n", "", 7)


def test_nothing_is_requested_without_a_signal():
    told = []
    with StopRequest(lambda: told.append(1)) as stop:
        assert not stop.requested
    assert not stop.requested
    assert told == []


def test_the_request_is_told_once_and_the_second_signal_raises():
    told = []
    with StopRequest(lambda: told.append(1)) as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.requested
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
    assert told == [1]


@pytest.mark.parametrize("fails", [False, True])
def test_the_handlers_of_before_are_back_afterwards(fails):
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    try:
        with StopRequest(lambda: None):
            assert [signal.getsignal(number) for number in numbers] != before
            if fails:
                raise RuntimeError
    except RuntimeError:
        assert fails
    assert [signal.getsignal(number) for number in numbers] == before
