"""Rows of a batch shared out to threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

_ROWS_A_THREAD = 32


def number_of_parts(rows: int, threads: int) -> int:
    """How many of so many threads share so many rows."""
    return max(1, min(threads, rows // _ROWS_A_THREAD))


def in_threads(rows: int, threads: int, work: Callable[[slice, int], None]) -> None:
    """Do `work`, which lets other threads run, for some rows and the number of that part."""
    parts = number_of_parts(rows, threads)
    borders = [part * rows // parts for part in range(parts + 1)]
    slices = [slice(borders[part], borders[part + 1]) for part in range(parts)]
    if parts == 1:
        work(slices[0], 0)
    else:
        list(_threads(parts).map(work, slices, range(parts)))


@cache
def _threads(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, "rows")
