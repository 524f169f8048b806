"""Matches: two players, many games side by side, each opening played with both colours."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from keisei.evaluation.match_result import MatchResult, PlayedGame
from keisei.evaluation.openings import Openings, random_openings
from keisei.evaluation.players import Player
from keisei.shogi.judging import Reason
from keisei.shogi.pieces import BLACK, WHITE
from keisei.shogi.policy_output_mapper import PolicyOutputMapper
from keisei.shogi.vector_shogi import VectorShogi

MOST_ROWS = 512
"""So many games run side by side at most; the next game takes the row of one that ended."""


def play_match(
    player: Player,
    opponent: Player,
    *,
    games: int,
    seed: int,
    opening_plies: int = 8,
    max_moves: int = 512,
    on_progress: Callable[[int], None] | None = None,
) -> MatchResult:
    """Play `games` games, an even number: every opening twice, once with each colour.

    Openings are 2 to `opening_plies` random plies, all different, and count towards `max_moves`.
    The same seed and players fresh from the same seeds play the same games. `on_progress` is told
    how many games are over whenever some are.
    """
    if games < 2 or games % 2:
        raise ValueError(
            f"games must be an even number, not {games}: each opening is played with both colours"
        )
    if max_moves <= opening_plies:
        raise ValueError(
            f"max_moves must be more than the {opening_plies} plies of an opening, not {max_moves}"
        )
    openings = random_openings(games // 2, most_plies=opening_plies, seed=seed)
    table = _Table((player, opponent), openings, games, max_moves)
    while len(table.played) < games:
        if table.play_a_ply() and on_progress is not None:
            on_progress(len(table.played))
    in_order = tuple(table.played[number] for number in range(games))
    return MatchResult(player.name, opponent.name, in_order)


class _Table:
    """The rows of a batch, the game that each of them plays, and the games that are over.

    Game g has opening g // 2; the player has black in the even games, the opponent in the odd ones.
    """

    def __init__(
        self, players: tuple[Player, Player], openings: Openings, games: int, max_moves: int
    ) -> None:
        rows = min(games, MOST_ROWS)
        self.played: dict[int, PlayedGame] = {}
        self._players = players
        self._openings = openings
        self._games = games
        self._batch = VectorShogi(rows, max_moves=max_moves, threads=1)
        self._game_of_row = np.arange(rows)
        self._next_game = rows
        self._busy = np.ones(rows, np.bool_)
        self._actions = np.zeros((rows, max_moves), np.int64)

    def play_a_ply(self) -> bool:
        """One move in every row; whether games ended."""
        batch = self._batch
        actions = self._choose()
        movers, plies = batch.mover.copy(), batch.ply.copy()
        self._actions[np.arange(batch.num_games), plies] = actions
        batch.step(actions)
        ended = np.flatnonzero(self._busy & (batch.reason > 0))
        for row in ended.tolist():
            self._finish(row, int(movers[row]), int(plies[row]) + 1)
        return ended.size > 0

    def _choose(self) -> NDArray[np.int64]:
        """[B] int64: the opening's action, or the player's; in idle rows any legal one."""
        batch, opening = self._batch, self._game_of_row // 2
        actions = batch.legal[:, 0].astype(np.int64)
        in_opening = self._busy & (batch.ply < self._openings.lengths[opening])
        actions[in_opening] = self._openings.actions[opening[in_opening], batch.ply[in_opening]]
        whose_turn = self._game_of_row % 2 ^ batch.mover
        for index, player in enumerate(self._players):
            rows = np.flatnonzero(self._busy & ~in_opening & (whose_turn == index))
            if rows.size:
                actions[rows] = player.choose(batch, rows)
        return actions

    def _finish(self, row: int, last_mover: int, plies: int) -> None:
        """Keep the game that ended in `row` and seat the next one there."""
        number = int(self._game_of_row[row])
        result = int(self._batch.result[row])
        actions = self._actions[row, :plies].tolist()
        self.played[number] = PlayedGame(
            moves=tuple(PolicyOutputMapper.move_of(a, ply % 2) for ply, a in enumerate(actions)),
            opening_plies=int(self._openings.lengths[number // 2]),
            player_colour=WHITE if number % 2 else BLACK,
            winner=None if result == 0 else last_mover if result == 1 else 1 - last_mover,
            reason=Reason(int(self._batch.reason[row])),
        )
        if self._next_game < self._games:
            self._game_of_row[row] = self._next_game
            self._next_game += 1
        else:
            self._busy[row] = False
