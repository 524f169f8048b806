"""The progress bar of a match."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


@contextmanager
def progress_bar(games: int, over: int) -> Iterator[Callable[[int], None]]:
    """A bar on stderr, where that is a terminal; the function given moves it to so many games."""
    console = Console(stderr=True)
    columns = (TextColumn("games"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        bar = progress.add_task("games", total=games, completed=over)
        yield lambda done: progress.update(bar, completed=done)
