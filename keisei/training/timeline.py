"""The timeline of a run: what each of its processes did and when, for `keisei train --trace`.

All processes append to one file in Chrome's trace format (an array of events, one a line), which
ui.perfetto.dev and chrome://tracing open; both do without the closing bracket of a killed run.

The file is made of pages of 4 kB that hold whole lines. The kernel keeps apart what processes
append at the same time, but a process that is killed, or a disk that fills, can end a write at a
page's end: there no line is torn.
"""

from __future__ import annotations

import json
import math
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from pathlib import Path
from time import monotonic_ns

TRACE_FILE = "trace.json"
PAGE = 4096
_FLUSH_BYTES = 64 * 1024
_FLUSH_NS = 1_000_000_000
_LONGEST_NAME = 200  # at most 12 bytes for each character as JSON: a line fits in a page
_NOTHING = nullcontext()


class Timeline:
    """What one process, or one thread of it, writes to the trace of its run; used from one thread.

    The owner makes the file before the others open it, or goes on with that of an earlier sitting,
    and closes it after them. Without a path nothing is written. When the file cannot be written,
    tracing stops and `failure` says why; training is not disturbed.
    """

    def __init__(self, path: Path | None, name: str, *, owner: bool = False) -> None:
        self.failure: str | None = None
        self._path = path
        self._owner = owner
        self._file: int | None = None
        self._lines: list[str] = []
        self._gathered_bytes = 0
        self._flushed_ns = monotonic_ns()
        self._thread = f'"pid":{os.getpid()},"tid":{threading.get_native_id()}'
        if path is None:
            return
        try:
            if owner:
                _make_ready(path)
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND)
        except OSError as error:
            self._stop(error)
            return
        self._gather(self._line("M", _kind_of_name(), f'"args":{{"name":{_quoted(name)}}}'))

    def span(self, name: str) -> AbstractContextManager[None]:
        """What happens while it is entered, as a bar; those inside it lie below it."""
        return _NOTHING if self._file is None else _Span(self, name)

    def instant(self, name: str) -> None:
        """A mark at this moment."""
        if self._file is not None:
            self._gather(self._mark(name))

    def counter(self, name: str, value: float) -> None:
        """A curve's value from now on; one that is not finite cannot be drawn and is left out."""
        if self._file is not None and math.isfinite(value):
            rest = f'"ts":{_microseconds(monotonic_ns())},"args":{{"value":{float(value)!r}}}'
            self._gather(self._line("C", name, rest))

    def close(self) -> None:
        """Write what is left; the owner also ends the array, which makes the file strict JSON."""
        if self._owner:
            self._lines.append(self._mark("closed").removesuffix(",\n") + "]\n")
        self._flush()
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _mark(self, name: str) -> str:
        return self._line("i", name, f'"s":"t","ts":{_microseconds(monotonic_ns())}')

    def _line(self, phase: str, name: str, rest: str) -> str:
        return f'{{"ph":"{phase}","name":{_quoted(name)},{self._thread},{rest}}},\n'

    def _gather(self, line: str) -> None:
        self._lines.append(line)
        self._gathered_bytes += len(line)
        if self._gathered_bytes >= _FLUSH_BYTES or monotonic_ns() - self._flushed_ns >= _FLUSH_NS:
            self._flush()

    def _flush(self) -> None:
        lines, self._lines = self._lines, []
        self._gathered_bytes = 0
        self._flushed_ns = monotonic_ns()
        if self._file is None or not lines:
            return
        try:
            _write_all(self._file, "".join(_pages(lines)).encode("ascii"))
        except OSError as error:
            self._stop(error)

    def _stop(self, error: OSError) -> None:
        self.failure = f"{self._path} cannot be written ({error.strerror}): tracing has stopped"
        if self._file is not None:
            os.close(self._file)
            self._file = None


class _Span:
    """One use of `Timeline.span`. A class, as a generator would cost twice the time."""

    __slots__ = ("_name", "_start_ns", "_timeline")

    def __init__(self, timeline: Timeline, name: str) -> None:
        self._timeline = timeline
        self._name = name

    def __enter__(self) -> None:
        self._start_ns = monotonic_ns()

    def __exit__(self, *_: object) -> None:
        start_ns = self._start_ns
        duration = _microseconds(monotonic_ns() - start_ns)
        rest = f'"ts":{_microseconds(start_ns)},"dur":{duration}'
        self._timeline._gather(self._timeline._line("X", self._name, rest))


def _make_ready(path: Path) -> None:
    """Make the file, or open the array of an earlier sitting again, to be appended to."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        size = os.fstat(file).st_size
        if size % PAGE:  # torn when the machine went down
            size -= size % PAGE
            os.ftruncate(file, size)
        if size == 0:
            _write_all(file, "".join(_pages(["[\n"])).encode("ascii"))
            return
        last_page = os.pread(file, PAGE, size - PAGE).rstrip()
        if last_page.endswith(b"]"):
            os.pwrite(file, b",", size - PAGE + len(last_page) - 1)
    finally:
        os.close(file)


def _pages(lines: Iterable[str]) -> Iterator[str]:
    """The lines in pages, each filled up with spaces before its last line end."""
    page = ""
    for line in lines:
        if len(page) + len(line) > PAGE:
            yield page[:-1].ljust(PAGE - 1) + "\n"
            page = ""
        page += line
    yield page[:-1].ljust(PAGE - 1) + "\n"


def _write_all(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def _kind_of_name() -> str:
    """What a timeline's name is that of: the process, or a thread beside its first one."""
    is_first = threading.current_thread() is threading.main_thread()
    return "process_name" if is_first else "thread_name"


def _microseconds(ns: int) -> str:
    """The format's unit, to the nanosecond."""
    return f"{ns // 1000}.{ns % 1000:03d}"


@lru_cache(maxsize=1024)
def _quoted(name: str) -> str:
    return json.dumps(name[:_LONGEST_NAME])
