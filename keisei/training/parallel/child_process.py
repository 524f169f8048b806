"""How processes are started here, and how each ends when the main process is gone."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from typing import Any

from keisei.training.memory_reuse import bound_primitive_caches, keep_freed_memory

_PR_SET_PDEATHSIG = 1
_NICENESS = 19


SELF_PLAY = "keisei.training.parallel.self_play_preload"
WORLDS = "keisei.training.parallel.world_preload"


def child_context(preload: str = SELF_PLAY) -> ForkServerContext:
    """Children are forked from a server process that has loaded what they need.

    The server never touches a GPU and runs no threads, so forking it is safe. A replacement starts
    in a tenth of a second; a process started from nothing takes three or four, most of it importing
    torch and loading compiled code. There is one server, with what the first who needs it asks for.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__", preload])
    return context


def start_child(process: BaseProcess) -> None:
    """Start a process of `child_context`; OSError or EOFError when its server dies just then."""
    _ensure_server()
    process.start()


def _ensure_server() -> None:
    """Have a server that Ctrl-C cannot end, not even while it is loading."""
    resource_tracker.ensure_running()  # here, because it unblocks the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def settle_as_child(*, gives_way: bool) -> None:
    """To be called first in a child: signals, threads and priority.

    Ctrl-C reaches every process of a terminal; only the main one decides what it means. A child
    that `gives_way` runs when the others do not need the cores: workers then play between two
    updates rather than during one, with newer weights and no loss of time.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _die_with_parent()
    keep_freed_memory()
    bound_primitive_caches()
    import torch

    torch.set_num_threads(1)
    if gives_way:
        os.nice(_NICENESS)


def leave_cores_at_once() -> None:
    """Give way to whoever wakes up, and not when a time slice of some milliseconds is used up.

    For workers that play beside learners on the same cores. Linux then also takes a core on which
    nobody else runs for a free one. Else it wakes up two learners on one core now and then, where
    they take turns for seconds. OSError where that is forbidden; other systems know no such thing.
    """
    if sys.platform == "linux":
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def _die_with_parent() -> None:
    """Be killed when the server (which ends with the main process) does, even if stopped.

    Where the system cannot do that, a child still ends as soon as it finds its pipe closed.
    """
    # The server lives as long as anybody holds the pipe that every child is given too: a child
    # that is stopped would keep it alive, and with it itself.
    server: Any = forkserver._forkserver
    if server._forkserver_alive_fd is not None:
        os.close(server._forkserver_alive_fd)
        server._forkserver_alive_fd = None
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
