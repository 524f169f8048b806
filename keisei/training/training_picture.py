"""A training run as a picture that fits the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, zip_longest

from rich.align import Align
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from keisei.training.training_snapshot import (
    TrainingSnapshot,
    done_share,
    format_duration,
    format_figure,
    label_of,
    results_of,
    sparkline,
)

BOARD_FROM_WIDTH = 100
"""Columns of a terminal from which the board is shown beside the figures."""
_BOARD_WIDTH = 36
_PROGRESS_ROWS = 3
_FEWEST_RESULTS = 4
_FEWEST_EVALUATIONS = 2
_MOST_WORKERS = 5
_HEIGHT_FOR_WORKERS = 34
"""Rows of a terminal from which workers are shown."""
_FIGURE_WIDTH = 9
_GAP = 2


class TrainingPicture:
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
        panels = [_games(snapshot, rows.results)] if snapshot.results else []
        left = Group(*panels, _learning(snapshot, left_width, rows))
        yield _progress(snapshot, last=self._last)
        if board:
            between = 2 if snapshot.results else 0  # the borders of two panels
            right = _board(snapshot, rows.results + rows.learning + between)
            yield _side_by_side(left, left_width, right)
        else:
            yield left
        if rows.workers:
            yield _workers(snapshot, rows.workers)
        yield _evaluations(snapshot, rows.evaluations)
        if not self._last:
            yield Text()  # where the cursor waits, so that an echoed ^C does not wrap


@dataclass(frozen=True)
class _Rows:
    """Rows inside each panel, and how many figures stand side by side in one."""

    results: int
    learning: int
    evaluations: int
    workers: int
    figures_a_row: int


def _share_out_rows(snapshot: TrainingSnapshot, height: int, board: str) -> _Rows:
    room = height - 1 - 4 * 2 - _PROGRESS_ROWS  # the cursor's row, and the borders of four panels
    workers = min(len(snapshot.workers), _MOST_WORKERS) if height >= _HEIGHT_FOR_WORKERS else 0
    room -= workers + 2 if workers else 0
    figures = len(snapshot.figures)
    figures_a_row = 1 if figures <= room - _FEWEST_RESULTS - _FEWEST_EVALUATIONS else 2
    learning = max(1, math.ceil(figures / figures_a_row))
    endings = len(_endings(snapshot))
    results = max(_FEWEST_RESULTS, min(endings, room - learning - _FEWEST_EVALUATIONS))
    results = results if snapshot.results else 0
    if board:
        between = 2 if snapshot.results else 0
        learning = max(learning, min(len(board.splitlines()) - between - results, room - 1))
    evaluations = min(max(3, len(snapshot.evaluations)), max(1, room - learning - results))
    return _Rows(results, learning, evaluations, workers, figures_a_row)


def _side_by_side(left: RenderableType, left_width: int, right: RenderableType) -> Table:
    table = Table.grid()
    table.add_column(width=left_width)
    table.add_column(width=_BOARD_WIDTH)
    table.add_row(left, right)
    return table


def _progress(snapshot: TrainingSnapshot, *, last: bool) -> Panel:
    done = done_share(snapshot)
    when = f"ETA {format_duration(snapshot.eta_seconds)}"
    if last:
        when = "finished" if done == 1 else "stopped"
    bar = Table.grid(padding=(0, 1), expand=True)
    bar.add_column(ratio=1)
    bar.add_column(no_wrap=True, justify="right", min_width=6)
    bar.add_column(no_wrap=True, justify="right")
    bar.add_row(ProgressBar(1.0, done), Text(f"{done:.1%}", "bold"), Text(when, "bold cyan"))
    counts = (
        f"{snapshot.round_name} {snapshot.updates:,}",
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
    for result, ending in zip_longest(results_of(snapshot), _endings(snapshot)[:rows]):
        cells = [Text()] * 5
        if result is not None:
            name, count, share = result
            cells[:3] = Text(name), Text(f"{count:,}", "bold"), Text(f"{share:.1%}")
        if ending is not None:
            reason, count = ending
            cells[3:] = Text(" " + label_of(reason)), Text(f"{count:,}", "bold")
        table.add_row(*cells)
    return _panel(table, f"{snapshot.games:,} games", rows)


def _learning(snapshot: TrainingSnapshot, width: int, rows: _Rows) -> Panel:
    names = list(snapshot.figures)
    height = max(1, math.ceil(len(names) / rows.figures_a_row))
    blocks = [names[start : start + height] for start in range(0, len(names), height)]
    labels = [max(len(label_of(name)) for name in block) for block in blocks]
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
    return Text(label_of(name)), Text(format_figure(name, value), style), Text(spark, "cyan")


def _workers(snapshot: TrainingSnapshot, rows: int) -> Panel:
    lines = snapshot.workers
    hidden = len(lines) - rows
    shown = lines if hidden <= 0 else [*lines[: rows - 1], f"… and {hidden + 1} more"]
    return _panel(Group(*(_line(line) for line in shown)), snapshot.workers_title, rows)


def _evaluations(snapshot: TrainingSnapshot, rows: int) -> Panel:
    lines = [_line(line, "green") for line in snapshot.evaluations[-rows:]]
    shown = lines or [_line("none yet", "dim")]
    return _panel(Group(*shown), snapshot.evaluations_title, rows)


def _board(snapshot: TrainingSnapshot, rows: int) -> Panel:
    text = Text(snapshot.board, no_wrap=True)
    text.highlight_regex(r"(?<=\s)\+?[A-Z](?= )", "bold")
    text.highlight_regex(r"(?<=\s)\+?[a-z](?= )", "magenta")
    text.highlight_regex(r" \.", "dim")
    return _panel(Align.center(text, vertical="middle"), snapshot.board_title, rows)


def _line(text: str, style: str = "") -> Text:
    return Text(text, style, no_wrap=True, overflow="ellipsis")


def _panel(content: RenderableType, title: str, rows: int) -> Panel:
    heading = Text(title, "bold")
    return Panel(content, title=heading, title_align="left", height=rows + 2, border_style="dim")
