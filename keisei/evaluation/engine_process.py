"""One engine as a process: lines to it, lines from it until a deadline, and its certain end."""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

from keisei.evaluation.players import NoMove

_GAMES_FOLDERS = "/usr/games:/usr/local/games"
"""Where Debian installs engines; not on every user's path."""
_LAST_WORDS = 1000


class EngineError(ValueError):
    """An engine that cannot go on with its game; `reason` is what its game ends with."""

    def __init__(self, reason: NoMove, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


def find_program(name: str) -> str:
    """The path of a program, on the search path or where games are installed."""
    found = shutil.which(name) or shutil.which(name, path=_GAMES_FOLDERS)
    if found is None:
        raise ValueError(f"there is no program {name!r} to play with: is it installed?")
    return found


def _start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a process, with pipes, in a session of its own."""
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        sentence = f"{command[0]} cannot be started: {error.strerror}"
        raise EngineError(NoMove.CRASHED, sentence) from None


class EngineProcess:
    """A process in a group of its own, so that it can be ended with all that it started.

    Ctrl-C in a terminal does not reach it, and it is waited for in one place only: while a line is
    read. What it writes to stderr is read there too, so that it never blocks on it.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._name = command[0]
        self._process = _start([find_program(command[0]), *command[1:]])
        self._unread = b""
        self._last_words = b""
        self._pipes = selectors.DefaultSelector()
        for pipe in (self._stdout, self._process.stderr):
            assert pipe is not None  # `subprocess` made it
            self._pipes.register(pipe, selectors.EVENT_READ)

    @property
    def _stdout(self) -> IO[bytes]:
        assert self._process.stdout is not None
        return self._process.stdout

    def send(self, *lines: str) -> None:
        """Write lines."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write("".join(f"{line}\n" for line in lines).encode())
            self._process.stdin.flush()
        except OSError:
            raise self._crashed() from None

    def read_line(self, deadline: float) -> str:
        """The next line of its output; `deadline` is a time of `time.monotonic`."""
        while b"\n" not in self._unread:
            self._read(deadline)
        if time.monotonic() > deadline:
            raise self._silent()  # it talks without end
        line, self._unread = self._unread.split(b"\n", 1)
        return line.decode("utf-8", errors="replace").strip()

    def _read(self, deadline: float) -> None:
        """Wait for output, and take what there is."""
        ready = self._pipes.select(max(0, deadline - time.monotonic()))
        if not ready or time.monotonic() > deadline:
            raise self._silent()
        for key, _ in ready:
            data = os.read(key.fd, 1 << 16)
            if key.fileobj is not self._stdout:
                self._last_words = (self._last_words + data)[-_LAST_WORDS:]
                if not data:
                    self._pipes.unregister(key.fileobj)
            elif data:
                self._unread += data
            else:
                raise self._crashed()

    def _silent(self) -> EngineError:
        return EngineError(NoMove.SILENT, f"{self._name} did not answer in time{self._said()}")

    def _crashed(self) -> EngineError:
        self.kill()
        code = self._process.wait()
        return EngineError(NoMove.CRASHED, f"{self._name} ended (exit code {code}){self._said()}")

    def _said(self) -> str:
        """The last line that it wrote to stderr, to be added to a sentence."""
        lines = self._last_words.decode("utf-8", errors="replace").split("\n")
        words = [line.strip() for line in lines if line.strip()]
        return f" after saying: {words[-1]}" if words else ""

    def kill(self) -> None:
        """Kill it and what it started; whoever reads its lines then gets an `EngineError`."""
        if self._process.returncode is None:  # else its number may be another process's
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Kill it and free all that it held."""
        self.kill()
        self._process.wait()
        self._pipes.close()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with suppress(OSError):  # unsent lines, and nobody to read them
                    pipe.close()
