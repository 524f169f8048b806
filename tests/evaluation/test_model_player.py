"""Models from checkpoints as players: exactly the saved weights, legal and best moves."""

import numpy as np
import psutil
import pytest
import torch

from keisei.config_schema import PPOConfig
from keisei.core.ppo_agent import PPOAgent
from keisei.evaluation.match import play_match
from keisei.evaluation.model_player import ModelPlayer, evaluate_for_training
from keisei.evaluation.players import RandomPlayer
from keisei.shogi.notation.conversion import write_games
from keisei.shogi.shogi_game import ShogiGame
from keisei.shogi.vector_shogi import VectorShogi
from tests.core.small import bits, one_thread, small_agent, small_config
from tests.evaluation.engines import fake_spec

CPU = torch.device("cpu")


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with one_thread():
        yield


def test_a_model_plays_the_legal_move_it_finds_most_probable():
    agent = small_agent()
    player = ModelPlayer(agent, "model")
    games = VectorShogi(16, seed=2, threads=1)
    games.play_random(40)
    rows = np.array([3, 0, 15, 7])
    before = games.state()
    actions = player.choose(games, rows)
    assert all(np.array_equal(array, before[name]) for name, array in games.state().items())
    best = agent.select_actions(games.positions, games.legal, games.legal_counts, None)
    assert actions.tolist() == best.actions[rows].tolist()
    for row, action in zip(rows, actions, strict=True):
        assert action in games.legal[row, : games.legal_counts[row]]


def test_a_model_plays_whole_games_by_the_rules():
    result = play_match(ModelPlayer(small_agent(), "model"), RandomPlayer(1), games=4, seed=1)
    assert result.player == "model"
    for game in result.games:
        replayed = ShogiGame()
        for move in game.moves:
            replayed.make_move(move)
        assert replayed.outcome().reason == game.reason


def test_the_same_seed_is_the_same_match_and_another_is_not():
    agent = small_agent()

    def play(seed):
        return evaluate_for_training(agent, "random", games=2, seed=seed).records

    assert play(1) == play(1)
    assert play(1) != play(2)


def test_a_model_is_not_changed_by_playing():
    agent = small_agent()
    tensors, state = agent.state()
    before = bits(tensors), dict(state)
    evaluate_for_training(agent, "greedy", games=2, seed=1)
    tensors, state = agent.state()
    assert (bits(tensors), state) == before


@pytest.mark.parametrize("games", [4, 5])
def test_training_gets_rates_that_add_up_and_games_to_save(games, tmp_path):
    evaluation = evaluate_for_training(small_agent(), "greedy", games=games, seed=1)
    figures = evaluation.figures
    played = games + games % 2
    assert evaluation.opponent == "greedy"
    assert evaluation.line.startswith("vs greedy: ")
    assert len(evaluation.records) == played
    assert figures["win_rate"] + figures["draw_rate"] + figures["loss_rate"] == pytest.approx(1)
    assert figures["cut_rate"] <= figures["draw_rate"]
    lengths = [len(record.moves) for record in evaluation.records]
    assert figures["game_length"] == pytest.approx(sum(lengths) / played)
    assert [record.headers["black"] for record in evaluation.records[:2]] == ["keisei", "greedy"]
    wins = sum(
        record.winner is not None and record.headers[("black", "white")[record.winner]] == "keisei"
        for record in evaluation.records
    )
    assert figures["win_rate"] == pytest.approx(wins / played)
    assert write_games(evaluation.records[:1], "kif", tmp_path / "game.kif")


def test_an_opponent_that_nobody_knows_is_refused():
    agent = PPOAgent(small_config().model, PPOConfig())
    with pytest.raises(ValueError, match="unknown player 'nobody'"):
        evaluate_for_training(agent, "nobody", games=2, seed=1)


def test_training_can_play_an_engine_and_closes_it():
    spec, before = fake_spec("resign"), psutil.Process().children()
    evaluation = evaluate_for_training(small_agent(), spec, games=4, seed=1)
    assert evaluation.opponent == spec
    assert evaluation.figures["win_rate"] == 1
    assert psutil.Process().children() == before
