"""Matches: two players, many games side by side, each opening played with both colours."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from keisei.evaluation.match_result import MatchResult, PlayedGame
from keisei.evaluation.openings import Openings, random_openings
from keisei.evaluation.players import NoMove, Player, SeatedPlayer
from keisei.shogi.judging import MOVER_WINS, Declaration, Reason, declaration_verdict
from keisei.shogi.pieces import BLACK, WHITE
from keisei.shogi.policy_output_mapper import PolicyOutputMapper
from keisei.shogi.vector_shogi import VectorShogi

MOST_ROWS = 512
"""So many games run side by side at most; the next game takes the row of one that ended."""

Finished = Callable[[int, PlayedGame], bool | None]
"""Told the number of each game that is over and the game; True ends the match."""


def play_match(
    player: Player,
    opponent: Player,
    *,
    games: int,
    seed: int,
    openings: Openings | None = None,
    max_moves: int = 512,
    rows: int | None = None,
    played: Mapping[int, PlayedGame] | None = None,
    on_game: Finished | None = None,
) -> MatchResult:
    """Play `games` games, an even number: every opening twice, once with each colour.

    openings: one for each two games, by default 2 to 8 random plies that the seed decides; they
    count towards `max_moves`. rows: how many games to play side by side, if not `MOST_ROWS`.
    played: games that are over already, by number; they are not played again.
    The same openings and players fresh from the same seeds play the same games. Players stay open.
    """
    if games < 2 or games % 2:
        raise ValueError(
            f"games must be an even number, not {games}: each opening is played with both colours"
        )
    if openings is None:
        openings = random_openings(games // 2, most_plies=8, seed=seed)
    longest = int(openings.lengths.max())
    if max_moves <= longest:
        raise ValueError(
            f"max_moves must be more than the {longest} plies of an opening, not {max_moves}"
        )
    finished = dict(played or {})
    to_play = [number for number in range(games) if number not in finished]
    if to_play:
        at_once = _rows_for((player, opponent), min(len(to_play), rows or MOST_ROWS))
        table = _Table((player, opponent), openings, to_play, at_once, max_moves)
        _play(table, finished, on_game)
    in_order = tuple(finished[number] for number in sorted(finished))
    return MatchResult(player.name, opponent.name, in_order)


def _rows_for(players: tuple[Player, Player], most: int) -> int:
    """So many games that nobody needs more seats than there are."""
    seats = [player.seats for player in players if isinstance(player, SeatedPlayer)]
    return min([most, *(count for count in seats if count is not None)])


def _play(table: _Table, finished: dict[int, PlayedGame], on_game: Finished | None) -> None:
    """Play to the end, or until `on_game` has seen enough."""
    while table.is_busy:
        over = table.play_a_ply()
        finished.update(over)
        if on_game is not None and True in [on_game(*numbered) for numbered in over.items()]:
            return


class _Table:
    """The rows of a batch and the game that each of them plays.

    Game g has opening g // 2; the player has black in the even games, the opponent in the odd ones.
    """

    def __init__(
        self,
        players: tuple[Player, Player],
        openings: Openings,
        to_play: list[int],
        rows: int,
        max_moves: int,
    ) -> None:
        self._players = players
        self._openings = openings
        self._batch = VectorShogi(rows, max_moves=max_moves, threads=1)
        self._new_game = self._batch.state([0])
        self._game_of_row = np.array(to_play[:rows])
        self._waiting = iter(to_play[rows:])
        self._busy = np.ones(rows, np.bool_)
        self._actions = np.zeros((rows, max_moves), np.int64)

    @property
    def is_busy(self) -> bool:
        """Whether games are left to play."""
        return bool(self._busy.any())

    def play_a_ply(self) -> dict[int, PlayedGame]:
        """One move in every row; the games that ended, by number."""
        batch = self._batch
        actions = self._choose()
        given_up = np.flatnonzero(actions < 0)
        over = [(row, self._given_up(row, NoMove(actions[row]))) for row in given_up.tolist()]
        actions[given_up] = batch.legal[given_up, 0]  # a step needs a move in every row
        movers, plies = batch.mover.copy(), batch.ply.copy()
        self._actions[np.arange(batch.num_games), plies] = actions
        batch.step(actions)
        ended = np.setdiff1d(np.flatnonzero(self._busy & (batch.reason > 0)), given_up)
        for row in ended.tolist():
            over.append((row, self._ended(row, int(movers[row]), int(plies[row]) + 1)))
        for row in given_up.tolist():
            batch.load_state(self._new_game, [row])
        return {self._leave(row): game for row, game in over}

    def _choose(self) -> NDArray[np.int64]:
        """[B] int64: the opening's action, or the player's; in idle rows any legal one."""
        batch, opening = self._batch, self._game_of_row // 2
        actions = batch.legal[:, 0].astype(np.int64)
        in_opening = self._busy & (batch.ply < self._openings.lengths[opening])
        actions[in_opening] = self._openings.actions[opening[in_opening], batch.ply[in_opening]]
        whose_turn = self._game_of_row % 2 ^ batch.mover
        asked = [
            (player, np.flatnonzero(self._busy & ~in_opening & (whose_turn == index)))
            for index, player in enumerate(self._players)
        ]
        asked = [(player, rows) for player, rows in asked if rows.size]
        asked.sort(key=lambda turn: isinstance(turn[0], SeatedPlayer))
        for player, rows in asked:
            if isinstance(player, SeatedPlayer):
                player.think(batch, rows)
        for player, rows in asked:  # whoever thinks in other processes is asked last
            actions[rows] = player.choose(batch, rows)
        return actions

    def _ended(self, row: int, last_mover: int, plies: int) -> PlayedGame:
        """The game that the last move in `row` ended by the rules."""
        result, reason = int(self._batch.result[row]), Reason(int(self._batch.reason[row]))
        winner = None if result == 0 else last_mover if result == 1 else 1 - last_mover
        return self._played(row, plies, winner, reason)

    def _given_up(self, row: int, answer: NoMove) -> PlayedGame:
        """The game in `row`, whose mover answered this instead of a move."""
        mover, plies = int(self._batch.mover[row]), int(self._batch.ply[row])
        if answer != NoMove.DECLARES:
            return self._played(row, plies, 1 - mover, answer)
        verdict = declaration_verdict(self._batch.records[row], int(Declaration.POINTS_27))
        if verdict == MOVER_WINS:
            return self._played(row, plies, mover, Reason.DECLARATION)
        return self._played(row, plies, 1 - mover, NoMove.FALSE_DECLARATION)

    def _played(
        self, row: int, plies: int, winner: int | None, reason: Reason | NoMove
    ) -> PlayedGame:
        number = int(self._game_of_row[row])
        actions = self._actions[row, :plies].tolist()
        return PlayedGame(
            moves=tuple(PolicyOutputMapper.move_of(a, ply % 2) for ply, a in enumerate(actions)),
            opening_plies=int(self._openings.lengths[number // 2]),
            player_colour=WHITE if number % 2 else BLACK,
            winner=winner,
            reason=reason,
        )

    def _leave(self, row: int) -> int:
        """Seat the next game in `row`; the number of the one that was there."""
        number = int(self._game_of_row[row])
        following = next(self._waiting, None)
        if following is None:
            self._busy[row] = False
        else:
            self._game_of_row[row] = following
        return number
