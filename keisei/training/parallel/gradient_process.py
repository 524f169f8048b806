"""A helper process of the learner: from inside `help_learning`, from outside `HelperProcess`.

The helper says READY once. Then each order on the board is a `Part`, and is answered there, or by
FAILED with the traceback through the pipe. The end of the pipe is the sign to stop.
"""

from __future__ import annotations

import time
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NamedTuple

from keisei.core.ppo_agent import PPOAgent
from keisei.training.parallel.child_process import settle_as_child
from keisei.training.parallel.gradient_parts import GradientParts, LearnerShape, Part
from keisei.training.parallel.order_board import OrderBoard
from keisei.training.parallel.shared_memory import SharedMemory
from keisei.training.timeline import Timeline

SECONDS_TO_START = 120.0
SECONDS_TO_STOP = 1.0
_READY, _FAILED = b"ready", b"failed"


class HelperSetup(NamedTuple):
    """All that a helper is told when it starts."""

    number: int
    shape: LearnerShape
    memory: SharedMemory
    pipe: Connection
    trace_path: Path | None


def help_learning(setup: HelperSetup) -> None:
    """The whole life of a helper process."""
    settle_as_child(gives_way=False)
    timeline = Timeline(setup.trace_path, f"helper {setup.number}")
    try:
        _follow_orders(setup, timeline)
    except (EOFError, ConnectionError):
        pass  # the main process has closed the pipe or is gone
    except BaseException:
        with suppress(OSError):
            setup.pipe.send_bytes(_FAILED + traceback.format_exc().encode())
        raise SystemExit(1) from None
    finally:
        timeline.close()


def _follow_orders(setup: HelperSetup, timeline: Timeline) -> None:
    shape = setup.shape
    agent = PPOAgent(shape.model, shape.ppo, mixed_precision=shape.mixed_precision)
    parts = GradientParts(agent, setup.memory, shape, keep_weights=False)
    number, board, pipe = setup.number, parts.board, setup.pipe
    ticket = board.posted(number)
    pipe.send_bytes(_READY)
    while True:
        with timeline.span("wait"):
            ticket, order = board.next_order(number, ticket, pipe)
        with timeline.span("gradient"):
            parts.compute(number, Part.decode(order))
        board.answer(number, ticket, pipe)


class HelperLostError(Exception):
    """A helper died, failed or is silent; the message says which."""


class HelperProcess:
    """The main process's side of one helper. All methods raise `HelperLostError`, but `end`."""

    def __init__(
        self, number: int, process: BaseProcess, pipe: Connection, board: OrderBoard
    ) -> None:
        self._number, self._process, self._pipe, self._board = number, process, pipe, board
        self._ready = False
        self._awaited = 0
        self._started = time.monotonic()

    def is_ready(self, timeout: float = 0.0) -> bool:
        """Whether it takes orders, waiting for that a while."""
        if not self._ready and self._receive(timeout) is None:
            if time.monotonic() > self._started + SECONDS_TO_START:
                raise HelperLostError(f"was not ready in {SECONDS_TO_START:.0f} seconds")
            return False
        self._ready = True
        return True

    def takes(self, part: Part) -> bool:
        """Order the gradient of a part; False if the helper is not ready yet."""
        if not self.is_ready():
            return False
        try:
            self._board.post(self._number, part.ticket, part.encode(), self._pipe)
        except OSError:
            raise self._died() from None
        self._awaited = part.ticket
        return True

    def has_done_it(self, deadline: float) -> bool:
        """Wait until the gradient is in its row, which is True, or the helper lost."""

        def wakes_us() -> bool:
            return self._receive(max(deadline - time.monotonic(), 0.0)) is not None

        if not self._board.await_answer(self._number, self._awaited, wakes_us):
            raise HelperLostError("did not answer in time and was killed")
        return True

    def _receive(self, timeout: float) -> bytes | None:
        """Its next message, None when there is none in that time."""
        try:
            if not self._pipe.poll(timeout):
                return None
            message = self._pipe.recv_bytes()
        except (EOFError, OSError):
            raise self._died() from None
        if message.startswith(_FAILED):
            raise HelperLostError(f"failed:\n{message.removeprefix(_FAILED).decode()}")
        return message

    def _died(self) -> HelperLostError:
        self._process.join(SECONDS_TO_STOP)
        return HelperLostError(f"died with exit code {self._process.exitcode}")

    def hang_up(self) -> None:
        """Close the pipe, on which the helper ends by itself."""
        self._pipe.close()

    def end(self, deadline: float = 0.0) -> None:
        """Hang up, wait for its end until the deadline, then kill it."""
        self.hang_up()
        self._process.join(max(deadline - time.monotonic(), 0.0))
        self._process.kill()
        self._process.join(SECONDS_TO_STOP)
        if not self._process.is_alive():  # else it is stuck in the kernel, and never runs again
            self._process.close()
