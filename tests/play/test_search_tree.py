"""Trees hold together, find endings, and grow as a plain search in Python does."""

import numpy as np
import pytest

from keisei.bench.plain_search import PlainSearch
from keisei.config_schema import PPOConfig
from keisei.core.ppo_agent import PPOAgent
from keisei.play.forest import Forest, SearchSettings
from keisei.play.game_history import GameHistory
from keisei.play.root_moves import best_action
from keisei.play.search_kernels import LeafMates
from keisei.play.search_tree import AWAITED, DRAWN, EVALUATED, LOST, NO_NODE, ROOT, WON
from keisei.shogi.judging import Declaration
from keisei.shogi.policy_output_mapper import PolicyOutputMapper
from keisei.shogi.sfen import START_SFEN
from keisei.shogi.shogi_game import ShogiGame
from keisei.shogi.vector_shogi import VectorShogi
from tests.core.small import BOTH_CAN_MATE, SMALL_MODEL, played_games, small_agent
from tests.shogi.test_endings import ENTERED

GOLD_MATES = "4k4/9/4P4/9/9/9/9/9/4K4 b G 1"
NO_MATES = LeafMates(plies=0, nodes=0)


def forest_of(agent, state, *, nodes=400, leaves=8, **settings):
    trees = len(state["mover"])
    forest = Forest(agent, SearchSettings(**settings), trees=trees, nodes=nodes, most_leaves=leaves)
    forest.set_roots(state)
    return forest


def of_game(sfen, moves=(), **settings):
    return forest_of(small_agent(), GameHistory.of(sfen, moves).state(), **settings)


def grow(forest, times, leaves=8):
    for _ in range(times):
        forest.grow(np.full(len(forest.roots), leaves))


def child_after(forest, move, mover=0):
    root = forest.trees.nodes[0, ROOT]
    for edge in forest.trees.edges[0, root.first_edge : root.first_edge + root.opened]:
        if PolicyOutputMapper.move_of(int(edge.action), mover) == move:
            return forest.trees.nodes[0, edge.child]
    return None


def check_tree(forest, tree):
    """Every count of a tree follows from its parts."""
    trees = forest.trees
    used = int(trees.counts.nodes[tree])
    children_of = {number: [] for number in range(used)}
    for number in range(1, used):
        children_of[int(trees.nodes[tree, number].parent)].append(number)
    for number, children in children_of.items():
        node = trees.nodes[tree, number]
        edges = trees.edges[tree, node.first_edge : node.first_edge + node.edges]
        assert [int(child) for child in edges.child[: node.opened]] == children
        assert (edges.child[node.opened :] == NO_NODE).all()
        assert node.in_flight == 0
        assert node.state != AWAITED
        assert abs(node.value_sum) <= node.visits + 1e-9
        if node.state == EVALUATED:
            inside = trees.nodes[tree, children]
            assert node.visits == 1 + inside.visits.sum()
            assert node.value_sum == pytest.approx(node.value - inside.value_sum.sum(), abs=1e-4)
            assert node.refuted == (inside.state == WON).sum()
            assert not (inside.state == LOST).any()
            assert len(set(edges.action.tolist())) == node.edges
            assert edges.prior.sum() == pytest.approx(1, abs=1e-4)
            priors = edges.prior[: node.opened + 1]
            assert (np.diff(priors) <= 0).all()
            assert priors[-1] == edges.prior[node.opened :].max(initial=priors[-1])


