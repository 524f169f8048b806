"""How many threads torch computes with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with this thread alone while entered.

    Beside busy workers a second thread waits for a free core: copying 5 M weights took 60 ms
    instead of 2 beside one worker on two cores. And a sum over one thread has the same bits
    everywhere.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
