"""The two ends of a USI conversation: lines in, lines out, and a log of both."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from io import TextIOBase
from typing import BinaryIO

LONGEST_LINE = 100_000
"""Bytes; a game of 16,000 moves fits. What is longer is not a line of USI."""


class UsiStream:
    """Reads lines of any bytes, writes whole lines at once, whichever thread they come from."""

    def __init__(self, source: BinaryIO, target: BinaryIO, log: TextIOBase | None = None) -> None:
        self._source = source
        self._target = target
        self._log = log
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._someone_listens = True

    def lines(self) -> Iterator[str]:
        """Every line until the other side closes its end; of one that is too long the first word.

        A `position` without a position is one to resign in; to pass it over would leave the last.
        """
        while data := self._source.readline(LONGEST_LINE):
            if len(data) == LONGEST_LINE and not data.endswith(b"\n"):
                self._skip_rest_of_line()
                self.tell(f"info string a line of over {LONGEST_LINE} bytes was cut to one word")
                data = b"".join(data.split(maxsplit=1)[:1])
            line = data.decode("utf-8", errors="replace").strip()
            with self._lock:
                self._note("<", line)
            yield line

    def tell(self, *lines: str) -> None:
        """Write lines and flush them. When nobody reads any more they are only logged."""
        with self._lock:
            for line in lines:
                self._note(">", line)
            text = "".join(f"{line}\n" for line in lines)
            if self._someone_listens:
                self._write(text.encode("ascii", errors="backslashreplace"))

    def _write(self, data: bytes) -> None:
        try:
            self._target.write(data)
            self._target.flush()
        except (OSError, ValueError):  # ValueError: the file is closed
            self._someone_listens = False

    def _skip_rest_of_line(self) -> None:
        while data := self._source.readline(LONGEST_LINE):
            if data.endswith(b"\n"):
                return

    def _note(self, direction: str, line: str) -> None:
        if self._log is not None:
            self._log.write(f"{time.monotonic() - self._began:10.3f} {direction} {line}\n")
            self._log.flush()
