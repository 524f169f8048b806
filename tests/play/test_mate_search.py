"""The mate search answers what looking at everything answers, and never announces a false mate."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from keisei.play.checks import keep_checks
from keisei.play.game_history import GameHistory
from keisei.play.mate_search import Mate, MateLimits, MateSearch
from keisei.shogi.errors import IllegalMoveError, NotationError
from keisei.shogi.judging import Reason
from keisei.shogi.sfen import START_SFEN, format_sfen
from keisei.shogi.shogi_game import ShogiGame
from keisei.shogi.vector_shogi import VectorShogi
from tests.play.mate_referee import forces_mate, has_mate

PROBLEMS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data" / "mates.jsonl").read_text().splitlines()
]
MATES = [problem for problem in PROBLEMS if problem["length"]]
GOLD_MATES = "4k4/9/4P4/9/9/9/9/9/4K4 b G 1"
ONLY_A_PAWN = "7lk/9/8G/9/9/9/9/9/4K4 b P 1"


@cache
def search():
    return MateSearch()


def test_there_are_problems_of_all_lengths():
    lengths = [problem["length"] for problem in PROBLEMS]
    assert len(MATES) >= 100
    assert lengths.count(0) >= 50
    for length in (1, 3, 5, 7, 9):
        assert lengths.count(length) >= 15
    assert len({problem["sfen"] for problem in PROBLEMS}) == len(PROBLEMS)


@pytest.mark.parametrize("length", [1, 3, 5, 7, 9])
def test_every_problem_is_solved_by_its_shortest_mate(length):
    for problem in MATES:
        if problem["length"] == length:
            answer = search().mate_in(problem["sfen"])
            assert answer.mate is Mate.FORCED
            assert answer.shortest
            assert len(answer.moves) == length


def test_positions_without_mate_are_never_solved():
    for problem in PROBLEMS:
        if problem["length"] == 0:
            assert search().mate_in(problem["sfen"]).mate is Mate.NONE


def test_every_line_is_legal_and_checks_until_checkmate():
    for problem in MATES:
        game = ShogiGame(problem["sfen"])
        attacker = game.mover
        for ply, move in enumerate(search().mate_in(problem["sfen"]).moves):
            assert game.outcome() is None
            game.make_move(move)
            assert game.in_check or ply % 2
        assert (game.outcome().reason, game.outcome().winner) == (Reason.CHECKMATE, attacker)


@pytest.mark.parametrize("length", [1, 3, 5])
def test_no_defence_escapes_and_no_mate_is_shorter(length):
    for problem in MATES:
        if problem["length"] == length:
            move = search().mate_in(problem["sfen"]).moves[0]
            assert forces_mate(problem["sfen"], move, length)
            assert length == 1 or not has_mate(problem["sfen"], length - 2)


def test_all_positions_of_random_games_are_judged_as_by_looking_at_everything():
    games = VectorShogi(40, seed=5, random_start_share=1.0, random_start_plies=120, threads=1)
    for ply in range(12):
        games.play_random(9)
        for record in games.records:
            sfen = format_sfen(record, 1)
            answer = search().mate_in(sfen, nodes=300)
            if answer.mate is Mate.FORCED and len(answer.moves) <= 3:
                assert forces_mate(sfen, answer.moves[0], len(answer.moves))
            else:
                assert not has_mate(sfen, 1 if ply % 4 else 3)


def test_checks_are_the_moves_after_which_the_king_is_attacked():
    games = VectorShogi(30, seed=8, random_start_share=1.0, random_start_plies=150, threads=1)
    for record in games.records:
        game = ShogiGame(format_sfen(record, 1))
        assert _checks(game) == _checks_by_playing(game)


def _checks(game):
    history = GameHistory.of(game.sfen(), [])
    actions = history.legal.copy()
    reach = np.zeros((15, 2), np.int64)
    count = keep_checks(history.records[0], actions, 0, history.legal_count, reach)
    return sorted(actions[0, :count].tolist())


def _checks_by_playing(game):
    found = []
    for action in game.legal_actions():
        game.make_move(action)
        if game.in_check:
            found.append(action)
        game.undo()
    return sorted(found)


def test_a_pawn_drop_that_would_mate_is_no_mate():
    assert search().mate_in(ONLY_A_PAWN).mate is Mate.NONE
    assert search().mate_in(ONLY_A_PAWN.replace("P", "L")).moves == ("L*1b",)


def test_a_mate_through_a_position_the_game_has_seen_is_not_announced():
    problem = next(problem for problem in MATES if problem["length"] == 3)
    first, reply = problem["moves"][:2]
    game = GameHistory.of(problem["sfen"], [])
    after = GameHistory.of(problem["sfen"], [first, reply])
    limits = MateLimits(nodes=1000)
    assert search().find_mate(game, limits).moves[0] == first
    assert search().find_mate(after, limits).mate is Mate.FORCED
    game.records["seen"] |= after.records["seen"]
    game.keys[0, 0] = after.keys[0, 1]  # as if the position after the first check had occurred
    answer = search().find_mate(game, limits)
    assert answer.mate is not Mate.NONE
    assert answer.mate is Mate.UNKNOWN or answer.moves[0] != first


def test_a_repeated_start_does_not_hide_a_mate():
    moves = ["5i5h", "5a4a", "5h5i", "4a5a"]
    assert search().mate_in(GOLD_MATES, moves).moves == ("G*5b",)


def test_a_mate_beyond_the_move_limit_is_none_that_is_known():
    sfen = next(problem["sfen"] for problem in MATES if problem["length"] == 5)
    game = GameHistory.of(sfen, [])
    limits = MateLimits(nodes=10_000)
    assert search().find_mate(game, limits, max_moves=4).mate is Mate.UNKNOWN
    assert search().find_mate(game, limits, max_moves=5).mate is Mate.FORCED


def test_it_gives_up_at_its_limits():
    sfen = next(problem["sfen"] for problem in MATES if problem["length"] == 9)
    few = search().mate_in(sfen, nodes=5)
    assert few.mate is Mate.UNKNOWN
    assert few.nodes <= 6
    game = GameHistory.of(sfen, [])
    assert search().find_mate(game, MateLimits(stop=lambda: True)).mate is Mate.UNKNOWN
    assert search().find_mate(game, MateLimits(seconds=0.0)).mate is Mate.UNKNOWN


def test_the_same_question_has_the_same_answer():
    for problem in MATES[::10]:
        assert search().mate_in(problem["sfen"]) == MateSearch().mate_in(problem["sfen"])


def test_bad_positions_and_moves_are_refused():
    with pytest.raises(NotationError):
        search().mate_in("nonsense")
    with pytest.raises(IllegalMoveError):
        search().mate_in(START_SFEN, ["5i5a"])


def test_nobody_mates_in_the_start_position_or_against_no_king():
    assert search().mate_in(START_SFEN).mate is Mate.NONE
    assert search().mate_in("9/9/9/9/9/9/9/9/4K4 b G 1").mate is Mate.NONE
