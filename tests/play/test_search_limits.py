"""`TreeSearch` keeps to its limits, keeps its tree, and says what it thinks."""

import pytest

from keisei.play.forest import SearchSettings
from keisei.play.search_tree import ROOT
from keisei.play.searching import Limits
from keisei.play.tree_search import TreeSearch
from keisei.shogi.judging import Reason
from keisei.shogi.sfen import START_SFEN
from keisei.shogi.shogi_game import ShogiGame
from tests.core.small import small_agent

GOLD_MATES = "4k4/9/4P4/9/9/9/9/9/4K4 b G 1"
MATED = "4k4/4G4/4P4/9/9/9/9/9/4K4 w - 1"
MATED_SOON = "8k/9/9/9/9/9/6g1g/9/8K b - 1"


@pytest.fixture
def search():
    return TreeSearch(small_agent(), tree_nodes=5000)


def played(lines):
    return [(line.moves, line.visits, line.value, line.mate) for line in lines]


@pytest.mark.parametrize("nodes", [1, 2, 37, 200])
def test_it_searches_as_many_nodes_as_it_may(search, nodes):
    report = search.search(Limits(nodes=nodes))
    assert report.nodes == nodes
    assert ShogiGame().is_legal(report.lines[0].moves[0])


def test_it_stops_when_told_or_when_time_is_up(search):
    asked = []

    def stop():
        asked.append(1)
        return len(asked) > 5

    assert 0 < search.search(Limits(stop=stop)).nodes < 500
    report = search.search(Limits(seconds=0.05))
    assert report.seconds >= 0.05
    assert report.nodes > 0


def test_it_stops_at_a_depth(search):
    report = search.search(Limits(depth=3, nodes=5000))
    assert report.depth >= 3
    assert report.nodes < 5000
    assert report.seldepth >= report.depth


def test_the_same_seed_and_nodes_give_the_same_answer_bit_for_bit():
    def answer(seed):
        search = TreeSearch(small_agent(), settings=SearchSettings(seed=seed), tree_nodes=1000)
        return played(search.search(Limits(nodes=300), lines=10).lines)

    assert answer(1) == answer(1)
    assert answer(1) != answer(2)


def test_lines_are_different_moves_in_order_of_their_visits(search):
    report = search.search(Limits(nodes=300), lines=5)
    assert len({line.moves[0] for line in report.lines}) == 5
    visits = [line.visits for line in report.lines]
    assert visits == sorted(visits, reverse=True)
    assert sum(visits) < 300
    for line in report.lines:
        assert -1 <= line.value <= 1
        game = ShogiGame()
        for move in line.moves:
            game.make_move(move)
    assert report.depth == len(report.lines[0].moves)


def test_the_tree_of_the_moves_played_is_kept(search):
    report = search.search(Limits(nodes=400), lines=3)
    best = report.lines[0]
    search.set_position(START_SFEN, best.moves[:1])
    root = search._forest.trees.nodes[0, ROOT]
    assert root.visits == best.visits
    assert -root.value_sum / root.visits == pytest.approx(best.value)
    kept = search.search(Limits(nodes=1)).lines[0]
    assert kept.moves[0] == best.moves[1]
    search.set_position(START_SFEN, best.moves[:2])
    assert search._forest.trees.nodes[0, ROOT].visits == kept.visits


def test_a_kept_tree_is_the_subtree_it_was(search):
    moves = search.search(Limits(nodes=600)).lines[0].moves
    before = _statistics(search, _node_after(search, moves[:2]))
    search.set_position(START_SFEN, moves[:2])
    assert _statistics(search, ROOT) == before


def _node_after(search, moves):
    return search._node_after(moves)


def _statistics(search, number):
    """All below a node: priors, visits and values by the moves that lead there."""
    trees = search._forest.trees
    node = trees.nodes[0, number]
    edges = trees.edges[0, node.first_edge : node.first_edge + node.edges]
    inside = {
        int(edge.action): (
            float(edge.prior),
            _statistics(search, int(edge.child)) if edge.child >= 0 else None,
        )
        for edge in edges
    }
    return int(node.visits), float(node.value_sum), float(node.value), int(node.state), inside


def test_another_game_gets_another_tree(search):
    search.search(Limits(nodes=100))
    search.set_position(GOLD_MATES, [])
    assert search._forest.trees.counts.nodes[0] == 0
    search.set_position(START_SFEN, ["7g7f"])
    assert search.search(Limits(nodes=5)).nodes == 5


def test_a_tree_can_be_forgotten(search):
    first = played(search.search(Limits(nodes=100)).lines)
    search.clear()
    assert search.search(Limits(nodes=1)).lines[0].visits == 0
    search.clear()
    assert played(search.search(Limits(nodes=100)).lines) == first


def test_a_mate_is_played_at_once(search):
    search.set_position(GOLD_MATES, [])
    report = search.search(Limits(nodes=1000))
    assert report.lines[0].moves == ("G*5b",)
    assert report.lines[0].mate == 1
    assert report.lines[0].value == 1
    assert report.nodes < 1000


def test_being_mated_is_said_so(search):
    search.set_position(MATED_SOON, [])
    report = search.search(Limits(nodes=1000))
    assert report.lines[0].mate == -2
    assert report.lines[0].value == -1
    assert report.nodes < 1000


def test_a_position_without_moves_has_no_lines(search):
    game = ShogiGame(MATED)
    assert game.outcome().reason == Reason.CHECKMATE
    search.set_position(MATED, [])
    assert search.search(Limits(nodes=10)).lines == ()


def test_a_full_tree_is_no_error():
    search = TreeSearch(small_agent(), tree_nodes=40)
    report = search.search(Limits(nodes=500))
    assert report.nodes == 500
    assert report.hashfull == 1000


def test_reports_come_while_it_searches(search):
    reports = []
    last = search.search(Limits(nodes=400), report=reports.append, report_every=0.0)
    assert len(reports) > 3
    assert [report.nodes for report in reports] == sorted(report.nodes for report in reports)
    assert reports[-1].nodes == last.nodes


def test_bad_positions_and_moves_are_refused_and_change_nothing(search):
    search.search(Limits(nodes=50))
    with pytest.raises(ValueError, match="not legal"):
        search.set_position(START_SFEN, ["7g7f", "7g7f"])
    with pytest.raises(ValueError, match="SFEN"):
        search.set_position("what", [])
    assert search.search(Limits(nodes=1)).lines[0].visits > 0


def test_games_that_went_on_after_the_move_limit_are_searched():
    search = TreeSearch(small_agent(), settings=SearchSettings(max_moves=4), tree_nodes=500)
    search.set_position(START_SFEN, ["2h3h", "8b7b", "3h2h", "7b8b", "2h3h", "8b7b"])
    report = search.search(Limits(nodes=20))
    assert report.nodes == 20
    assert report.lines[0].value == 0
