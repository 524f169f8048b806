"""`VectorShogi`: B games of shogi stepped by one compiled call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from keisei.shogi import batch
from keisei.shogi.batch import POSITION_BYTES, Games, Outputs, Rules
from keisei.shogi.histories import clear_future
from keisei.shogi.judging import Declaration
from keisei.shogi.position import GAME, MAX_LEGAL_MOVES, new_games
from keisei.shogi.random_stream import seed_stream
from keisei.shogi.sfen import START_SFEN, parse_sfen

HISTORY = ("keys", "check_runs", "actions", "captured")
"""The parts of a state that hold something of each ply."""
State = dict[str, NDArray[Any]]


class VectorShogi:
    """B games side by side, each with its own random stream.

    After `reset` (done once by the constructor) and after every `step` the arrays of `outputs`,
    also reachable as attributes of the same names, describe the positions to move in. A game that
    ends is reset within the same step; `result`, `reason`, `truncated` and `final_positions` tell
    how it ended.

    Game i of the batch is game `first_game + i` of the seed: a batch of 8 and two batches of 4
    with `first_game` 0 and 4 play the same games.
    """

    positions: NDArray[np.int8]
    legal: NDArray[np.uint16]
    legal_counts: NDArray[np.int32]
    mover: NDArray[np.int8]
    ply: NDArray[np.int32]
    result: NDArray[np.int8]
    reason: NDArray[np.uint8]
    truncated: NDArray[np.bool_]
    final_positions: NDArray[np.int8]

    def __init__(
        self,
        num_games: int,
        *,
        seed: int = 0,
        first_game: int = 0,
        max_moves: int = 512,
        declaration: Declaration = Declaration.OFF,
        random_start_share: float = 0.0,
        random_start_plies: int = 40,
        rewind_share: float = 0.0,
        rewind_plies: int = 20,
        start_sfen: str = START_SFEN,
        threads: int | None = None,
    ) -> None:
        """`random_start_share` of the games begin after 1 to `random_start_plies` random moves.

        After `rewind_share` of the games that were won, no new game begins: 1 to `rewind_plies`
        moves are taken back and the game goes on from there, so that endings are seen more often.
        `threads` defaults to all that Numba may use. `max_moves` counts random plies too.
        """
        _require(num_games >= 1, f"num_games must be at least 1, not {num_games}")
        _require(1 <= max_moves <= 32767, f"max_moves must be from 1 to 32767, not {max_moves}")
        _require(
            0 <= random_start_share <= 1,
            f"random_start_share must be from 0 to 1, not {random_start_share}",
        )
        _require(
            random_start_share == 0 or 1 <= random_start_plies < max_moves,
            f"random_start_plies must be from 1 to max_moves - 1, not {random_start_plies}",
        )
        _require(0 <= rewind_share < 1, f"rewind_share must be from 0 to below 1: {rewind_share}")
        _require(rewind_plies >= 1, f"rewind_plies must be at least 1, not {rewind_plies}")
        most = numba.config.NUMBA_NUM_THREADS
        _require(threads is None or 1 <= threads <= most, f"threads must be from 1 to {most}")
        self.num_games = num_games
        self.max_moves = max_moves
        self.threads = min(most if threads is None else threads, num_games)
        self._rules = Rules(
            max_moves,
            int(declaration),
            float(random_start_share),
            random_start_plies if random_start_share else 0,
            float(rewind_share),
            rewind_plies if rewind_share else 0,
        )
        self._start, _ = parse_sfen(start_sfen)
        history = (num_games, max_moves + 1)
        self._games = Games(
            records=new_games(num_games),
            keys=np.zeros(history, np.uint64),
            check_runs=np.zeros(history, np.uint16),
            actions=np.zeros(history, np.uint16),
            captured=np.zeros(history, np.int8),
        )
        self.outputs = _new_outputs(num_games)
        for name, array in self.outputs._asdict().items():
            setattr(self, name, array)
        self._actions = np.zeros(num_games, np.int64)
        self._fractions = np.zeros(num_games, np.float64)
        self._answers = np.zeros(self.threads, np.int64)
        self._part_ends = np.arange(1, self.threads + 1) * num_games // self.threads
        for row in range(num_games):
            seed_stream(
                self._games.records[row],
                np.uint64(seed % 2**64),
                np.uint64((first_game + row) % 2**64),
            )
        self.reset()
        _require(bool(self.legal_counts.all()), "start_sfen is a position without legal moves")

    def reset(self) -> Outputs:
        """Begin new games everywhere; the random streams go on."""
        self._run(batch.RESET)
        return self.outputs

    def step(self, actions: Sequence[int] | NDArray[Any]) -> Outputs:
        """Play one action in every game: [B] integers, each among that game's legal actions.

        An illegal action is a `ValueError`, and then no game has moved.
        """
        given = np.asarray(actions)
        if given.shape != (self.num_games,) or not np.issubdtype(given.dtype, np.integer):
            raise ValueError(
                f"actions must be {self.num_games} whole numbers, "
                f"not an array of shape {given.shape} and type {given.dtype}"
            )
        self._actions[:] = given
        illegal = self._run(batch.VALIDATE) < self._part_ends
        if illegal.any():
            row = self._answers[illegal][0]
            raise ValueError(f"action {given[row]} is not legal in game {row}")
        self._run(batch.STEP)
        return self.outputs

    def random_actions(self) -> NDArray[np.int64]:
        """A legal action for every game, drawn from the game's own stream."""
        self._run(batch.DRAW_ACTIONS)
        return self._actions.copy()

    def random_fractions(self) -> NDArray[np.float64]:
        """A number from 0 to 1 for every game, drawn from the game's own stream."""
        self._run(batch.DRAW_FRACTIONS)
        return self._fractions.copy()

    @property
    def records(self) -> NDArray[Any]:
        """The games themselves, [B] of `position.GAME`: for compiled players, not to be changed."""
        return self._games.records

    def play_random(self, steps: int) -> int:
        """`steps` random moves in every game, all compiled; returns how many games ended.

        The same as `steps` times `step(random_actions())`.
        """
        return int(self._run(batch.RANDOM, steps).sum())

    def _run(self, task: int, steps: int = 1) -> NDArray[np.int64]:
        """Do `task` for all games; the answer of each part of the batch."""
        arguments = (steps, self._actions, self._fractions, self._start, self._rules, self.outputs)
        if self.threads == 1:
            self._answers[0] = batch.run(task, self._games, 0, self.num_games, *arguments)
        else:
            self.use_threads()
            batch.run_in_parallel(task, self._games, self._answers, *arguments)
        return self._answers

    def use_threads(self) -> None:
        """Have compiled loops of this thread use as many threads as this batch may."""
        numba.set_num_threads(self.threads)

    @property
    def bytes_per_game(self) -> int:
        """Memory of one game without the outputs."""
        return sum(array.nbytes for array in self._games) // self.num_games

    def state(self, games: Any = slice(None)) -> State:
        """Everything about the games (or those selected by an index), as arrays by name."""
        state = {name: np.array(array[games]) for name, array in self.live_state().items()}
        for name in HISTORY:
            clear_future(state["ply"], state[name])
        return state

    def live_state(self) -> State:
        """The same of all games without a copy: the next step changes it.

        Behind a game's ply histories hold what is left of earlier games.
        """
        records = {name: self._games.records[name] for name in GAME.names or ()}
        return records | {name: getattr(self._games, name) for name in HISTORY}

    def load_state(self, state: Mapping[str, NDArray[Any]], games: Any = slice(None)) -> None:
        """Continue the games of `state` in this batch (or in the games selected by an index)."""
        current = self.state(games)
        for name, array in current.items():
            given = state.get(name)
            if given is None or given.shape != array.shape or given.dtype != array.dtype:
                found = "missing" if given is None else f"{given.dtype} {given.shape}"
                raise ValueError(f"state {name!r} must be {array.dtype} {array.shape}: {found}")
        for name in GAME.names or ():
            self._games.records[name][games] = state[name]
        for name in HISTORY:
            getattr(self._games, name)[games] = state[name]
        self._run(batch.SHOW)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


def _new_outputs(rows: int) -> Outputs:
    return Outputs(
        positions=np.zeros((rows, POSITION_BYTES), np.int8),
        legal=np.zeros((rows, MAX_LEGAL_MOVES), np.uint16),
        legal_counts=np.zeros(rows, np.int32),
        mover=np.zeros(rows, np.int8),
        ply=np.zeros(rows, np.int32),
        result=np.zeros(rows, np.int8),
        reason=np.zeros(rows, np.uint8),
        truncated=np.zeros(rows, np.bool_),
        final_positions=np.zeros((rows, POSITION_BYTES), np.int8),
    )
