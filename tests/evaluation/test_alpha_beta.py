"""The alpha-beta player: it finds what a search of every line finds, and deeper is stronger."""

from collections import Counter

import numpy as np
import pytest

from keisei.evaluation.alpha_beta import DEEPEST, AlphaBetaPlayer
from keisei.evaluation.alpha_beta_kernels import MATE, choose_by_search
from keisei.evaluation.match import play_match
from keisei.evaluation.players import GreedyPlayer
from keisei.shogi.movegen import generate
from keisei.shogi.policy_output_mapper import PolicyOutputMapper
from keisei.shogi.position import MAX_LEGAL_MOVES, make_move, new_games, unmake_move
from keisei.shogi.sfen import format_sfen
from keisei.shogi.vector_shogi import VectorShogi

VALUES = [0, 1, 3, 4, 5, 6, 8, 10, 0, 6, 6, 6, 6, 10, 12]


def choices(player, sfen, times=1):
    """How often each USI move is chosen when the position is put `times` times."""
    games = VectorShogi(times, start_sfen=sfen, threads=1)
    actions = player.choose(games, np.arange(times))
    return Counter(PolicyOutputMapper.move_of(action, games.mover[0]) for action in actions)


def balance(game):
    """Material for the mover, counted on the whole board."""
    us = int(game.mover)
    board = sum(np.sign(p) * VALUES[abs(p)] for p in game.board[us].tolist())
    hands = game.hands[us].astype(int) - game.hands[1 - us]
    return int(board + sum(VALUES[kind + 1] * more for kind, more in enumerate(hands.tolist())))


def scores(game, depth, ply, plies):
    """(action, score) of every legal move, by search of every line, and whether it is check."""
    legal = np.zeros((1, MAX_LEGAL_MOVES), np.uint16)
    found = []
    actions = legal[0, : generate(game, legal, 0)].tolist()
    in_check = bool(game.in_check)
    for action in actions:
        before = balance(game)
        captured = int(make_move(game, action))
        if depth > 0 or in_check or -balance(game) > before:
            found.append((action, -minimax(game, depth - 1, ply + 1, plies)))
        unmake_move(game, action, captured)
    return found, in_check, bool(actions)


def minimax(game, depth, ply, plies):
    """The score of a position without pruning; exchanges end at `plies`."""
    if ply == plies - 1:
        legal = np.zeros((1, MAX_LEGAL_MOVES), np.uint16)
        mated = generate(game, legal, 0) == 0 and (depth > 0 or game.in_check)
        return ply - int(MATE) if mated else balance(game)
    found, in_check, can_move = scores(game, depth, ply, plies)
    if depth > 0 or in_check:
        return max(score for _, score in found) if can_move else ply - int(MATE)
    return max([balance(game), *(score for _, score in found)])


def search(games, row, depth, plies, draws):
    """(chosen actions, score) of the compiled search for each draw."""
    actions = np.zeros(len(draws), np.int64)
    score = choose_by_search(
        games.records,
        np.full(len(draws), row),
        np.int64(depth),
        np.array(draws),
        new_games(1),
        np.zeros((plies, MAX_LEGAL_MOVES), np.uint16),
        np.zeros((plies, MAX_LEGAL_MOVES), np.int64),
        np.zeros((plies, MAX_LEGAL_MOVES), np.int64),
        np.zeros(plies, np.int64),
        np.zeros(MAX_LEGAL_MOVES, np.int64),
        actions,
    )
    return set(actions.tolist()), int(score)


@pytest.mark.parametrize(
    ("depth", "plies", "random_plies"),
    [(1, 4, 40), (1, 3, 160), (1, 3, 260), (2, 4, 30), (2, 3, 100)],
)
def test_alpha_beta_finds_what_a_search_of_every_line_finds(depth, plies, random_plies):
    games = VectorShogi(2, seed=random_plies, threads=1)
    games.play_random(random_plies)
    for row in range(2):
        found, _, _ = scores(games.records[row : row + 1].copy()[0], depth, 0, plies)
        best = max(score for _, score in found)
        equals = {action for action, score in found if score == best}
        spread = (np.arange(len(equals)) + 0.5) / len(equals)
        chosen, score = search(games, row, depth, plies, spread)
        assert score == best, format_sfen(games.records[row], 1)
        assert chosen == equals, format_sfen(games.records[row], 1)


