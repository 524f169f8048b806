"""Search trees as arrays: G trees side by side, each in rooms of its own of fixed size.

A node is a position reached by one path. Its edges are its legal moves; the first `opened` of them
lead to nodes, in the order of their priors, and of the others only the most probable stands in its
place, right behind. Values are the mover's, so they change sign from node to node.
A node can be settled: the game is over there, or one side is proven to win, whatever is played.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from keisei.compiled.kernels import kernel

AWAITED, EVALUATED, DRAWN, WON, LOST = range(5)
"""States of a node: sent to the network; with a value and edges; the game is drawn; the mover is
proven to win, to lose."""
NO_NODE = np.int32(-1)
ROOT: Any = np.int64(0)  # not a literal: see the directions in `bitboard`

NODE = np.dtype(
    [
        ("key", np.uint64),  # of the position with what else a network sees: ply and occurrences
        ("value_sum", np.float64),  # of all visits, for the mover
        ("value", np.float32),  # what the network said
        ("visits", np.int32),
        ("in_flight", np.int32),  # descents through here whose leaf awaits its value
        ("parent", np.int32),
        ("first_edge", np.int32),
        ("edges", np.int16),
        ("opened", np.int16),
        ("refuted", np.int16),  # children that are won for the opponent
        ("distance", np.int16),  # plies to the end, if proven; the longest refutation until then
        ("action", np.uint16),  # the move that led here
        ("state", np.int8),
    ],
    align=True,
)
EDGE = np.dtype([("prior", np.float32), ("child", np.int32), ("action", np.uint16)], align=True)
TREE = np.dtype(
    [
        ("nodes", np.int32),  # how many are used
        ("edges", np.int32),
        ("descents", np.int64),  # since the count was last set to 0
        ("deepest", np.int32),  # leaf, in plies below the root
        ("full", np.int32),  # 1 once a move found no room
    ],
    align=True,
)


class Trees(NamedTuple):
    """G trees."""

    nodes: Any  # [G, N] NODE
    edges: Any  # [G, E] EDGE
    counts: Any  # [G] TREE
    known: np.ndarray  # [G, 2 ** k] int32: nodes with a value by their keys, to find them again


class Selection(NamedTuple):
    """How the next leaf is chosen: PUCT."""

    exploration: float = 1.5
    exploration_base: float = 5000.0
    """Exploration grows with the logarithm of the visits over this number."""
    unvisited_discount: float = 0.3
    """How much worse than its parent a move is thought that was never tried, when all the moves
    tried have probability 1 together; it goes with the square root of theirs."""


def new_trees(count: int, nodes: int, edges: int) -> Trees:
    """Empty trees with room for so many nodes and edges each."""
    places = 1 << (2 * nodes - 1).bit_length()
    return Trees(
        np.zeros((count, nodes), NODE).view(np.recarray),
        np.zeros((count, edges), EDGE).view(np.recarray),
        np.zeros(count, TREE).view(np.recarray),
        np.zeros((count, places), np.int32),
    )


@kernel
def plant(trees, tree):
    """Make the tree a root that awaits its value."""
    counts = trees.counts[tree]
    counts.nodes = counts.edges = counts.full = 0
    trees.known[tree, :] = NO_NODE
    add_node(trees, tree, NO_NODE, np.uint16(0))


@kernel
def add_node(trees, tree, parent, action):
    """Add a node that awaits its value; return its number."""
    counts = trees.counts[tree]
    number = counts.nodes
    node = trees.nodes[tree, number]
    node.key = np.uint64(0)
    node.value_sum = 0.0
    node.value = 0.0
    node.visits = node.in_flight = node.first_edge = 0
    node.edges = node.opened = node.refuted = node.distance = 0
    node.parent = parent
    node.action = action
    node.state = AWAITED
    counts.nodes = number + 1
    return number


@kernel
def choose_edge(trees, tree, number, selection):
    """The number among its edges of the move to try below an evaluated node, -1 if there is none.

    There is none when the tree has no room for the children of this node.
    """
    node = trees.nodes[tree, number]
    total = np.float64(node.visits + node.in_flight)
    growth = np.log((total + selection.exploration_base) / selection.exploration_base)
    explore = (selection.exploration + growth) * np.sqrt(total)
    best, highest = -1, -np.inf
    tried = 0.0
    for index in range(node.opened):
        edge = trees.edges[tree, node.first_edge + index]
        child = trees.nodes[tree, edge.child]
        tried += np.float64(edge.prior)
        if child.state == WON:
            continue
        # A descent under way counts as a loss, so that the next one goes elsewhere.
        visits = np.float64(child.visits + child.in_flight)
        value = (-child.value_sum - child.in_flight) / visits
        score = value + explore * np.float64(edge.prior) / (1.0 + visits)
        if score > highest:
            best, highest = index, score
    counts = trees.counts[tree]
    if node.opened < node.edges:
        if counts.nodes == trees.nodes.shape[1]:
            counts.full = 1
            return best
        edge = trees.edges[tree, node.first_edge + node.opened]
        value = node.value_sum / node.visits - selection.unvisited_discount * np.sqrt(tried)
        if value + explore * np.float64(edge.prior) > highest:
            best = np.int64(node.opened)
    return best


@kernel
def bring_forward(trees, tree, node):
    """Put the most probable unopened edge, of equals the lowest action, behind the opened ones."""
    first = node.first_edge + node.opened
    best = first
    for place in range(first + 1, node.first_edge + node.edges):
        here, there = trees.edges[tree, place], trees.edges[tree, best]
        if here.prior > there.prior or (here.prior == there.prior and here.action < there.action):
            best = place
    if best != first:
        here, there = trees.edges[tree, first], trees.edges[tree, best]
        action, prior = here.action, here.prior
        here.action, here.prior = there.action, there.prior
        there.action, there.prior = action, prior


@kernel
def open_edge(trees, tree, number):
    """Add the node that the next unopened move of a node leads to; return its number."""
    node = trees.nodes[tree, number]
    edge = trees.edges[tree, node.first_edge + node.opened]
    edge.child = add_node(trees, tree, number, edge.action)
    node.opened += 1
    if node.opened < node.edges:
        bring_forward(trees, tree, node)
    return np.int64(edge.child)


@kernel
def back_up(trees, tree, number, value, flights):
    """Count a visit of a node and of all above it; `flights` descents have landed."""
    while number >= 0:
        node = trees.nodes[tree, number]
        node.visits += 1
        node.value_sum += value
        node.in_flight -= flights
        value = -value
        number = np.int64(node.parent)


@kernel
def settle(trees, tree, number, state, distance):
    """Note that the game ends so at a node (in `distance` plies), and what follows above it."""
    trees.nodes[tree, number].state = state
    trees.nodes[tree, number].distance = distance
    while state != DRAWN and trees.nodes[tree, number].parent >= 0:
        number = np.int64(trees.nodes[tree, number].parent)
        node = trees.nodes[tree, number]
        distance += 1
        if node.state != EVALUATED:
            return
        if state == LOST:
            state = WON
        else:
            node.refuted += 1
            node.distance = max(np.int64(node.distance), distance)
            if node.refuted < node.edges:
                return
            state = LOST
            distance = np.int64(node.distance)
        node.state = state
        node.distance = distance


@kernel
def settled_value(state):
    """What a settled node is worth to its mover."""
    if state == WON:
        return 1.0
    return -1.0 if state == LOST else 0.0
