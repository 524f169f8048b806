"""`Fence`: an order for what other processes see of this one's reads and writes."""

from __future__ import annotations

import threading


class Fence:
    """Calling it makes what comes before happen before what comes after, as all processes see it.

    x86 keeps stores in order, and loads, but lets a load pass an earlier store; ARM keeps less, and
    Python has no fence. But a lock has half of one each way: nothing moves down past a release,
    nothing up past an acquire, and an acquire does not pass the release of the same lock before it.
    So the lock is always held, and a release with an acquire after it (not the other way round) is
    the fence.
    """

    def __init__(self) -> None:
        self._held = threading.Lock()
        self._held.acquire()

    def __call__(self) -> None:
        """Let no read or write pass from one side of this call to the other."""
        self._held.release()
        self._held.acquire()
