"""The displays as people meet them: on pseudo-terminals of several sizes, and in a pipe."""

import fcntl
import io
import math
import os
import re
import select
import struct
import subprocess
import sys
import termios
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keisei.shogi.shogi_game import ShogiGame
from keisei.training.display import (
    SECONDS_BETWEEN_PICTURES,
    LiveDisplay,
    PlainDisplay,
    make_display,
)
from keisei.training.training_snapshot import (
    TrainingSnapshot,
    format_duration,
    format_figure,
    sparkline,
)

PROJECT = Path(__file__).parents[2]
FIGURES = {
    "policy_loss": -0.0123,
    "value_loss": 0.512,
    "entropy": 2.345,
    "kl": 0.0117,
    "learning_rate": 9.5e-4,
    "explained_variance": 0.25,
    "legal_moves": 81.5,
    "cut_share": 0.04,
    "game_length": 131.0,
}
SNAPSHOT = TrainingSnapshot(
    run="shogi-[1]",
    updates=1234,
    steps=12_500_000,
    total_steps=50_000_000,
    seconds=754,
    steps_per_second=41_234.4,
    eta_seconds=3 * 3600 + 25 * 60 + 45,
    games=10_000,
    results={"black wins": 5000, "white wins": 4500, "draws": 200, "cut": 300},
    reasons={"checkmate": 9400, "repetition": 200, "perpetual_check": 100, "max_moves": 300},
    figures=FIGURES,
    history={name: [value * (1 + i % 7) for i in range(98)] for name, value in FIGURES.items()},
    evaluations=[f"update {u}: random 98.0 %, greedy {u // 20} % [±3]" for u in (400, 800, 1200)],
    board=str(ShogiGame()),
    shares={"games": 0.31, "inference": 0.42, "update": 0.22, "other": 0.05},
    workers=["worker 0 (pid 123): 6,250,000 plies", "worker 1 (given up): 0 plies"],
)

# What the child processes run, with `display`, `snapshot`, `time` and `sys` at hand.
CHILD = """
import sys, time
from dataclasses import replace
from keisei.training.display import make_display
from tests.training.test_display import SNAPSHOT as snapshot, SECONDS_BETWEEN_PICTURES
with make_display(sys.stdout) as display:
{body}
"""
SHOW_THEN_WAIT = """
    display.message("a message that stays [really]")
    display.show(replace(snapshot, steps=0, evaluations=[]))
    print("a stray print")
    time.sleep(1.2 * SECONDS_BETWEEN_PICTURES)
    display.show(snapshot)
    sys.stdin.readline()
"""


class Screen:
    """A terminal of fixed size that knows the control codes which Rich sends."""

    def __init__(self, width, height):
        self.width, self.height = width, height
        self.lines = [""] * height
        self.scrolled = []
        self.row = self.column = 0
        self.cursor_shown = True

    def feed(self, text):
        for code, count, command, character in re.findall(
            r"(\x1b\[\??(\d*)[\d;]*([A-Za-z]))|([^\x1b])", text
        ):
            if code:
                self.control(code, int(count or 1), command)
            else:
                self.put(character)

    def control(self, code, count, command):
        if command == "A":
            self.row = max(0, self.row - count)
        elif command == "K":
            assert count == 2
            self.lines[self.row] = ""
        elif command in "hl":
            assert code[:-1] == "\x1b[?25"
            self.cursor_shown = command == "h"
        else:
            assert command == "m", code

    def put(self, character):
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self.row += 1
            if self.row == self.height:
                self.scrolled.append(self.lines.pop(0))
                self.lines.append("")
                self.row -= 1
        else:
            assert self.column < self.width, f"too wide: {self.lines[self.row]!r}"
            line = self.lines[self.row].ljust(self.column)
            self.lines[self.row] = line[: self.column] + character + line[self.column + 1 :]
            self.column += 1

    @property
    def text(self):
        return "\n".join(self.lines)


def command(body):
    return [sys.executable, "-c", CHILD.format(body=body.strip("\n"))]


def environment(**more):
    kept = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    return {**kept, "TERM": "xterm-256color", "PYTHONUTF8": "1", **more}


