"""GNU Shogi, which speaks a protocol of its own."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

from keisei.evaluation.engine_process import EngineError, EngineProcess
from keisei.evaluation.players import NoMove

# Its time limits are unreliable, so it gets one that is never reached and a depth.
_COMMAND = ("gnushogi", "-X", "-a", "1", ":01")
_ANSWER_SECONDS = 60.0
_ITS_MOVE = re.compile(r"\d+\. \.\.\. (\S+)")
_OUR_MOVE = re.compile(r"\d+\. (?!\.\.\.)(\S+)")


class GnuShogiEngine:
    """One process that plays one game at a time."""

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._process = EngineProcess(_COMMAND)
        self._moves: list[str] = []

    def get_ready(self) -> None:
        """See that it is there: it begins with its name."""
        deadline = time.monotonic() + _ANSWER_SECONDS
        while "GNU Shogi" not in self._process.read_line(deadline):
            pass

    def answer(self, moves: Sequence[str]) -> str:
        """What it plays after these moves from the start position: a move or `resign`."""
        if not self._moves or list(moves[: len(self._moves)]) != self._moves:
            self._process.send("new", "depth", str(self._depth))
            self._moves = []
        self._process.send("force")  # else it would answer each move
        for move in moves[len(self._moves) :]:
            self._tell(move)
        self._process.send("go")
        answer = self._read_answer()
        self._moves = [*moves, answer]
        return answer

    def _tell(self, move: str) -> None:
        """Play a move on its board; it confirms each."""
        self._process.send(move)
        deadline = time.monotonic() + _ANSWER_SECONDS
        while True:
            line = self._process.read_line(deadline)
            confirmed = _OUR_MOVE.search(line)
            if confirmed is not None and confirmed[1] == move:
                return
            if "Illegal move" in line:
                raise EngineError(NoMove.REFUSES_MOVE, f"gnushogi calls {move} illegal")

    def _read_answer(self) -> str:
        deadline = time.monotonic() + _ANSWER_SECONDS
        while True:
            line = self._process.read_line(deadline)
            move = _ITS_MOVE.search(line)
            if move is not None:
                return move[1]
            if "resigns" in line.lower():
                return "resign"

    def kill(self) -> None:
        """End its process at once, from any thread."""
        self._process.kill()

    def close(self) -> None:
        """End its process."""
        self._process.close()
