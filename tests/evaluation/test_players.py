"""The players without training: what they choose, and that they leave the games alone."""

from collections import Counter

import numpy as np
import pytest

from keisei.evaluation.match import play_match
from keisei.evaluation.opponents import make_player
from keisei.evaluation.players import GreedyPlayer, MixPlayer, RandomPlayer
from keisei.shogi.judging import Reason
from keisei.shogi.policy_output_mapper import PolicyOutputMapper
from keisei.shogi.sfen import format_sfen
from keisei.shogi.shogi_game import ShogiGame
from keisei.shogi.vector_shogi import VectorShogi

VALUES = {"P": 1, "L": 3, "N": 4, "S": 5, "G": 6, "B": 8, "R": 10}
VALUES |= {"+P": 6, "+L": 6, "+N": 6, "+S": 6, "+B": 10, "+R": 12}


def choices(player, sfen, times=1):
    """How often each USI move is chosen when the position is put `times` times."""
    games = VectorShogi(times, start_sfen=sfen, threads=1)
    actions = player.choose(games, np.arange(times))
    return Counter(PolicyOutputMapper.move_of(action, games.mover[0]) for action in actions)


def best_moves(game):
    """The moves that mate, else those of the greatest gain, by the slow way."""
    mates, gains = set(), {}
    for move in game.legal_moves():
        after = game.copy()
        after.make_move(move)
        outcome = after.outcome()
        if outcome is not None and outcome.reason == Reason.CHECKMATE:
            mates.add(move)
        taken = None if "*" in move else game.piece_at(move[2:4])
        gains[move] = VALUES[taken.upper()] if taken else 0
        if move.endswith("+"):
            piece = game.piece_at(move[:2]).upper()
            gains[move] += VALUES["+" + piece] - VALUES[piece]
    most = max(gains.values())
    return mates or {move for move, gain in gains.items() if gain == most}


@pytest.mark.uncompiled
@pytest.mark.parametrize(
    ("sfen", "move"),
    [
        pytest.param("k8/9/9/4rp3/4G4/9/9/9/8K b - 1", "5e5d", id="the rook, not the pawn"),
        pytest.param("k8/9/9/9/4g4/4RP3/9/9/8K w - 1", "5e5f", id="white sees it the same way"),
        pytest.param("k8/9/9/4+rr3/4G4/9/9/9/8K b - 1", "5e5d", id="the dragon, not the rook"),
        pytest.param("k8/9/9/4+ps3/4G4/9/9/9/8K b - 1", "5e5d", id="the tokin, not the silver"),
        pytest.param("k8/9/9/n3P4/G8/9/9/9/8K b - 1", "5d5c+", id="promotes rather than N"),
        pytest.param("k8/9/9/g3P4/G8/9/9/9/8K b - 1", "9e9d", id="takes G rather than promote"),
        pytest.param("k8/9/4n4/g3P4/G8/9/9/9/8K b - 1", "5d5c+", id="takes and promotes"),
        pytest.param("4k4/9/4P4/r8/G8/9/9/9/4K4 b G 1", "G*5b", id="mates rather than takes"),
        pytest.param("4k4/9/9/9/R8/g8/4p4/9/4K4 w g 1", "G*5h", id="white mates too"),
    ],
)
def test_greedy_chooses(sfen, move):
    assert choices(GreedyPlayer(0), sfen) == {move: 1}


def test_greedy_chooses_among_equals_at_random():
    found = choices(GreedyPlayer(0), "k8/9/9/3p1p3/4G4/9/9/9/8K b - 1", times=400)
    assert set(found) == {"5e4d", "5e6d"}
    assert all(150 < times < 250 for times in found.values())


def test_greedy_moves_at_random_when_there_is_nothing_to_gain():
    sfen = "k8/9/9/9/9/9/9/9/8K b P 1"
    assert set(choices(GreedyPlayer(0), sfen, times=2000)) == set(ShogiGame(sfen).legal_moves())


