"""The plain display, in pipes and files, and who gets it."""

import io
import subprocess
import time
from dataclasses import replace

import pytest

from keisei.training.display import LiveDisplay, PlainDisplay, make_display
from tests.training.display_samples import SNAPSHOT, TerminalText
from tests.training.pseudo_terminal import PROJECT, command, environment


def test_a_pipe_gets_plain_lines_without_control_codes():
    body = """
    display.message("starting")
    for count in range(4):
        display.show(replace(snapshot, updates=count, evaluations=snapshot.evaluations[:count]))
    """
    run = subprocess.run(
        command(body), capture_output=True, cwd=PROJECT, env=environment(), check=True, timeout=60
    )
    assert b"\x1b" not in run.stdout
    assert b"\r" not in run.stdout
    lines = run.stdout.decode().splitlines()
    assert [line.split(" | ")[0] for line in lines] == [
        "starting",
        "update 0",
        *SNAPSHOT.evaluations,
        "update 3",
    ]
    assert lines[-1] == (
        "update 3 | step 12,500,000 of 50,000,000 (25.0%) | 41,234 steps/s | ETA 3:25:45"
        " | 10,000 games (black wins 50%, white wins 45%, draws 2%, cut 3%)"
        " | policy loss -0.0123 | value loss 0.5120 | entropy 2.345 | KL 0.0117"
        " | learning rate 0.000950 | explained variance 0.2500 | legal moves 81.50"
        " | cut share 4.0% | game length 131.0"
    )


def test_a_stream_that_lacks_letters_gets_question_marks():
    run = subprocess.run(
        command('    display.message("将棋 1")'),
        capture_output=True,
        cwd=PROJECT,
        env=environment(PYTHONUTF8="0", PYTHONIOENCODING="ascii"),
        check=True,
        timeout=60,
    )
    assert run.stdout == b"?? 1\n"


def test_plain_lines_keep_their_distance():
    stream = io.StringIO()
    display = PlainDisplay(stream, interval=0.2)
    start = time.monotonic()
    while time.monotonic() - start < 0.5:
        display.show(SNAPSHOT)
    display.close()
    display.close()
    elapsed = time.monotonic() - start  # longer than half a second where others are busy
    assert 2 <= stream.getvalue().count("update 1,234 |") <= elapsed / 0.2 + 2  # first and last


def test_plain_lines_tell_each_evaluation_once_when_old_ones_are_dropped():
    stream = io.StringIO()
    with PlainDisplay(stream) as display:
        for shown in (["a"], ["a", "b"], ["b", "c"], ["b", "c"], ["c", "c"]):
            display.show(replace(SNAPSHOT, evaluations=shown))
    lines = [line for line in stream.getvalue().splitlines() if len(line) == 1]
    assert lines == ["a", "b", "c", "c"]


def test_the_kind_of_stream_decides():
    assert isinstance(make_display(io.StringIO()), PlainDisplay)
    assert isinstance(make_display(TerminalText()), LiveDisplay)


@pytest.mark.parametrize(("name", "value"), [("TERM", "dumb"), ("TTY_COMPATIBLE", "0")])
def test_a_terminal_that_cannot_draw_gets_plain_lines(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    assert isinstance(make_display(TerminalText()), PlainDisplay)
