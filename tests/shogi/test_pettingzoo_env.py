import warnings

import numpy as np
import pytest
import torch
from pettingzoo.test import api_test, seed_test

from keisei.shogi import Declaration, PolicyOutputMapper, ShogiGame, VectorShogi
from keisei.shogi.features import feature_set
from keisei.shogi.pettingzoo_env import ShogiEnv, env

MATE_IN_ONE = "4k4/9/4P4/9/9/9/9/9/4K4 b G 1"
ONE_MOVE_EACH = "4k4/9/9/9/9/9/9/9/4K4 b - 1"


def play(game, *moves):
    """Play moves in USI notation."""
    for move in moves:
        colour = game.possible_agents.index(game.agent_selection)
        game.step(PolicyOutputMapper.action_of(move, colour))


def started(**arguments):
    game = ShogiEnv(**arguments)
    game.reset()
    return game


@pytest.mark.parametrize("make", [env, lambda: ShogiEnv(max_moves=30)])
def test_shogi_passes_the_tests_of_pettingzoo(make):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "We recommend agents to be named")
        warnings.filterwarnings("ignore", "Observation space for each agent probably")
        warnings.filterwarnings("ignore", "Observation is not a NumPy array")
        api_test(make(), num_cycles=100)
        seed_test(make, num_cycles=100)


def test_the_mover_sees_the_planes_and_legal_moves_of_the_batch():
    game, games = started(), VectorShogi(1, seed=1, threads=1)
    expand = feature_set("core46").expand
    for _ in range(40):
        seen, *_ = game.last()
        planes = expand(torch.from_numpy(games.positions))[0].numpy()
        np.testing.assert_array_equal(seen["observation"], planes)
        legal = games.legal[0, : games.legal_counts[0]]
        assert np.flatnonzero(seen["action_mask"]).tolist() == sorted(legal.tolist())
        action = games.random_actions()
        games.step(action)
        game.step(int(action[0]))


def test_who_is_not_to_move_sees_the_board_from_its_side_and_no_legal_moves():
    game = started()
    white_now = game.observe("white")
    assert not white_now["action_mask"].any()
    # The start position looks the same from both sides, but for the colour.
    white_now["observation"][42] = 0
    np.testing.assert_array_equal(white_now["observation"], game.observe("black")["observation"])
    play(game, "7g7f")
    pawns_of_white = game.observe("white")["observation"][0]
    np.testing.assert_array_equal(
        game.observe("black")["observation"][14], pawns_of_white[::-1, ::-1]
    )


def test_mate_brings_1_and_minus_1_and_terminates_both():
    game = started(start_sfen=MATE_IN_ONE)
    play(game, "G*5b")
    assert game.rewards == {"black": 1.0, "white": -1.0}
    assert game.terminations == {"black": True, "white": True}
    assert game.truncations == {"black": False, "white": False}
    assert game.infos["black"] == {"reason": "checkmate"}
    assert not game.observe("white")["action_mask"].any()
    assert game.observe("white")["observation"][45].all()  # in check


def test_the_move_limit_truncates_without_a_winner():
    game = started(max_moves=2)
    play(game, "7g7f", "3c3d")
    assert game.rewards == {"black": 0.0, "white": 0.0}
    assert game.truncations == {"black": True, "white": True}
    assert game.terminations == {"black": False, "white": False}
    assert game.infos["white"] == {"reason": "max_moves"}


def test_a_repetition_is_a_draw_that_terminates():
    game = started(start_sfen=ONE_MOVE_EACH)
    play(game, *["5i5h", "5a5b", "5h5i", "5b5a"] * 3)
    assert game.rewards == {"black": 0.0, "white": 0.0}
    assert game.terminations == {"black": True, "white": True}
    assert game.infos["white"] == {"reason": "repetition"}


def test_an_entered_king_wins_where_declarations_count():
    sfen = "K8/RRBBGGGGS/SSSNNNNLL/9/9/9/9/9/k8 w LL 1"
    game = started(start_sfen=sfen, declaration=Declaration.POINTS_27)
    play(game, "9i8i")
    assert game.rewards == {"black": 1.0, "white": -1.0}
    assert game.infos["black"] == {"reason": "declaration"}


def test_who_plays_an_illegal_move_loses():
    game = env()
    game.reset()
    game.step(0 if not game.observe("black")["action_mask"][0] else 1)
    assert game.rewards["black"] == -1
    assert all(game.terminations.values())


def test_without_the_wrappers_an_illegal_move_is_an_error_and_so_is_none():
    game = started()
    with pytest.raises(ValueError, match="not legal"):
        game.step(0)
    with pytest.raises(ValueError, match="black is to move"):
        game.step(None)


def test_the_board_is_text_to_the_end_of_the_game():
    game = started(start_sfen=MATE_IN_ONE, render_mode="ansi")
    play(game, "G*5b")
    mated = ShogiGame(MATE_IN_ONE)
    mated.make_move("G*5b")
    assert game.render() == str(mated)
    assert started().render() is None
    with pytest.raises(ValueError, match="render_mode"):
        ShogiEnv(render_mode="human")
