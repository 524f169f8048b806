"""What a person sees while training: a live picture on a terminal, plain lines anywhere else."""

from __future__ import annotations

import math
import sys
import time
from types import TracebackType
from typing import Protocol, Self, TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from keisei.training.training_picture import TrainingPicture
from keisei.training.training_snapshot import (
    TrainingSnapshot,
    done_share,
    format_duration,
    format_figure,
    label_of,
    results_of,
)

SECONDS_BETWEEN_PICTURES = 0.5
"""A picture takes the training 5 to 8 ms."""


class Display(Protocol):
    """Shows a run to a person."""

    def show(self, snapshot: TrainingSnapshot) -> None:
        """Take the newest state of the run; it may be shown later, or replaced by a newer one."""

    def message(self, text: str) -> None:
        """Say something that stays on the screen."""

    def close(self) -> None:
        """Leave the last state standing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def make_display(stream: TextIO) -> Display:
    """A live picture if `stream` is a terminal that can draw one, else plain lines."""
    unicode = (stream.encoding or "").lower().replace("-", "") == "utf8"
    if stream.isatty() and unicode and Console(file=stream).is_interactive:
        return LiveDisplay(stream)
    return PlainDisplay(stream)


class PlainDisplay(Display):
    """Lines for pipes and files: messages, evaluations, and the state every `interval` seconds."""

    def __init__(self, stream: TextIO, interval: float = 10.0) -> None:
        self._stream = stream
        self._interval = interval
        self._written_at = -math.inf
        self._evaluations: list[str] = []
        self._waiting: TrainingSnapshot | None = None

    def show(self, snapshot: TrainingSnapshot) -> None:
        """Write new evaluations at once, and the state if it is time."""
        for line in _new_lines(self._evaluations, snapshot.evaluations):
            self.message(line)
        self._evaluations = list(snapshot.evaluations)
        self._waiting = snapshot
        if time.monotonic() - self._written_at >= self._interval:
            self._write_state()

    def message(self, text: str) -> None:
        """Write a line, with ? for what the stream's encoding lacks."""
        encoding = self._stream.encoding or "utf-8"
        self._stream.write(text.encode(encoding, "replace").decode(encoding) + "\n")
        self._stream.flush()

    def close(self) -> None:
        """Write the last state if it is not written yet."""
        self._write_state()

    def _write_state(self) -> None:
        if self._waiting is not None:
            self.message(_plain_line(self._waiting))
            self._written_at = time.monotonic()
            self._waiting = None


class LiveDisplay(Display):
    """A picture that is redrawn in place, at most twice a second; messages pass above it."""

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream, markup=False, highlight=False, emoji=False)
        self._live: Live | None = None
        self._drawn_at = -math.inf
        self._snapshot: TrainingSnapshot | None = None

    def show(self, snapshot: TrainingSnapshot) -> None:
        """Draw the state, unless the last picture is too fresh."""
        self._snapshot = snapshot
        if time.monotonic() - self._drawn_at >= SECONDS_BETWEEN_PICTURES:
            self._started().update(TrainingPicture(snapshot), refresh=True)
            self._drawn_at = time.monotonic()

    def message(self, text: str) -> None:
        """Write text above the picture."""
        self._console.print(Text(text))

    def close(self) -> None:
        """Replace the picture by a summary of the last state and give the terminal back."""
        if self._live is not None and self._snapshot is not None:
            self._live.update(TrainingPicture(self._snapshot, last=True))
            self._live.stop()
            self._live = self._snapshot = None

    def _started(self) -> Live:
        if self._live is None:
            # Drawing happens in `show`: a thread of Rich's would take time from the training.
            # Only what would reach the terminal anyway is led around the picture.
            self._live = Live(
                console=self._console,
                auto_refresh=False,
                vertical_overflow="crop",
                redirect_stdout=sys.stdout.isatty(),
                redirect_stderr=sys.stderr.isatty(),
            )
            self._live.start()
        return self._live


def _new_lines(seen: list[str], now: list[str]) -> list[str]:
    """What `now` adds to `seen`, also when it has dropped old lines at its front."""
    for overlap in range(min(len(seen), len(now)), 0, -1):
        if seen[-overlap:] == now[:overlap]:
            return now[overlap:]
    return now


def _plain_line(snapshot: TrainingSnapshot) -> str:
    shares = ", ".join(f"{name} {share:.0%}" for name, _, share in results_of(snapshot))
    parts = [
        f"{snapshot.round_name} {snapshot.updates:,}",
        f"step {snapshot.steps:,} of {snapshot.total_steps:,} ({done_share(snapshot):.1%})",
        f"{snapshot.steps_per_second:,.0f} steps/s",
        f"ETA {format_duration(snapshot.eta_seconds)}",
        f"{snapshot.games:,} games" + (f" ({shares})" if shares else ""),
        *(f"{label_of(name)} {format_figure(name, v)}" for name, v in snapshot.figures.items()),
    ]
    return " | ".join(parts)
