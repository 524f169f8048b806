"""What the network answers, written into trees, and what of a tree is kept for the next move."""

from __future__ import annotations

import numpy as np

from keisei.compiled.kernels import kernel
from keisei.play.search_tree import EVALUATED, NO_NODE, ROOT, back_up, bring_forward

_PROBES = 8


@kernel
def _grow(trees, tree, node, legal, priors, row, count):
    """Give a node its edges, if there is room for all of them."""
    counts = trees.counts[tree]
    if counts.edges + count > trees.edges.shape[1]:
        counts.full = 1
        return
    node.first_edge = counts.edges
    node.edges = count
    counts.edges += count
    for index in range(count):
        edge = trees.edges[tree, node.first_edge + index]
        edge.action = legal[row, index]
        edge.prior = priors[row, index]
        edge.child = NO_NODE
    bring_forward(trees, tree, node)


@kernel
def _remember(trees, tree, number):
    """Note a node with a value and edges, unless all places for its key are taken."""
    mask = trees.known.shape[1] - 1
    first = np.int64(trees.nodes[tree, number].key & np.uint64(mask))
    for probe in range(_PROBES):
        place = (first + probe) & mask
        if trees.known[tree, place] == NO_NODE:
            trees.known[tree, place] = number
            return


@kernel
def copy_twin(trees, tree, number):
    """Give a leaf the value and priors of a node with the same key; whether there is one.

    Different orders of the same moves meet: in openings a third of all leaves need no network.
    """
    node = trees.nodes[tree, number]
    mask = trees.known.shape[1] - 1
    first = np.int64(node.key & np.uint64(mask))
    counts = trees.counts[tree]
    for probe in range(_PROBES):
        twin_number = trees.known[tree, (first + probe) & mask]
        if twin_number == NO_NODE:
            return False
        twin = trees.nodes[tree, twin_number]
        if twin.key == node.key and counts.edges + twin.edges <= trees.edges.shape[1]:
            node.state = EVALUATED
            node.value = twin.value
            node.first_edge = counts.edges
            node.edges = twin.edges
            counts.edges += twin.edges
            for index in range(twin.edges):
                edge = trees.edges[tree, node.first_edge + index]
                edge.action = trees.edges[tree, twin.first_edge + index].action
                edge.prior = trees.edges[tree, twin.first_edge + index].prior
                edge.child = NO_NODE
            bring_forward(trees, tree, node)
            return True
    return False


@kernel(entry=True)
def take_answers(trees, leaf_trees, leaf_nodes, legal, counts, priors, values):
    """Give B awaited leaves their values [B] and priors [B, L] over the first counts [B] of legal
    [B, 593], and count their visits.

    leaf_trees, leaf_nodes: [B] where the leaves are.
    """
    for row in range(len(values)):
        tree, number = np.int64(leaf_trees[row]), np.int64(leaf_nodes[row])
        node = trees.nodes[tree, number]
        node.state = EVALUATED
        node.value = values[row]
        _grow(trees, tree, node, legal, priors, row, np.int64(counts[row]))
        if node.edges and number != ROOT:  # the root's priors have noise in them
            _remember(trees, tree, number)
        back_up(trees, tree, number, np.float64(values[row]), np.int64(node.in_flight))


@kernel(entry=True)
def keep_subtree(trees, tree, new_root, places, spare):
    """Make `new_root` the root and forget what is not below it.

    places: [N] int32 and spare: [E] EDGE, both scratch. Children stand behind their parents, so
    that nodes move towards the front; edges do not stand in the order of their nodes.
    """
    counts = trees.counts[tree]
    used, edges = np.int32(0), np.int32(0)
    for number in range(counts.nodes):
        node = trees.nodes[tree, number]
        kept = number == new_root
        if number > new_root:
            kept = places[node.parent] >= 0
        places[number] = used if kept else NO_NODE
        if not kept:
            continue
        for index in range(node.edges):
            spare[edges + index] = trees.edges[tree, node.first_edge + index]
        trees.nodes[tree, used] = node
        moved = trees.nodes[tree, used]
        moved.first_edge = edges
        moved.parent = NO_NODE if number == new_root else places[moved.parent]
        edges += moved.edges
        used += 1
    counts.nodes, counts.edges, counts.full = used, edges, 0
    for place in range(edges):
        trees.edges[tree, place] = spare[place]
    trees.known[tree, :] = NO_NODE
    for number in range(used):
        node = trees.nodes[tree, number]
        if node.edges and number != ROOT:
            _remember(trees, tree, np.int32(number))
        for index in range(node.opened):
            edge = trees.edges[tree, node.first_edge + index]
            edge.child = places[edge.child]