@pytest.mark.parametrize("plies", [30, 90, 150, 210])
def test_greedy_finds_what_a_slow_search_finds(plies):
    games = VectorShogi(40, seed=plies, threads=1)
    games.play_random(plies)
    records = games.records
    for row, action in enumerate(GreedyPlayer(1).choose(games, np.arange(40))):
        game = ShogiGame(format_sfen(records[row], 1))
        assert PolicyOutputMapper.move_of(action, game.mover) in best_moves(game), game.sfen()


def test_greedy_wins_its_games_by_the_best_moves_of_a_slow_search():
    for played in play_match(GreedyPlayer(1), RandomPlayer(2), games=40, seed=3).games:
        assert played.outcome == "win"
        game = ShogiGame()
        for number, move in enumerate(played.moves):
            left = len(played.moves) - number
            if left in (1, 3, 5) and number >= played.opening_plies:  # greedy's last three moves
                assert move in best_moves(game), game.sfen()
            game.make_move(move)


def test_a_game_without_one_of_the_kings_can_be_played_greedily():
    assert choices(GreedyPlayer(0), "9/9/9/4rp3/4G4/9/9/9/8K b - 1") == {"5e5d": 1}


@pytest.mark.parametrize("name", ["random", "greedy"])
def test_players_leave_the_games_as_they_are(name):
    games = VectorShogi(64, seed=3, threads=1)
    games.play_random(120)
    before = games.state()
    seen = {field: array.copy() for field, array in games.outputs._asdict().items()}
    make_player(name, 0).choose(games, np.arange(64))
    for field, array in games.state().items():
        assert np.array_equal(array, before[field]), field
    for field, array in games.outputs._asdict().items():
        assert np.array_equal(array, seen[field]), field


@pytest.mark.parametrize("name", ["random", "greedy"])
def test_the_actions_are_legal_in_the_rows_asked_about(name):
    games = VectorShogi(32, seed=4, threads=1)
    games.play_random(61)
    rows = np.array([30, 2, 17])
    for row, action in zip(rows, make_player(name, 0).choose(games, rows), strict=True):
        assert action in games.legal[row, : games.legal_counts[row]]


@pytest.mark.parametrize("name", ["random", "greedy"])
def test_the_same_seed_chooses_the_same_and_another_seed_does_not(name):
    games, rows = VectorShogi(64, threads=1), np.arange(64)
    first, same, other = (make_player(name, seed).choose(games, rows) for seed in (5, 5, 6))
    assert np.array_equal(first, same)
    assert not np.array_equal(first, other)


def test_random_chooses_every_legal_move_equally_often():
    start = ShogiGame()
    found = choices(RandomPlayer(0), start.sfen(), times=30_000)
    assert set(found) == set(start.legal_moves())  # 30 moves, each 1,000 times give or take 31
    assert all(850 < times < 1150 for times in found.values())


@pytest.mark.parametrize("probability", [0, 0.25, 1])
def test_a_mix_plays_the_others_moves_as_often_as_told(probability):
    sfen = "k8/9/9/4rp3/4G4/9/9/9/8K b - 1"  # greedy takes the rook, others hardly ever do
    legal = len(ShogiGame(sfen).legal_moves())
    found = choices(MixPlayer(probability, GreedyPlayer(0), 1), sfen, times=4000)
    expected = 4000 * (probability + (1 - probability) / legal)
    assert abs(found["5e5d"] - expected) < 120  # four standard deviations


def test_a_mix_decides_for_each_move_anew_and_the_same_for_the_same_seed():
    games, rows = VectorShogi(64, threads=1), np.arange(64)
    games.play_random(60)

    def play(seed):
        player = MixPlayer(0.5, GreedyPlayer(0), seed)
        return [player.choose(games, rows).tolist() for _ in range(3)]

    first, second, third = play(1)
    assert play(1) == [first, second, third]
    assert first != second != third
    assert play(2) != [first, second, third]
