"""Engines as processes: lines in time, and an end that leaves nothing behind."""

import os
import sys
import time

import psutil
import pytest

from keisei.evaluation.engine_process import EngineError, EngineProcess, find_program
from keisei.evaluation.players import NoMove
from tests.evaluation.engines import fake_command


def soon(seconds=20):
    return time.monotonic() + seconds


def python(code):
    return EngineProcess([sys.executable, "-I", "-S", "-c", code])


def forever(action, *arguments):
    while True:
        action(*arguments)
        time.sleep(0.001)


def wait_until(condition):
    deadline = soon()
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_lines_go_both_ways():
    process = python("print('hello'); print(input()[::-1])")
    process.send("shogi")
    assert [process.read_line(soon()), process.read_line(soon())] == ["hello", "igohs"]
    process.close()


def test_a_process_that_ends_says_its_exit_code_and_its_last_words():
    process = python("import sys; print('one'); sys.stderr.write('out of memory\\n'); sys.exit(7)")
    assert process.read_line(soon()) == "one"
    with pytest.raises(EngineError, match=r"exit code 7\) after saying: out of memory") as caught:
        process.read_line(soon())
    assert caught.value.reason == NoMove.CRASHED
    process.close()


def test_a_process_that_says_nothing_is_silent():
    process = python("import time; time.sleep(1000)")
    with pytest.raises(EngineError, match="did not answer in time") as caught:
        process.read_line(soon(0.1))
    assert caught.value.reason == NoMove.SILENT
    process.close()


def test_talking_without_end_is_not_an_answer():
    process = python("while True: print('info')")
    deadline = soon(0.3)
    with pytest.raises(EngineError, match="did not answer in time"):
        forever(process.read_line, deadline)
    process.close()


def test_writing_to_a_process_that_is_gone_is_a_crash():
    process = python("pass")
    with pytest.raises(EngineError) as caught:
        forever(process.send, "position startpos")
    assert caught.value.reason == NoMove.CRASHED
    process.close()


def test_a_process_is_ended_with_all_that_it_started(tmp_path):
    file = tmp_path / "child"
    process = EngineProcess(fake_command("family", file))
    process.send("usi")
    while process.read_line(soon()) != "usiok":
        pass
    child = psutil.Process(int(file.read_text()))
    process.close()
    wait_until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)


def test_closing_leaves_no_pipe_open_and_may_be_repeated():
    before = len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0
    process = python("input()")
    process.close()
    process.close()
    if sys.platform == "linux":
        assert len(os.listdir("/proc/self/fd")) == before


def test_a_program_that_is_not_installed_is_one_sentence():
    with pytest.raises(ValueError, match="no program 'no-such-engine' to play with"):
        find_program("no-such-engine")


def test_a_file_that_is_no_program_is_one_sentence(tmp_path):
    file = tmp_path / "engine"
    file.write_bytes(b"\x7fELF nonsense")
    file.chmod(0o755)
    with pytest.raises(EngineError, match="cannot be started"):
        EngineProcess([str(file)])
