"""Engines as players: whatever they do, the match goes on and says what happened."""

import psutil
import pytest

from keisei.evaluation.match import play_match
from keisei.evaluation.opponents import make_player
from keisei.evaluation.players import NoMove, RandomPlayer, close_player
from keisei.shogi.judging import Reason
from tests.evaluation.engines import FAKE_ENGINE, fake_spec, openings_of

OPENINGS = openings_of("7g7f 3c3d", "2g2f 8c8d", "7g7f 8c8d", "9g9f 9c9d")


def play(behaviour, opponent, file=None, settings="timeout=20", games=8):
    player = make_player(fake_spec(behaviour, file, settings), 1)
    try:
        return play_match(player, opponent, games=games, seed=1, openings=OPENINGS)
    finally:
        close_player(player)


def children():
    return [
        child
        for child in psutil.Process().children(recursive=True)
        if str(FAKE_ENGINE) in child.cmdline()
    ]


@pytest.mark.parametrize(
    ("behaviour", "settings", "reason"),
    [
        ("crash", "timeout=20", NoMove.CRASHED),
        ("hang", "timeout=0.2", NoMove.SILENT),
        ("endless", "timeout=0.2", NoMove.SILENT),
        ("illegal", "timeout=20", NoMove.ILLEGAL_MOVE),
        ("banana", "timeout=20", NoMove.ILLEGAL_MOVE),
        ("nothing", "timeout=20", NoMove.ILLEGAL_MOVE),
        ("resign", "timeout=20", NoMove.RESIGNS),
        ("win", "timeout=20", NoMove.FALSE_DECLARATION),
    ],
)
def test_an_engine_that_fails_loses_with_the_reason_recorded(behaviour, settings, reason):
    result = play(behaviour, RandomPlayer(1), settings=settings)
    assert {game.reason for game in result.games} == {reason}
    assert {game.outcome for game in result.games} == {"loss"}
    assert len(result.games) == 8
    for game in result.games:
        assert len(game.moves) == game.opening_plies + game.player_colour


def test_an_engine_that_crashed_once_is_restarted_and_plays_on(tmp_path):
    partner = make_player(fake_spec("plain"), 1)
    result = play("crash-once", partner, tmp_path / "crashed")
    close_player(partner)
    reasons = [game.reason for game in result.games]
    assert 1 <= reasons.count(NoMove.CRASHED) <= 4  # all that were thinking when it was new
    assert reasons.count(Reason.REPETITION) == 8 - reasons.count(NoMove.CRASHED)


def test_two_engines_play_each_other():
    partner = make_player(fake_spec("noisy"), 1)
    result = play("late", partner)
    close_player(partner)
    assert {game.reason for game in result.games} == {Reason.REPETITION}
    lengths = {game.moves[game.opening_plies :].count("4i4h") for game in result.games}
    assert lengths == {3}


def test_no_more_processes_run_than_there_are_seats_and_none_after_the_match():
    partner = make_player(fake_spec("plain"), 1)
    most = 0

    def count(number, game):
        nonlocal most
        most = max(most, len(children()))

    player = make_player(fake_spec("plain"), 1)
    player.seats = 2
    play_match(player, partner, games=8, seed=1, openings=OPENINGS, on_game=count)
    assert most == 4  # two of each player
    close_player(player)
    close_player(partner)
    assert children() == []


def test_closing_does_not_wait_for_an_engine_that_thinks():
    class Impatient(RandomPlayer):
        def choose(self, games, rows):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play("hang", Impatient(1), settings="timeout=1000")
    assert children() == []


def test_a_mix_asks_the_engine_for_some_of_the_moves():
    engine = make_player(f"mix:0.5:{fake_spec('plain')}", 1)
    result = play_match(engine, RandomPlayer(2), games=8, seed=1, openings=OPENINGS, max_moves=60)
    close_player(engine)
    assert children() == []
    moves = [move for game in result.games for move in game.moves]
    assert 8 <= sum(move in ("4i4h", "4h4i", "6a6b", "6b6a") for move in moves) < len(moves) / 2


def test_an_engine_that_cannot_start_is_told_before_the_match():
    with pytest.raises(ValueError, match=r"exit code 1\) after saying: no weights"):
        make_player(fake_spec("dies"), 1)
    assert children() == []
