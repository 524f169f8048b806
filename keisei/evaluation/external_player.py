"""`ExternalPlayer`: engines in processes of their own, one for each seat."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from keisei.evaluation.engine_process import EngineError
from keisei.evaluation.players import NoMove
from keisei.shogi.errors import NotationError
from keisei.shogi.policy_output_mapper import PolicyOutputMapper
from keisei.shogi.vector_shogi import VectorShogi

_SPOKEN = {"resign": NoMove.RESIGNS, "win": NoMove.DECLARES}
_log = logging.getLogger(__name__)


class Engine(Protocol):
    """A process that plays one game at a time. What goes wrong with it is an `EngineError`."""

    def get_ready(self) -> None:
        """Wait until it can play, with the settings it was given."""

    def answer(self, moves: Sequence[str]) -> str:
        """What it plays after these moves from the start position: a move, `resign` or `win`.

        When the moves do not go on from those of the call before, a new game begins.
        """

    def kill(self) -> None:
        """End the process at once, from any thread."""

    def close(self) -> None:
        """End the process and free what it held."""


class ExternalPlayer:
    """Plays the game of each row by a process of that row.

    There are two seats for each core. In every other game of a match the engine has the other
    colour, so as a rule half of the engines think while the opponent chooses its moves; never do
    more engines think at once than there are cores. An engine that fails has lost its game; the
    row's next game gets a new process.
    """

    def __init__(self, name: str, start: Callable[[], Engine]) -> None:
        """`start` makes an engine. The first is started now, to find out if it works at all."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        self.name = name
        self.seats: int | None = 2 * (cores or 1)
        self._start = start
        self._engines: dict[int, Engine] = {0: start()}
        try:
            self._engines[0].get_ready()
        except BaseException:
            self._engines[0].close()
            raise
        self._threads = ThreadPoolExecutor(cores)
        self._answers: dict[int, Future[str | NoMove]] = {}
        self._closing = False

    def think(self, games: VectorShogi, rows: NDArray[np.int64]) -> None:
        """Have the engines of these rows think."""
        for row, moves in zip(rows.tolist(), _moves_of(games, rows), strict=True):
            self._answers[row] = self._threads.submit(self._answer, row, moves)

    def choose(self, games: VectorShogi, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """[R] int64: what the engines answer."""
        if not self._answers:
            self.think(games, rows)
        answers = [self._answers.pop(row).result() for row in rows.tolist()]
        chosen = [
            self._judge(games, row, answer) for row, answer in zip(rows, answers, strict=True)
        ]
        return np.array(chosen, np.int64)

    def _answer(self, row: int, moves: list[str]) -> str | NoMove:
        """The answer of the row's engine, in a thread of its own; started if there is none."""
        try:
            if row not in self._engines:
                self._engines[row] = self._start()
            if self._closing:  # which may not have seen an engine that is so new
                return NoMove.CRASHED
            return self._engines[row].answer(moves)
        except EngineError as error:
            if not self._closing:
                _log.warning("game lost: %s", error)
                if row in self._engines:
                    self._engines.pop(row).close()
            return error.reason

    def _judge(self, games: VectorShogi, row: int, answer: str | NoMove) -> int:
        """The action of an answer, or what it says instead."""
        if isinstance(answer, NoMove):
            return answer
        if answer in _SPOKEN:
            return _SPOKEN[answer]
        try:
            action = PolicyOutputMapper.action_of(answer, int(games.mover[row]))
        except NotationError:
            action = -1
        if action in games.legal[row, : games.legal_counts[row]]:
            return action
        _log.warning("game lost: %s answered %r, which is not a legal move", self.name, answer)
        return NoMove.ILLEGAL_MOVE

    def close(self) -> None:
        """End all processes, also those that are thinking."""
        self._closing = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        for engine in list(self._engines.values()):
            engine.kill()
        self._threads.shutdown(wait=True)
        for engine in self._engines.values():
            engine.close()


def _moves_of(games: VectorShogi, rows: NDArray[np.int64]) -> list[list[str]]:
    """The USI moves of the game in each row, from its start."""
    actions = games.state(rows)["actions"]
    return [
        [PolicyOutputMapper.move_of(int(a), ply % 2) for ply, a in enumerate(row[1 : plies + 1])]
        for row, plies in zip(actions, games.ply[rows], strict=True)
    ]
