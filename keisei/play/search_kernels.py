"""From trees to games: walking to leaves by the rules, and the questions about mates."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from keisei.compiled.kernels import kernel
from keisei.play.mate_kernels import mating_line, prove, quick_mate
from keisei.play.search_tree import (
    AWAITED,
    DRAWN,
    EVALUATED,
    LOST,
    ROOT,
    WON,
    back_up,
    choose_edge,
    open_edge,
    plant,
    settle,
    settled_value,
)
from keisei.play.tree_answers import copy_twin
from keisei.shogi.batch import advance, write_position
from keisei.shogi.judging import CONTINUES, DRAW, MOVER_WINS
from keisei.shogi.movegen import generate

PROVE, LINE = range(2)
"""What can be asked about a mate: whether there is one, how it goes."""
_PLY_KEY = np.uint64(0x9E3779B97F4A7C15)
_OCCURRENCE_KEY = np.uint64(0xC2B2AE3D27D4EB4F)
_FIRST_ROW = np.int64(0)  # not a literal: see the directions in `bitboard`


class Leaves(NamedTuple):
    """The positions that a network is to value, at most R."""

    positions: np.ndarray  # [R, 100] int8
    legal: np.ndarray  # [R, 593] uint16
    counts: np.ndarray  # [R] int32
    trees: np.ndarray  # [R] int32: which tree each is of
    nodes: np.ndarray  # [R] int32: which node of it


class LeafMates(NamedTuple):
    """How much each new leaf is searched for a mate.

    Of 60 games at 60 nodes a move, one ply won 35 against none, and three plies with 10 nodes 36
    (2 drawn) against one: hints, not proofs.
    """

    plies: int = 1
    nodes: int = 1


@kernel
def _list_leaf(games, tree, node, count, legal, leaves, row):
    """Write a leaf to a row of those that await a value."""
    write_position(games.records[tree], leaves.positions, row)
    leaves.counts[row] = count
    leaves.legal[row, :count] = legal[tree, :count]
    leaves.trees[row] = tree
    leaves.nodes[row] = node


@kernel
def _network_key(game):
    """A hash of all that a network sees of a position."""
    seen_before = np.uint64(min(game.repetitions, 3))
    return game.key + _PLY_KEY * np.uint64(game.ply) + _OCCURRENCE_KEY * seen_before


@kernel
def _begin_root(trees, tree, games, legal, leaves, row):
    """The first descent of a tree values its root."""
    count = generate(games.records[tree], legal, tree)
    trees.nodes[tree, ROOT].in_flight = 1
    _list_leaf(games, tree, ROOT, count, legal, leaves, row)


@kernel
def _judge_leaf(trees, tree, number, games, verdict, rules, leaf_mates, room):
    """Settle a new leaf if the game is over there or a mate is found; whether it was."""
    if verdict != CONTINUES:
        state = DRAWN
        if verdict != DRAW:
            state = WON if verdict == MOVER_WINS else LOST
        settle(trees, tree, number, state, np.int64(0))
        return True
    game = games.records[tree]
    plies = min(leaf_mates.plies, rules.max_moves - np.int64(game.ply))
    if plies > 0:
        distance = quick_mate(game, plies, leaf_mates.nodes, games.keys, tree, room)
        if distance:
            settle(trees, tree, number, WON, distance)
            return True
    return False


@kernel
def _descend(trees, tree, games, rules, legal, selection, leaf_mates, room, leaves, row):
    """One descent from the root; (whether it counts, whether it wrote a leaf to `row`)."""
    number, depth = ROOT, np.int64(0)
    while True:
        node = trees.nodes[tree, number]
        choice = -1
        if node.state == EVALUATED:
            choice = choose_edge(trees, tree, number, selection)
        node.in_flight += 1
        if node.state == AWAITED:  # met again: its flights land together with its value
            return False, False
        if node.state != EVALUATED:
            back_up(trees, tree, number, settled_value(node.state), np.int64(1))
            return True, False
        if choice < 0:
            back_up(trees, tree, number, np.float64(node.value), np.int64(1))
            return True, False
        edge = trees.edges[tree, node.first_edge + choice]
        count, verdict, _ = advance(games, tree, np.int64(edge.action), legal, rules)
        depth += 1
        if choice < node.opened:
            number = np.int64(edge.child)
            continue
        number = open_edge(trees, tree, number)
        leaf = trees.nodes[tree, number]
        leaf.in_flight = 1
        trees.counts[tree].deepest = max(np.int64(trees.counts[tree].deepest), depth)
        if verdict == CONTINUES:
            leaf.key = _network_key(games.records[tree])
            if copy_twin(trees, tree, number):
                back_up(trees, tree, number, np.float64(leaf.value), np.int64(1))
                return True, False
            # Before the mate search, which changes `in_check`.
            _list_leaf(games, tree, number, count, legal, leaves, row)
        if _judge_leaf(trees, tree, number, games, verdict, rules, leaf_mates, room):
            back_up(trees, tree, number, settled_value(leaf.state), np.int64(1))
            return True, False
        return True, True


@kernel(entry=True)
def gather_leaves(trees, roots, wanted, games, rules, legal, selection, leaf_mates, room, leaves):
    """Descend in each of G trees up to wanted [G] times; how many leaves then await a value.

    roots: [G] GAME, the root positions; games: room for one game of each tree, with the roots'
    histories; legal: [G, 593] uint16, scratch. A descent that meets a leaf of the same batch does
    not count, and as many of those as are wanted end a tree's turn. So does a settled root.
    """
    row = np.int64(0)  # not a literal, for which Numba would compile all below once more
    for tree in range(len(wanted)):
        done = met = np.int64(0)
        while done < wanted[tree] and met < wanted[tree]:
            games.records[tree] = roots[tree]
            if trees.counts[tree].nodes == 0:
                plant(trees, tree)
                _begin_root(trees, tree, games, legal, leaves, row)
                row += 1
                done += 1
                break
            root = trees.nodes[tree, ROOT]
            if root.state == WON or root.state == LOST:
                break
            counts, wrote = _descend(
                trees, tree, games, rules, legal, selection, leaf_mates, room, leaves, row
            )
            done += counts
            met += not counts
            row += wrote
        trees.counts[tree].descents += done
    return row


@kernel(entry=True)
def answer_about_mate(task, copy, plies, budget, keys, room, line):
    """PROVE: what `prove` says of mate within `plies`; LINE: the length of a proven mate's line.

    copy: [1] GAME, which may be changed; keys: [1, M + 1], its history; line: [D] int64.
    """
    if task == PROVE:
        return np.int64(prove(copy[0], plies, budget, keys, _FIRST_ROW, room))
    return np.int64(mating_line(copy[0], plies, budget, keys, _FIRST_ROW, room, line))
