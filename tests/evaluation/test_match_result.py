"""Played games as records: names by colour, and an ending with the right winner."""

import pytest

from keisei.evaluation.match_result import MatchResult, PlayedGame, games_as_records
from keisei.evaluation.players import NoMove
from keisei.shogi.judging import Reason
from keisei.shogi.notation.records import Ending

MOVES = ("7g7f", "3c3d", "2g2f")  # white is to move when the game ends


def record_of(reason, winner, player_colour=0):
    game = PlayedGame(MOVES, 2, player_colour, winner, reason)
    return games_as_records(MatchResult("ours", "theirs", (game,)))[0]


@pytest.mark.parametrize(
    ("reason", "winner", "ending"),
    [
        (Reason.CHECKMATE, 0, Ending.CHECKMATE),
        (Reason.NO_LEGAL_MOVES, 0, Ending.RESIGN),
        (Reason.PERPETUAL_CHECK, 0, Ending.FOUL_LOSS),
        (Reason.PERPETUAL_CHECK, 1, Ending.FOUL_WIN),
        (Reason.REPETITION, None, Ending.REPETITION),
        (Reason.MAX_MOVES, None, Ending.MAX_MOVES),
        (Reason.DECLARATION, 1, Ending.DECLARATION_WIN),
        (NoMove.RESIGNS, 0, Ending.RESIGN),
        (NoMove.SILENT, 0, Ending.TIME_UP),
        (NoMove.CRASHED, 0, Ending.FOUL_LOSS),
        (NoMove.ILLEGAL_MOVE, 0, Ending.FOUL_LOSS),
        (NoMove.REFUSES_MOVE, 0, Ending.FOUL_LOSS),
        (NoMove.FALSE_DECLARATION, 0, Ending.FOUL_LOSS),
    ],
)
def test_the_ending_names_the_winner(reason, winner, ending):
    record = record_of(reason, winner)
    assert (record.ending, record.winner) == (ending, winner)


def test_the_names_follow_the_colours():
    assert record_of(Reason.REPETITION, None).headers == {"black": "ours", "white": "theirs"}
    swapped = record_of(Reason.REPETITION, None, player_colour=1)
    assert swapped.headers == {"black": "theirs", "white": "ours"}


@pytest.mark.parametrize(
    ("winner", "player_colour", "outcome"),
    [(0, 0, "win"), (1, 1, "win"), (0, 1, "loss"), (1, 0, "loss"), (None, 1, "draw")],
)
def test_the_outcome_is_the_players(winner, player_colour, outcome):
    assert PlayedGame(MOVES, 2, player_colour, winner, Reason.CHECKMATE).outcome == outcome


def test_a_record_says_why_an_engine_lost():
    assert record_of(NoMove.ILLEGAL_MOVE, 0).ending_comment == "illegal move"
    assert record_of(Reason.CHECKMATE, 0).ending_comment == ""
