"""What a person sees while training: a live picture on a terminal, plain lines anywhere else."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from types import TracebackType
from typing import Protocol, Self, TextIO

from rich.align import Align
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

BOARD_FROM_WIDTH = 100
"""Columns of a terminal from which the board is shown beside the figures."""
SECONDS_BETWEEN_PICTURES = 0.5
"""A picture takes the training 5 to 8 ms."""
_BOARD_WIDTH = 36
_PROGRESS_ROWS = 3
_FEWEST_RESULTS = 4
_FEWEST_EVALUATIONS = 2
_FIGURE_WIDTH = 9
_GAP = 2
_DECIMALS = ((100, 1), (10, 2), (1, 3), (0.01, 4), (1e-4, 6), (0, 1))
"""From which size on how many decimals are shown."""
_BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class TrainingSnapshot:
    """How a training run stands.

    `seconds` is the time trained in this sitting. `reasons` counts why games ended. `figures` holds
    the latest value of each, `history` its recent ones. `evaluations` has a line each, newest last.
    `board` is the text of one running game, or empty. `shares` says what the time was spent on.
    """

    run: str
    updates: int
    steps: int
    total_steps: int
    seconds: float
    steps_per_second: float
    eta_seconds: float | None
    games: int
    black_wins: int
    white_wins: int
    draws: int
    cut: int
    reasons: dict[str, int]
    figures: dict[str, float]
    history: dict[str, list[float]]
    evaluations: list[str]
    board: str
    shares: dict[str, float]


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
            self._started().update(_Picture(snapshot), refresh=True)
            self._drawn_at = time.monotonic()

    def message(self, text: str) -> None:
        """Write text above the picture."""
        self._console.print(Text(text))

    def close(self) -> None:
        """Replace the picture by a summary of the last state and give the terminal back."""
        if self._live is not None and self._snapshot is not None:
            self._live.update(_Picture(self._snapshot, last=True))
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


def sparkline(values: Sequence[float], width: int) -> str:
    """The last `width` values as bars between their extremes; a gap for what is not finite."""
    recent = values[-width:] if width > 0 else []
    finite = [value / 2 for value in recent if math.isfinite(value)]  # halves cannot overflow
    low, high = min(finite, default=0.0), max(finite, default=0.0)

    def bar(value: float) -> str:
        if not math.isfinite(value):
            return " "
        return _BARS[round((value / 2 - low) / (high - low) * 7)] if high > low else _BARS[3]

    return "".join(map(bar, recent))


def format_duration(seconds: float | None) -> str:
    """Seconds as 4:05, 1:04:05 or 2d 03:04; `unknown` for None and what is not finite."""
    if seconds is None or not math.isfinite(seconds):
        return "unknown"
    minutes, second = divmod(max(0, round(seconds)), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}d {hour:02}:{minute:02}"
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def format_figure(name: str, value: float) -> str:
    """A figure in nine columns; names that end in `share` are percentages."""
    size = abs(value)
    if not math.isfinite(value):
        return str(value)
    if name.endswith("share"):
        return f"{value:.1%}"
    if size >= 1e6 or 0 < size < 1e-4:
        return f"{value:.2e}"
    if size >= 1000:
        return f"{value:,.0f}"
    decimals = next(digits for least, digits in _DECIMALS if size >= least)
    return f"{value:.{decimals}f}"


def _new_lines(seen: list[str], now: list[str]) -> list[str]:
    """What `now` adds to `seen`, also when it has dropped old lines at its front."""
    for overlap in range(min(len(seen), len(now)), 0, -1):
        if seen[-overlap:] == now[:overlap]:
            return now[overlap:]
    return now


def _plain_line(snapshot: TrainingSnapshot) -> str:
    results = ", ".join(f"{name} {share:.0%}" for name, _, share in _results(snapshot))
    parts = [
        f"update {snapshot.updates:,}",
        f"step {snapshot.steps:,} of {snapshot.total_steps:,} ({_done(snapshot):.1%})",
        f"{snapshot.steps_per_second:,.0f} steps/s",
        f"ETA {format_duration(snapshot.eta_seconds)}",
        f"{snapshot.games:,} games ({results})",
        *(f"{_label(name)} {format_figure(name, v)}" for name, v in snapshot.figures.items()),
    ]
    return " | ".join(parts)


def _done(snapshot: TrainingSnapshot) -> float:
    return min(1.0, snapshot.steps / max(1, snapshot.total_steps))


def _results(snapshot: TrainingSnapshot) -> list[tuple[str, int, float]]:
    counts = {
        "black wins": snapshot.black_wins,
        "white wins": snapshot.white_wins,
        "draws": snapshot.draws,
        "cut": snapshot.cut,
    }
    return [(name, count, count / max(1, snapshot.games)) for name, count in counts.items()]


def _label(name: str) -> str:
    return "KL" if name == "kl" else name.replace("_", " ")


class _Picture:
    """One state as a picture that fits the terminal it is drawn on."""

    def __init__(self, snapshot: TrainingSnapshot, *, last: bool = False) -> None:
        self._snapshot = snapshot
        self._last = last

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        snapshot, width = self._snapshot, options.max_width
        board = snapshot.board if width >= BOARD_FROM_WIDTH and not self._last else ""
        rows = _share_out_rows(snapshot, options.size.height, board)
        left_width = width - _BOARD_WIDTH if board else width
        left = Group(_games(snapshot, rows.results), _learning(snapshot, left_width, rows))
        yield _progress(snapshot, last=self._last)
        if board:
            right = _board(board, rows.results + rows.learning + 2)
            yield _side_by_side(left, left_width, right)
        else:
            yield left
        yield _evaluations(snapshot.evaluations, rows.evaluations)
        if not self._last:
            yield Text()  # where the cursor waits, so that an echoed ^C does not wrap


@dataclass(frozen=True)
class _Rows:
    """Rows inside each panel, and how many figures stand side by side in one."""

    results: int
    learning: int
    evaluations: int
    figures_a_row: int


def _share_out_rows(snapshot: TrainingSnapshot, height: int, board: str) -> _Rows:
    room = height - 1 - 4 * 2 - _PROGRESS_ROWS  # the cursor's row, and the borders of four panels
    figures = len(snapshot.figures)
    figures_a_row = 1 if figures <= room - _FEWEST_RESULTS - _FEWEST_EVALUATIONS else 2
    learning = max(1, math.ceil(figures / figures_a_row))
    endings = len(_endings(snapshot))
    results = max(_FEWEST_RESULTS, min(endings, room - learning - _FEWEST_EVALUATIONS))
    if board:
        learning = max(learning, len(board.splitlines()) - 2 - results)
    evaluations = min(max(3, len(snapshot.evaluations)), max(1, room - learning - results))
    return _Rows(results, learning, evaluations, figures_a_row)


def _side_by_side(left: RenderableType, left_width: int, right: RenderableType) -> Table:
    table = Table.grid()
    table.add_column(width=left_width)
    table.add_column(width=_BOARD_WIDTH)
    table.add_row(left, right)
    return table


def _progress(snapshot: TrainingSnapshot, *, last: bool) -> Panel:
    done = _done(snapshot)
    when = f"ETA {format_duration(snapshot.eta_seconds)}"
    if last:
        when = "finished" if done == 1 else "stopped"
    bar = Table.grid(padding=(0, 1), expand=True)
    bar.add_column(ratio=1)
    bar.add_column(no_wrap=True, justify="right", min_width=6)
    bar.add_column(no_wrap=True, justify="right")
    bar.add_row(ProgressBar(1.0, done), Text(f"{done:.1%}", "bold"), Text(when, "bold cyan"))
    counts = (
        f"update {snapshot.updates:,}",
        f"{snapshot.steps:,} of {snapshot.total_steps:,} steps",
        f"{snapshot.steps_per_second:,.0f} steps/s",
    )
    times = (f"{name} {share:.0%}" for name, share in snapshot.shares.items())
    lines = Group(
        bar,
        _line(" · ".join(counts)),
        _line(" · ".join((f"trained {format_duration(snapshot.seconds)}", *times)), "dim"),
    )
    return _panel(lines, snapshot.run, _PROGRESS_ROWS)


def _endings(snapshot: TrainingSnapshot) -> list[tuple[str, int]]:
    counts = ((name, count) for name, count in snapshot.reasons.items() if count)
    return sorted(counts, key=lambda item: -item[1])


def _games(snapshot: TrainingSnapshot, rows: int) -> Panel:
    table = Table.grid(padding=(0, _GAP))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, justify="right", min_width=7)
    table.add_column(no_wrap=True, justify="right", min_width=6)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, justify="right", min_width=7)
    for result, ending in zip_longest(_results(snapshot), _endings(snapshot)[:rows]):
        cells = [Text()] * 5
        if result is not None:
            name, count, share = result
            cells[:3] = Text(name), Text(f"{count:,}", "bold"), Text(f"{share:.1%}")
        if ending is not None:
            reason, count = ending
            cells[3:] = Text(" " + _label(reason)), Text(f"{count:,}", "bold")
        table.add_row(*cells)
    return _panel(table, f"{snapshot.games:,} games", rows)


def _learning(snapshot: TrainingSnapshot, width: int, rows: _Rows) -> Panel:
    names = list(snapshot.figures)
    height = max(1, math.ceil(len(names) / rows.figures_a_row))
    blocks = [names[start : start + height] for start in range(0, len(names), height)]
    labels = [max(len(_label(name)) for name in block) for block in blocks]
    taken = sum(labels) + (_FIGURE_WIDTH + 2 * _GAP) * len(blocks) + _GAP * (len(blocks) - 1)
    spark_width = (width - 4 - taken) // max(1, len(blocks))
    table = Table.grid(padding=(0, _GAP))
    for label_width in labels:
        table.add_column(no_wrap=True, width=label_width)
        table.add_column(no_wrap=True, width=_FIGURE_WIDTH, justify="right")
        table.add_column(no_wrap=True, width=max(0, spark_width))
    for row in zip_longest(*blocks):
        cells = (_figure_cells(snapshot, name, spark_width) for name in row if name)
        table.add_row(*chain.from_iterable(cells))
    return _panel(table, "Learning", rows.learning)


def _figure_cells(snapshot: TrainingSnapshot, name: str, spark_width: int) -> tuple[Text, ...]:
    value = snapshot.figures[name]
    style = "bold" if math.isfinite(value) else "bold red"
    spark = sparkline(snapshot.history.get(name, []), spark_width if spark_width >= 4 else 0)
    return Text(_label(name)), Text(format_figure(name, value), style), Text(spark, "cyan")


def _evaluations(lines: list[str], rows: int) -> Panel:
    shown = [_line(line, "green") for line in lines[-rows:]] or [_line("none yet", "dim")]
    return _panel(Group(*shown), "Evaluation", rows)


def _board(board: str, rows: int) -> Panel:
    text = Text(board, no_wrap=True)
    text.highlight_regex(r"(?<=\s)\+?[A-Z](?= )", "bold")
    text.highlight_regex(r"(?<=\s)\+?[a-z](?= )", "magenta")
    text.highlight_regex(r" \.", "dim")
    return _panel(Align.center(text, vertical="middle"), "A game", rows)


def _line(text: str, style: str = "") -> Text:
    return Text(text, style, no_wrap=True, overflow="ellipsis")


def _panel(content: RenderableType, title: str, rows: int) -> Panel:
    heading = Text(title, "bold")
    return Panel(content, title=heading, title_align="left", height=rows + 2, border_style="dim")
