"""What came of a match: its games, their counts, and the games as records to save."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from keisei.evaluation.players import NoMove
from keisei.shogi.judging import Reason
from keisei.shogi.notation.records import Ending, GameRecord, RecordedMove
from keisei.shogi.pieces import BLACK


@dataclass(frozen=True)
class PlayedGame:
    """One finished game of a match, from the usual start position."""

    moves: tuple[str, ...]
    """All moves in USI, those of the opening too."""
    opening_plies: int
    player_colour: int
    """The colour of the first of the two players: 0 black, 1 white."""
    winner: int | None
    """The colour that won, None for a draw."""
    reason: Reason | NoMove
    """Why it ended: by the rules, or because the player whose turn it was made no legal move."""

    @property
    def outcome(self) -> Literal["win", "draw", "loss"]:
        """What the game was for the first of the two players."""
        if self.winner is None:
            return "draw"
        return "win" if self.winner == self.player_colour else "loss"


@dataclass(frozen=True)
class Tally:
    """Games counted for the first of the two players. The `cut` ones are among the draws."""

    wins: int
    draws: int
    losses: int
    cut: int
    """How many games the move limit ended."""

    @classmethod
    def of(cls, games: Iterable[PlayedGame]) -> Tally:
        """Count games."""
        games = list(games)
        outcomes = [game.outcome for game in games]
        return cls(
            wins=outcomes.count("win"),
            draws=outcomes.count("draw"),
            losses=outcomes.count("loss"),
            cut=sum(game.reason == Reason.MAX_MOVES for game in games),
        )

    @property
    def games(self) -> int:
        """How many games were counted."""
        return self.wins + self.draws + self.losses

    @property
    def points(self) -> float:
        """One for a win, a half for a draw."""
        return self.wins + self.draws / 2


@dataclass(frozen=True)
class MatchResult:
    """The games of a match that are over, in the order of their numbers.

    If all are, game 2k and game 2k + 1 have the same opening, colours exchanged.
    """

    player: str
    opponent: str
    games: tuple[PlayedGame, ...]

    def tally(self) -> Tally:
        """The counts of the whole match."""
        return Tally.of(self.games)

    def tally_of_colour(self, colour: int) -> Tally:
        """The counts of the games in which the player had this colour."""
        return Tally.of(game for game in self.games if game.player_colour == colour)

    def tally_by_reason(self) -> dict[Reason | NoMove, Tally]:
        """The counts of the games that ended for each reason, where any did."""
        reasons = sorted({game.reason for game in self.games}, key=abs)
        return {
            reason: Tally.of(game for game in self.games if game.reason == reason)
            for reason in reasons
        }

    def lengths(self) -> list[int]:
        """The number of plies of each game, opening included."""
        return [len(game.moves) for game in self.games]


def reason_text(reason: Reason | NoMove) -> str:
    """The reason in words: `max moves`, `illegal move`."""
    return reason.name.lower().replace("_", " ")


def games_as_records(result: MatchResult) -> list[GameRecord]:
    """The games of a match in the form that `write_games` saves."""
    return [as_record(game, result.player, result.opponent) for game in result.games]


def as_record(game: PlayedGame, player: str, opponent: str) -> GameRecord:
    """One game in the form that `write_games` saves."""
    names = (player, opponent) if game.player_colour == BLACK else (opponent, player)
    return GameRecord(
        moves=[RecordedMove(move) for move in game.moves],
        headers=dict(zip(("black", "white"), names, strict=True)),
        comment=f"The first {game.opening_plies} moves are the opening.",
        ending=_ending(game),
        ending_comment=reason_text(game.reason) if isinstance(game.reason, NoMove) else "",
    )


def _ending(game: PlayedGame) -> Ending:
    """The ending as records have it, from the side of the player whose turn it was."""
    if game.reason == Reason.PERPETUAL_CHECK:
        mover = len(game.moves) % 2
        return Ending.FOUL_WIN if game.winner == mover else Ending.FOUL_LOSS
    return _ENDINGS[game.reason]


_ENDINGS: dict[Reason | NoMove, Ending] = {
    Reason.CHECKMATE: Ending.CHECKMATE,
    # Records have no word for it: who cannot move and is not in check gives up.
    Reason.NO_LEGAL_MOVES: Ending.RESIGN,
    Reason.REPETITION: Ending.REPETITION,
    Reason.DECLARATION: Ending.DECLARATION_WIN,
    Reason.MAX_MOVES: Ending.MAX_MOVES,
    NoMove.RESIGNS: Ending.RESIGN,
    NoMove.FALSE_DECLARATION: Ending.FOUL_LOSS,
    NoMove.ILLEGAL_MOVE: Ending.FOUL_LOSS,
    NoMove.REFUSES_MOVE: Ending.FOUL_LOSS,
    NoMove.CRASHED: Ending.FOUL_LOSS,
    NoMove.SILENT: Ending.TIME_UP,
}
