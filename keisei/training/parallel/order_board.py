"""`OrderBoard`: orders to helpers and their answers, in memory that both sides watch.

A message through a pipe costs the sender a system call and the receiver its sleep, thirteen times
over in each gradient step of a sixteen-core machine. So both sides first look at the board, for
their `patience`, and only then fall asleep at the pipe: whoever finds the other asleep wakes it by
a message there. With no patience this is a protocol of messages, for processes that have to share
their cores.

Nobody oversleeps: a sleeper says that it sleeps and then looks at the board once more, the other
side changes the board and then looks whether somebody sleeps, each with a fence between the two.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keisei.training.parallel.fence import Fence
from keisei.training.parallel.shared_memory import ArraySpec

WAKE_UP = b"wake up"
_LINE = 8  # numbers in a cache line


def order_board_layout(learners: int, order_bytes: int) -> list[ArraySpec]:
    """The arrays of a board; no two helpers write to the same cache line."""
    lines = -(-order_bytes // 64) * 64
    return [
        ArraySpec("orders", np.uint8, (learners, lines)),
        *(
            ArraySpec(name, np.int64, (learners, _LINE))
            for name in ("posted", "answered", "helper_sleeps", "main_sleeps")
        ),
    ]


class OrderBoard:
    """One side's view of the board; an order has a ticket that no other order has."""

    def __init__(
        self, arrays: dict[str, NDArray[Any]], order_bytes: int, *, patience: float
    ) -> None:
        self._orders: NDArray[np.uint8] = arrays["orders"][:, :order_bytes]
        self._posted, self._answered, self._helper_sleeps, self._main_sleeps = (
            arrays[name][:, 0] for name in ("posted", "answered", "helper_sleeps", "main_sleeps")
        )
        self._patience = patience
        self._fence = Fence()

    def post(self, number: int, ticket: int, order: bytes, pipe: Connection) -> None:
        """Give helper `number` an order; OSError if it sleeps and cannot be woken."""
        self._orders[number] = np.frombuffer(order, np.uint8)
        self._fence()
        self._posted[number] = ticket
        self._fence()
        if self._helper_sleeps[number]:
            pipe.send_bytes(WAKE_UP)

    def posted(self, number: int) -> int:
        """The ticket of a helper's last order."""
        return int(self._posted[number])

    def next_order(self, number: int, last: int, pipe: Connection) -> tuple[int, bytes]:
        """A helper's next ticket after `last` and its order; EOFError when nobody gives orders."""

        def there() -> bool:
            return bool(self._posted[number] != last)

        self._helper_sleeps[number] = 0  # whatever one before it left
        while not self._seen(there):
            self._helper_sleeps[number] = 1
            self._fence()
            if not there():
                pipe.recv_bytes()  # perhaps a call from before, when it had just woken by itself
            self._helper_sleeps[number] = 0
        self._fence()
        return self.posted(number), self._orders[number].tobytes()

    def answer(self, number: int, ticket: int, pipe: Connection) -> None:
        """Say that an order is carried out."""
        self._fence()
        self._answered[number] = ticket
        self._fence()
        if self._main_sleeps[number]:
            pipe.send_bytes(WAKE_UP)

    def await_answer(self, number: int, ticket: int, receive: Callable[[], bool]) -> bool:
        """Whether helper `number` has carried out an order; `receive` waits for a message from it.

        False as soon as `receive` says that there is none.
        """

        def there() -> bool:
            return bool(self._answered[number] == ticket)

        if not self._seen(there):
            self._main_sleeps[number] = 1
            self._fence()
            try:
                while not there():
                    if not receive():
                        break
            finally:  # also when the helper turns out to be lost
                self._main_sleeps[number] = 0
        self._fence()
        return there()

    def _seen(self, there: Callable[[], bool]) -> bool:
        """Whether something is there, looking as long as patience lasts."""
        deadline = time.perf_counter() + self._patience
        while not there():
            if time.perf_counter() >= deadline:
                return False
            os.sched_yield()
        return True
