"""What `keisei bench search` reports; how fast is not a matter for tests."""

import json

import pytest

from keisei.bench.search import bench_search, positions_of_self_play, search_strength
from keisei.shogi.shogi_game import ShogiGame
from tests.core.small import small_agent


def test_it_reports_rates_and_ratios():
    report = bench_search(small_agent(), rounds=1, nodes=40, games=2)
    rates = report["nodes_per_second"]
    assert set(rates) == {"plain", "one_tree", "many_games"}
    for side in ("one_tree", "many_games"):
        assert report[f"{side}_vs_plain"] == pytest.approx(rates[side] / rates["plain"])
    assert (report["device"], report["model"]) == ("cpu", "1x8")
    assert json.loads(json.dumps(report)) == report


def test_the_games_of_self_play_are_legal():
    for moves in positions_of_self_play(small_agent(), 3):
        game = ShogiGame()
        for move in moves:
            game.make_move(move)


def test_the_strength_is_a_match():
    report = search_strength(small_agent(), nodes=2, games=2)
    assert report["wins"] + report["draws"] + report["losses"] == 2
    assert 0 <= report["score"] <= 1
