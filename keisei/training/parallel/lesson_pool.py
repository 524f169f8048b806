"""`ProcessLessonPool`: processes in which models that cannot be stacked learn at the same time.

Python's own work in a model's learning is shared out to processors, which threads cannot do. The
processes are forked from a server that has never touched a GPU.
"""

from __future__ import annotations

import pickle
import queue
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.context import ForkServerContext, SpawnContext
from typing import Any

from keisei.gridworld.parallel_pool import Recipe
from keisei.gridworld.stack import Failure, Figures, LearningModel
from keisei.training.parallel.child_process import WORLDS, child_context
from keisei.training.parallel.lesson_process import LessonLostError, LessonProcess, layout_of
from keisei.training.parallel.shared_memory import size_of


class LessonFailedError(RuntimeError):
    """A lesson failed in its process; the message holds the traceback from there."""


class ProcessLessonPool:
    """A `LessonPool` of so many processes, each of which starts with its first lesson.

    A process that dies, or takes longer than `timeout` seconds for a lesson and is killed, costs
    its agent that lesson; the next lesson starts another in its place.
    """

    def __init__(
        self,
        processes: int,
        *,
        timeout: float | None = None,
        context: ForkServerContext | SpawnContext | None = None,
    ) -> None:
        if processes < 1:
            raise ValueError(f"a pool has at least one process, not {processes}")
        self.processes = processes
        self._timeout, self._context = timeout, context or child_context(WORLDS)
        self._running: dict[int, LessonProcess] = {}
        self._free: queue.SimpleQueue[int] = queue.SimpleQueue()
        for number in range(processes):
            self._free.put(number)

    def learn(self, recipe: Recipe, model: LearningModel, lesson: Any) -> Figures:
        """Have a process learn in the model's place; afterwards the model is what came of it.

        Threads may ask at the same time, and wait where all processes are busy.
        """
        state, pickled = model.state(), _pickled(recipe)
        with self._process_for(size_of(layout_of(state[0]))) as process:
            outcome, learned = process.learn(pickled, state, lesson, self._timeout)
        if isinstance(outcome, Failure):
            raise LessonFailedError(f"{outcome.reason}\n\n{outcome.traceback}")
        model.load_state(*learned)
        return outcome

    @contextmanager
    def _process_for(self, size: int) -> Iterator[LessonProcess]:
        """A free process with room for a state of this size; one that is lost is ended."""
        number = self._free.get()
        try:
            process = self._running.get(number)
            if process is not None and process.room < size:
                self._end(number)
                process = None
            if process is None:
                process = self._running[number] = LessonProcess(self._context, number, size)
            yield process
        except LessonLostError:
            self._end(number)
            raise
        finally:
            self._free.put(number)

    def _end(self, number: int) -> None:
        process = self._running.pop(number, None)
        if process is not None:  # else `close` was faster
            process.end()

    def close(self) -> None:
        """End the processes; the next lesson starts them anew."""
        for number in list(self._running):
            self._end(number)


def _pickled(recipe: Recipe) -> bytes:
    try:
        return pickle.dumps(recipe)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise LessonFailedError(
            f"what makes the model cannot be pickled, so no process can make it ({error}): use a "
            "class or function of a module"
        ) from None
