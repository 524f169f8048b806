"""Displays in processes of their own, on a terminal that can be read like a screen."""

import fcntl
import os
import re
import select
import struct
import subprocess
import sys
import termios
import time
from contextlib import contextmanager
from pathlib import Path

PROJECT = Path(__file__).parents[2]

# What the child processes run, with `display`, `snapshot`, `time` and `sys` at hand.
CHILD = """
import sys, time
from dataclasses import replace
from keisei.training.display import SECONDS_BETWEEN_PICTURES, make_display
from tests.training.display_samples import SNAPSHOT as snapshot
with make_display(sys.stdout) as display:
{body}
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
