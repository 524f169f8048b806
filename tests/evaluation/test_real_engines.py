"""Games against fairy-stockfish and GNU Shogi, as installed."""

import pytest

from keisei.evaluation.match import play_match
from keisei.evaluation.opponents import make_player
from keisei.evaluation.players import GreedyPlayer, RandomPlayer, close_player
from keisei.shogi.judging import Reason
from keisei.shogi.shogi_game import ShogiGame
from tests.evaluation.engines import real_engines

BY_RULE = set(Reason)


def play(spec, opponent, games=4, max_moves=512):
    player = make_player(spec, 1)
    try:
        return play_match(player, opponent, games=games, seed=2, max_moves=max_moves)
    finally:
        close_player(player)


@real_engines
@pytest.mark.parametrize("spec", ["gnushogi:1", "usi:fairy-stockfish?Skill Level=5&depth=1"])
def test_real_engines_beat_a_random_player_by_the_rules(spec):
    result = play(spec, RandomPlayer(1), games=10)
    assert result.tally().wins >= 9
    assert {game.reason for game in result.games} <= BY_RULE
    for game in result.games:
        replayed = ShogiGame()
        for move in game.moves:
            replayed.make_move(move)
        assert replayed.outcome().winner == game.winner


@real_engines
def test_the_weakest_fairy_stockfish_loses_to_greedy_without_a_foul():
    result = play("usi:fairy-stockfish?Skill Level=-20&depth=1", GreedyPlayer(1), games=6)
    assert result.tally().losses >= 3
    assert {game.reason for game in result.games} <= BY_RULE


@real_engines
def test_two_real_engines_play_each_other():
    gnushogi = make_player("gnushogi:1", 1)
    result = play("usi:fairy-stockfish?depth=2", gnushogi, max_moves=60)
    close_player(gnushogi)
    assert {game.reason for game in result.games} <= BY_RULE
    assert len(set(result.lengths())) >= 1


@real_engines
def test_gnushogi_follows_when_some_of_its_moves_are_made_for_it():
    result = play("mix:0.5:gnushogi:1", RandomPlayer(1))
    assert {game.reason for game in result.games} <= BY_RULE