@contextmanager
def terminal(width, height, body):
    """A child on a pseudo-terminal: the process, and `read(until)` that returns the `Screen`."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
    process = subprocess.Popen(
        command(body),
        stdin=subprocess.PIPE,
        stdout=theirs,
        stderr=theirs,
        cwd=PROJECT,
        env=environment(),
        text=True,
    )
    os.close(theirs)
    screen = Screen(width, height)
    pending = b""

    def read(until=lambda screen: False):
        nonlocal pending
        deadline = time.monotonic() + 30
        while not until(screen):
            ready, _, _ = select.select([ours], [], [], max(0, deadline - time.monotonic()))
            assert ready, screen.text
            try:
                data = os.read(ours, 65536)
            except OSError:  # how Linux says that the other side is closed
                data = b""
            if not data:
                break
            whole, pending = split_before_a_torn_code(pending + data)
            screen.feed(whole.decode())
        return screen

    try:
        yield process, read
    finally:
        process.kill()
        process.communicate()
        os.close(ours)


def second_picture_is_whole(screen):
    """Whether it is there down to its last border, and the cursor waits below that."""
    above = screen.lines[screen.row - 1]
    return "25.0%" in screen.text and above.startswith("╰──") and screen.column == 0


def split_before_a_torn_code(data):
    """Bytes that can be fed now, and the start of a code or character that is still to come."""
    torn = re.search(rb"(\x1b(\[[?\d;]*)?|[\xc0-\xff][\x80-\xbf]*)\Z", data)
    if torn and not is_whole_character(torn.group()):
        return data[: torn.start()], data[torn.start() :]
    return data, b""


def is_whole_character(data):
    try:
        return data[0] != 0x1B and bool(data.decode())
    except UnicodeDecodeError:
        return False


@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 24), (100, 30), (140, 40)])
def test_the_live_picture_fits_the_terminal(width, height):
    with terminal(width, height, SHOW_THEN_WAIT) as (process, read):
        screen = read(until=second_picture_is_whole)
        text = screen.text
        for part in (
            "shogi-[1]",
            "ETA 3:25:45",
            "update 1,234 · 12,500,000 of 50,000,000 steps · 41,234 steps/s",
            "trained 12:34 · games 31% · inference 42% · update 22% · other 5%",
            "10,000 games",
            "perpetual check",
            "greedy 60 % [±3]",
        ):
            assert part in text
        assert re.search(r"black wins +5,000 +50.0%", text)
        assert re.search(r"max moves +300", text)
        for name, figure in (("policy loss", "-0.0123"), ("KL", "0.0117"), ("cut share", "4.0%")):
            assert re.search(rf"{name} +{figure}", text)
        assert ("▁▂▃▅▆▇█" in text) == ((width, height) != (100, 24))  # no room for bars there
        assert ("black to move" in text) == (width >= 100)
        shows_workers = height >= 34
        assert ("worker 1 (given up): 0 plies" in text) == shows_workers
        assert text.count("╭") == text.count("╯") == (5 if width >= 100 else 4) + shows_workers
        assert not screen.cursor_shown
        screen.feed("^C")  # as a terminal echoes it, which must not shift the picture

        process.stdin.write("\n")
        process.stdin.flush()
        summary = read()
        assert process.wait(10) == 0
    assert summary.cursor_shown
    assert "stopped" in summary.text
    assert "update 1200" in summary.text
    assert "A game" not in summary.text
    everything = "\n".join([*summary.scrolled, *summary.lines])
    assert everything.count("a message that stays [really]") == 1
    assert everything.count("a stray print") == 1
    assert everything.count("╭─ shogi-[1]") == 1, "pictures before the last one were not erased"


def test_the_live_picture_is_cropped_on_a_tiny_terminal():
    with terminal(40, 10, SHOW_THEN_WAIT) as (_, read):
        screen = read(until=lambda screen: "25.0%" in screen.text and "black" in screen.text)
        assert "ETA 3:25:45" in screen.text


def test_pictures_are_drawn_at_most_twice_a_second():
    body = """
    for update in range(300):
        display.show(replace(snapshot, updates=update))
        time.sleep(0.004)
    """
    with terminal(80, 24, body) as (process, read):
        screen = read()
        assert process.wait(10) == 0
    assert "update 299" in screen.text  # the summary shows the last state
    stream = TerminalText()
    display = LiveDisplay(stream)
    start = time.monotonic()
    for _ in range(50):
        display.show(SNAPSHOT)
    display.close()
    display.close()
    pictures = stream.getvalue().count("Evaluation")
    assert pictures <= 2 + (time.monotonic() - start) / SECONDS_BETWEEN_PICTURES


class TerminalText(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


def test_an_error_gives_the_terminal_back_and_keeps_its_traceback():
    body = """
    display.show(snapshot)
    raise RuntimeError("something broke")
    """
    with terminal(100, 40, body) as (process, read):
        screen = read()
        assert process.wait(10) == 1
    assert screen.cursor_shown
    assert "RuntimeError: something broke" in screen.text
    assert "stopped" in screen.text


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
    assert 3 <= stream.getvalue().count("update 1,234 |") <= 4


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


@pytest.mark.parametrize("stream", [io.StringIO, TerminalText])
def test_figures_that_are_not_numbers_are_shown_as_such(stream):
    broken = replace(
        SNAPSHOT,
        steps=0,
        games=0,
        eta_seconds=None,
        figures={"policy_loss": math.nan, "kl": math.inf},
        history={"policy_loss": [math.nan, 1.0, math.inf, 2.0]},
    )
    output = stream()
    with make_display(output) as display:
        display.show(broken)
    text = output.getvalue()
    assert "nan" in text
    assert "inf" in text
    assert "0.0%" in text


def test_a_run_that_has_nothing_to_tell_yet_can_be_shown():
    empty = replace(
        SNAPSHOT, steps=0, games=0, reasons={}, figures={}, history={}, evaluations=[], shares={}
    )
    output = TerminalText()
    with make_display(output) as display:
        display.show(replace(empty, board=""))
    assert "none yet" in output.getvalue()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0:00"),
        (59.6, "1:00"),
        (245, "4:05"),
        (3845, "1:04:05"),
        (86_399, "23:59:59"),
        (2 * 86_400 + 3 * 3600 + 4 * 60, "2d 03:04"),
        (-5, "0:00"),
        (None, "unknown"),
        (math.nan, "unknown"),
        (math.inf, "unknown"),
    ],
)
def test_durations_read_as_a_clock(seconds, text):
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("value_loss", 0.5, "0.5000"),
        ("value_loss", 0.0, "0.0"),
        ("entropy", -2.5, "-2.500"),
        ("legal_moves", 81.25, "81.25"),
        ("game_length", 123.45, "123.5"),
        ("games", 12_345.6, "12,346"),
        ("games", 2_000_000, "2.00e+06"),
        ("learning_rate", 3e-4, "0.000300"),
        ("learning_rate", 1e-5, "1.00e-05"),
        ("cut_share", 0.123, "12.3%"),
        ("kl", math.nan, "nan"),
        ("kl", -math.inf, "-inf"),
    ],
)
def test_figures_keep_about_four_digits(name, value, text):
    assert format_figure(name, value) == text


@pytest.mark.parametrize(
    ("values", "width", "bars"),
    [
        ([], 5, ""),
        ([1, 2], 0, ""),
        ([1, 2], -1, ""),
        ([3, 3, 3], 5, "▄▄▄"),
        ([math.nan, math.inf], 5, "  "),
        ([0, math.nan, 7], 5, "▁ █"),
        ([0, 1, 2, 3, 4, 5, 6, 7], 8, "▁▂▃▄▅▆▇█"),
        ([100, 0, 7], 2, "▁█"),
    ],
)
def test_sparklines(values, width, bars):
    assert sparkline(values, width) == bars


@given(st.lists(st.floats()), st.integers(0, 50))
def test_a_sparkline_has_a_mark_for_every_value(values, width):
    assert re.fullmatch(rf"[ ▁▂▃▄▅▆▇█]{{{min(len(values), width)}}}", sparkline(values, width))
