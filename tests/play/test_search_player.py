"""`SearchPlayer` plays many games at once, each as it would alone, and better than its network."""

import numpy as np
import pytest

from keisei.evaluation.match import play_match
from keisei.evaluation.model_player import ModelPlayer
from keisei.play import search_player
from keisei.play.search_player import SearchPlayer
from keisei.shogi.policy_output_mapper import PolicyOutputMapper
from keisei.shogi.vector_shogi import VectorShogi
from tests.core.small import BOTH_CAN_MATE, played_games, small_agent

GOLD_MATES = "4k4/9/4P4/9/9/9/9/9/4K4 b G 1"


@pytest.mark.parametrize("nodes", [1, 30])
def test_a_mate_in_one_is_always_played(nodes):
    games = VectorShogi(3, start_sfen=GOLD_MATES, threads=1)
    for seed in range(3):
        player = SearchPlayer(small_agent(seed=seed), "x", nodes=nodes, seed=seed)
        for action in player.choose(games, np.arange(3)).tolist():
            assert PolicyOutputMapper.move_of(action, 0) == "G*5b"


def test_it_plays_legal_moves_and_changes_no_game():
    games = played_games(count=8, plies=60)
    before = {name: array.tobytes() for name, array in games.state().items()}
    rows = np.array([1, 4, 5])
    actions = SearchPlayer(small_agent(), "x", nodes=20).choose(games, rows)
    for row, action in zip(rows, actions, strict=True):
        assert action in games.legal[row, : games.legal_counts[row]]
    assert {name: array.tobytes() for name, array in games.state().items()} == before


def test_the_same_seed_and_nodes_give_the_same_moves():
    games = played_games(count=6, plies=50)
    rows = np.arange(6)
    first = SearchPlayer(small_agent(), "x", nodes=60, seed=5)
    second = SearchPlayer(small_agent(), "x", nodes=60, seed=5)
    expected = first.choose(games, rows)
    assert (second.choose(games, rows) == expected).all()
    assert (first.choose(games, rows) == expected).all()


def test_it_counts_its_nodes():
    games = played_games(count=4, plies=20)
    player = SearchPlayer(small_agent(), "x", nodes=37)
    player.choose(games, np.arange(4))
    assert player.nodes_searched == 4 * 37
    with pytest.raises(ValueError, match="at least 1 node"):
        SearchPlayer(small_agent(), "x", nodes=0)


def test_more_games_than_trees_are_taken_in_parts(monkeypatch):
    games = played_games(count=5, plies=40)
    whole = SearchPlayer(small_agent(), "x", nodes=16).choose(games, np.arange(5))
    monkeypatch.setattr(search_player, "MOST_TREES", 2)
    parts = SearchPlayer(small_agent(), "x", nodes=16).choose(games, np.arange(5))
    assert (whole == parts).sum() >= 4  # a network's last bits may differ with its batch


def test_a_search_beats_the_network_alone_where_mates_are_near():
    agent = small_agent()
    searcher, alone = SearchPlayer(agent, "search", nodes=30), ModelPlayer(agent, "alone")
    games = VectorShogi(
        16,
        start_sfen=BOTH_CAN_MATE,
        random_start_share=1.0,
        random_start_plies=4,
        max_moves=60,
        threads=1,
    )
    side = games.mover.copy()
    won = lost = 0
    for _ in range(20):
        rows = np.arange(16)
        actions = alone.choose(games, rows)
        ours = np.flatnonzero(games.mover == side)
        if ours.size:
            actions[ours] = searcher.choose(games, ours)
        movers = games.mover.copy()
        games.step(actions)
        won += ((games.result == 1) & (movers == side)).sum()
        lost += ((games.result == 1) & (movers != side)).sum()
        side = np.where(games.reason > 0, games.mover, side)
    assert won > 3 * lost
    assert won >= 5


def test_it_plays_matches():
    agent = small_agent()
    result = play_match(
        SearchPlayer(agent, "search", nodes=8),
        ModelPlayer(agent, "alone"),
        games=2,
        seed=1,
        max_moves=30,
    )
    assert result.tally().games == 2
