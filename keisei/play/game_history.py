"""`GameHistory`: a position and what led to it, as the kernels of the searches read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keisei.shogi.errors import IllegalMoveError
from keisei.shogi.judging import record_position, start_history
from keisei.shogi.movegen import generate
from keisei.shogi.policy_output_mapper import PolicyOutputMapper
from keisei.shogi.position import MAX_LEGAL_MOVES, make_move, new_games
from keisei.shogi.sfen import parse_sfen


class GameHistory:
    """One game: `records` [1] GAME, `keys` and `check_runs` [1, M + 1] as in `judging`."""

    def __init__(
        self,
        records: NDArray[Any],
        keys: NDArray[np.uint64],
        check_runs: NDArray[np.uint16],
    ) -> None:
        self.records = records
        self.keys = keys
        self.check_runs = check_runs
        self.legal = np.zeros((1, MAX_LEGAL_MOVES), np.uint16)
        self.legal_count = int(generate(records[0], self.legal, 0))

    @classmethod
    def of(cls, sfen: str, moves: Sequence[str]) -> GameHistory:
        """The game that began at `sfen` and went on with USI `moves`."""
        records, _ = parse_sfen(sfen)
        shape = (1, len(moves) + 1)
        game = cls(records, np.zeros(shape, np.uint64), np.zeros(shape, np.uint16))
        start_history(records[0], game.keys, game.check_runs, 0)
        for move in moves:
            game._play(move)
        return game

    @classmethod
    def of_row(cls, state: Mapping[str, NDArray[Any]], row: int) -> GameHistory:
        """A game out of the `state` of a `VectorShogi`."""
        records = new_games(1)
        for name in records.dtype.names or ():
            records[name][0] = state[name][row]
        return cls(records, state["keys"][row : row + 1], state["check_runs"][row : row + 1])

    @property
    def mover(self) -> int:
        """Whose turn it is: 0 black, 1 white."""
        return int(self.records[0].mover)

    @property
    def ply(self) -> int:
        """Moves played since the start position."""
        return int(self.records[0].ply)

    def _play(self, move: str) -> None:
        record = self.records[0]
        action = PolicyOutputMapper.action_of(move, self.mover)
        if action not in self.legal[0, : self.legal_count]:
            raise IllegalMoveError(f"{move} is not legal after {self.ply} moves")
        make_move(record, action)
        self.legal_count = int(generate(record, self.legal, 0))
        record_position(record, self.keys, self.check_runs, 0)

    def state(self) -> dict[str, NDArray[Any]]:
        """The game as arrays by name, as `VectorShogi.state` gives them."""
        fields = {name: self.records[name] for name in self.records.dtype.names or ()}
        return {**fields, "keys": self.keys, "check_runs": self.check_runs}
