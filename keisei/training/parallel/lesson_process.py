"""A process in which models learn: from inside `learn_lessons`, from outside `LessonProcess`.

A lesson goes to the process by its pipe, and so does the answer. What the model goes on from, its
weights and moments above all, lies in memory that both see: it is written there before the lesson,
and read from there after it. A process that dies has therefore changed nothing.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, SpawnContext
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from keisei.gridworld.stack import Failure, Figures, LearningModel
from keisei.training.parallel.child_process import settle_as_child, start_child
from keisei.training.parallel.shared_memory import ArraySpec, SharedMemory

SECONDS_TO_STOP = 1.0
State = tuple[Mapping[str, NDArray[Any]], Mapping[str, Any]]
"""What a model's `state` gives."""
_ROOM_TO_GROW = 4
"""Times the size of what a model goes on from: Adam's moments come with its first step."""


class LessonLostError(Exception):
    """A process died or did not answer; the message says which."""


class _Order(NamedTuple):
    recipe: bytes
    """A pickled `Recipe`: models are made once, and kept."""
    layout: list[ArraySpec]
    values: Mapping[str, Any]
    lesson: Any


class _Answer(NamedTuple):
    outcome: Figures | Failure
    layout: list[ArraySpec]
    values: Mapping[str, Any]


def learn_lessons(pipe: Connection, memory: SharedMemory) -> None:
    """The whole life of such a process."""
    settle_as_child(gives_way=False)
    models: dict[bytes, LearningModel] = {}
    with suppress(EOFError, ConnectionError):  # the main process has closed the pipe or is gone
        while True:
            order = _Order(*pickle.loads(pipe.recv_bytes()))
            pipe.send_bytes(pickle.dumps(tuple(_answer(order, memory, models))))


def _answer(order: _Order, memory: SharedMemory, models: dict[bytes, LearningModel]) -> _Answer:
    try:
        if order.recipe not in models:
            models[order.recipe] = pickle.loads(order.recipe)()
        model = models[order.recipe]
        model.load_state(memory.arrays(order.layout), order.values)
        figures = model.learn(order.lesson)
        arrays, values = model.state()
        layout = layout_of(arrays)
        _write(memory, layout, arrays)
    except Exception as error:
        return _Answer(Failure.of(error), [], {})
    return _Answer(figures, layout, values)


def layout_of(arrays: Mapping[str, NDArray[Any]]) -> list[ArraySpec]:
    """Of arrays by name, one after the other."""
    return [ArraySpec(name, array.dtype.str, array.shape) for name, array in arrays.items()]


def _write(
    memory: SharedMemory, layout: list[ArraySpec], arrays: Mapping[str, NDArray[Any]]
) -> None:
    for name, place in memory.arrays(layout).items():
        np.copyto(place, arrays[name])


class LessonProcess:
    """The main process's side; one lesson at a time. Starts with the first lesson."""

    def __init__(self, context: ForkServerContext | SpawnContext, number: int, size: int) -> None:
        self.room = size * _ROOM_TO_GROW + 2**20
        """Bytes that the state of a model can have."""
        self._memory = SharedMemory(self.room)
        self._pipe, theirs = context.Pipe()
        self._late = False
        self._process = context.Process(
            target=learn_lessons,
            args=(theirs, self._memory),
            name=f"keisei lessons {number}",
            daemon=True,
        )
        start_child(self._process)
        theirs.close()

    def learn(
        self, recipe: bytes, state: State, lesson: Any, timeout: float | None
    ) -> tuple[Figures | Failure, State]:
        """What becomes of a lesson, and what the model then goes on from; or `LessonLostError`.

        recipe: a pickled `Recipe`.
        """
        arrays, values = state
        layout = layout_of(arrays)
        _write(self._memory, layout, arrays)
        order = pickle.dumps(tuple(_Order(recipe, layout, values, lesson)))
        with self._killed_after(timeout):
            answer = self._exchange(order, timeout)
        if isinstance(answer.outcome, Failure):
            return answer.outcome, state
        learned = self._memory.arrays(answer.layout)
        return answer.outcome, ({name: a.copy() for name, a in learned.items()}, answer.values)

    def _exchange(self, order: bytes, timeout: float | None) -> _Answer:
        try:
            self._pipe.send_bytes(order)
            return _Answer(*pickle.loads(self._pipe.recv_bytes()))
        except (EOFError, OSError):
            pass
        if self._late:
            raise LessonLostError(f"its process did not answer in {timeout:g} seconds")
        self._process.join(SECONDS_TO_STOP)
        raise LessonLostError(f"its process died with exit code {self._process.exitcode}")

    @contextmanager
    def _killed_after(self, timeout: float | None) -> Iterator[None]:
        """Kill the process if it takes longer, also if it does not even read its order."""
        if timeout is None:
            yield
            return
        timer = threading.Timer(timeout, self._give_up)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _give_up(self) -> None:
        self._late = True
        self._process.kill()

    def end(self) -> None:
        """Have it end, by itself if it listens, and give back the memory."""
        self._pipe.close()
        self._process.join(SECONDS_TO_STOP)
        self._process.kill()
        self._process.join(SECONDS_TO_STOP)
        if not self._process.is_alive():  # else it is stuck in the kernel, and never runs again
            self._process.close()
        self._memory.close()