@pytest.mark.uncompiled
@pytest.mark.parametrize(
    ("depth", "sfen", "move"),
    [
        pytest.param(1, "k8/9/9/4rp3/4G4/9/9/9/8K b - 1", "5e5d", id="the rook, not the pawn"),
        pytest.param(1, "k8/9/9/9/4g4/4RP3/9/9/8K w - 1", "5e5f", id="white sees it too"),
        pytest.param(1, "4k4/9/4P4/r8/G8/9/9/9/4K4 b G 1", "G*5b", id="mates rather than takes"),
    ],
)
def test_alpha_beta_chooses(depth, sfen, move):
    assert choices(AlphaBetaPlayer(depth, 0), sfen) == {move: 1}


def test_a_defended_pawn_is_left_alone():
    sfen = "k4g3/4p4/9/9/4R4/9/9/9/K8 b - 1"
    assert set(choices(GreedyPlayer(0), sfen)) == {"5e5b+"}
    assert "5e5b+" not in choices(AlphaBetaPlayer(1, 0), sfen, times=50)


def test_three_plies_see_a_mate_that_two_do_not():
    games = VectorShogi(1, start_sfen="7k1/9/6P2/9/9/9/9/9/4K4 b 2G 1", threads=1)
    _, score = search(games, 0, 2, 6, [0.0])
    assert score < MATE - 10
    chosen, score = search(games, 0, 3, 7, [0.25, 0.75])
    assert score == MATE - 3
    assert {PolicyOutputMapper.move_of(action, 0) for action in chosen} == {"G*1c", "G*2c"}


def test_moves_of_equal_score_are_equally_likely():
    found = choices(AlphaBetaPlayer(1, 0), "k8/9/9/3p1p3/4G4/9/9/9/8K b - 1", times=400)
    assert set(found) == {"5e4d", "5e6d"}
    assert all(150 < times < 250 for times in found.values())


def test_the_same_seed_chooses_the_same_and_another_seed_does_not():
    games, rows = VectorShogi(64, threads=1), np.arange(64)
    first, same, other = (AlphaBetaPlayer(2, seed).choose(games, rows) for seed in (5, 5, 6))
    assert np.array_equal(first, same)
    assert not np.array_equal(first, other)


def test_the_games_stay_as_they_are_and_the_actions_are_legal():
    games = VectorShogi(32, seed=4, threads=1)
    games.play_random(121)
    before = games.state()
    rows = np.array([30, 2, 17])
    actions = AlphaBetaPlayer(2, 0).choose(games, rows)
    for row, action in zip(rows, actions, strict=True):
        assert action in games.legal[row, : games.legal_counts[row]]
    for field, array in games.state().items():
        assert np.array_equal(array, before[field]), field


def test_a_game_without_one_of_the_kings_can_be_played():
    assert choices(AlphaBetaPlayer(2, 0), "9/9/9/4rp3/4G4/9/9/9/8K b - 1") == {"5e5d": 1}


@pytest.mark.parametrize("depth", [0, DEEPEST + 1])
def test_a_depth_that_cannot_be_searched_is_refused(depth):
    with pytest.raises(ValueError, match=f"1 to {DEEPEST} plies deep, not {depth}"):
        AlphaBetaPlayer(depth, 0)


def test_one_ply_beats_greedy_and_two_beat_one():
    assert play_match(AlphaBetaPlayer(1, 1), GreedyPlayer(2), games=20, seed=1).tally().wins >= 18
    deeper = play_match(AlphaBetaPlayer(2, 1), AlphaBetaPlayer(1, 2), games=20, seed=1)
    assert deeper.tally().points >= 14