@pytest.mark.parametrize("leaves", [1, 8])
def test_the_counts_of_random_games_trees_are_consistent(leaves):
    games = played_games(count=6, plies=70)
    forest = forest_of(small_agent(), games.state(), leaves=leaves)
    grow(forest, 1 + 200 // leaves, leaves)  # the first time only the root is valued
    for tree in range(6):
        check_tree(forest, tree)
    assert (forest.trees.counts.descents == 201).all()


def test_the_counts_hold_where_games_end_all_over_the_tree():
    games = VectorShogi(4, start_sfen=BOTH_CAN_MATE, max_moves=12, threads=1)
    forest = forest_of(small_agent(), games.state(), max_moves=12, leaf_mates=NO_MATES)
    grow(forest, 40)
    states = forest.trees.nodes.state[0, : forest.trees.counts.nodes[0]]
    assert (states == LOST).any() or (states == WON).any()
    for tree in range(4):
        if forest.trees.nodes.state[tree, ROOT] == EVALUATED:
            check_tree(forest, tree)


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_one_leaf_at_a_time_it_is_the_plain_search(seed):
    agent = small_agent(seed=seed)
    moves = [random_moves(24, seed=seed + row) for row in range(3)]
    for played in moves:
        game = ShogiGame()
        for move in played:
            game.make_move(move)
        state = GameHistory.of(START_SFEN, played).state()
        forest = forest_of(agent, state, leaves=1, root_noise=0.0, leaf_mates=NO_MATES)
        for nodes in (1, 2, 10, 100):
            grow(forest, nodes - int(forest.trees.counts.descents[0]), 1)
            assert same(forest, ROOT, PlainSearch(agent).search(game, nodes))


def same(forest, number, plain):
    """Whether a node and all below it have the visits and values of the plain tree."""
    node = forest.trees.nodes[0, number]
    edges = forest.trees.edges[0, node.first_edge : node.first_edge + node.opened]
    visited = {action for action, child in plain.children.items() if child.visits}
    return (
        node.visits == plain.visits
        and abs(node.value_sum - plain.value_sum) < 1e-3
        and {int(action) for action in edges.action} == visited
        and all(same(forest, int(e.child), plain.children[int(e.action)]) for e in edges)
    )


def random_moves(plies, seed):
    random = np.random.default_rng(seed)
    game = ShogiGame()
    for _ in range(plies):
        game.make_move(str(random.choice(game.legal_moves())))
    return game.moves


def test_a_mate_in_one_is_found_without_a_mate_search():
    unbiased = PPOAgent(SMALL_MODEL, PPOConfig())
    state = GameHistory.of(GOLD_MATES, []).state()
    forest = forest_of(unbiased, state, leaf_mates=NO_MATES)
    grow(forest, 30)
    root = forest.trees.nodes[0, ROOT]
    assert (root.state, root.distance) == (WON, 1)
    assert PolicyOutputMapper.move_of(best_action(forest.trees, 0), 0) == "G*5b"
    assert child_after(forest, "G*5b").state == LOST


def test_a_mate_search_at_leaves_sees_what_the_opponent_threatens():
    threatened = "4k4/9/9/9/9/9/4p4/9/4K4 b Lg 1"  # white drops a gold, unless black moves away
    forest = of_game(threatened)
    grow(forest, 60)
    lost = child_after(forest, "L*1i")
    assert lost is None or (lost.state, lost.distance) == (WON, 1)
    assert forest.trees.nodes[0, ROOT].refuted > 0


def test_a_root_without_escape_is_proven_lost():
    forest = of_game("8k/9/9/9/9/9/6g1g/9/8K b - 1")
    grow(forest, 60)
    root = forest.trees.nodes[0, ROOT]
    assert root.state == LOST
    assert root.distance == 2
    assert root.refuted == root.edges


ROOK_SHUFFLE = ["2h3h", "8b7b", "3h2h", "7b8b"]


def test_a_fourth_occurrence_is_a_draw_in_the_tree():
    forest = of_game(START_SFEN, (ROOK_SHUFFLE * 3)[:-1], nodes=2000)
    grow(forest, 150)
    drawn = child_after(forest, "7b8b", mover=1)
    assert drawn.state == DRAWN
    assert drawn.value_sum == 0


def test_the_checker_loses_by_perpetual_check_in_the_tree():
    cycle = ["5a4a", "5g4g", "4a5a", "4g5g"]
    forest = of_game("4k4/9/9/9/9/9/R8/9/4K4 b - 1", ["9g5g", *cycle * 2, *cycle[:3]])
    grow(forest, 100)
    fourth_check = child_after(forest, "4g5g")
    assert (fourth_check.state, fourth_check.distance) == (WON, 0)
    assert PolicyOutputMapper.move_of(best_action(forest.trees, 0), 0) != "4g5g"


@pytest.mark.parametrize("rule", [Declaration.POINTS_27, Declaration.OFF])
def test_a_declaration_ends_the_game_in_the_tree_when_the_rule_is_on(rule):
    forest = of_game(ENTERED, declaration=rule, nodes=2000)
    grow(forest, 60)
    used = int(forest.trees.counts.nodes[0])
    ended = (forest.trees.nodes.state[0, 1:used] == WON) & (
        forest.trees.nodes.distance[0, 1:used] == 0
    )
    assert ended.any() == (rule == Declaration.POINTS_27)


def test_the_move_limit_is_a_draw_in_the_tree():
    forest = of_game(START_SFEN, random_moves(9, seed=1), max_moves=10)
    grow(forest, 10)
    used = int(forest.trees.counts.nodes[0])
    assert (forest.trees.nodes.state[0, 1:used] == DRAWN).all()


def test_a_tree_without_room_stops_growing_and_goes_on():
    forest = of_game(START_SFEN, nodes=50)
    grow(forest, 40)
    counts = forest.trees.counts[0]
    assert (counts.nodes, counts.full) == (50, 1)
    assert counts.descents == 40 * 8 - 7  # the first call values the root alone
    assert forest.trees.nodes[0, ROOT].visits == counts.descents


def test_twins_of_a_position_share_what_the_network_said():
    forest = of_game(START_SFEN, nodes=3000, root_noise=0.0)
    grow(forest, 250)
    used = int(forest.trees.counts.nodes[0])
    nodes = forest.trees.nodes[0, 1:used]
    values = {}
    shared = 0
    for key, value in zip(nodes.key.tolist(), nodes.value.tolist(), strict=True):
        shared += key in values
        assert values.setdefault(key, value) == pytest.approx(value, abs=1e-4)
    assert shared > 0
