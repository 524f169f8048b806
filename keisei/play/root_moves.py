"""What a tree says in the end: which move is best, and what comes after it."""

from __future__ import annotations

from typing import Any

from keisei.play.search_tree import LOST, NO_NODE, ROOT, WON, Trees


def best_action(trees: Trees, tree: int) -> int:
    """The action to play at the root of a tree whose root was valued."""
    return int(trees.edges[tree, ranked_edges(trees, tree, ROOT)[0]].action)


def ranked_edges(trees: Trees, tree: int, number: int) -> list[int]:
    """The opened edges of a node, best first; before any is, the most probable one alone.

    A proven win comes first, the shortest of all; a proven loss last, the longest of all first.
    Between them the number of visits decides, then the value.
    """
    node = trees.nodes[tree, number]
    first = int(node.first_edge)
    if node.opened == 0:
        return [first] if node.edges else []
    return sorted(
        range(first, first + int(node.opened)),
        key=lambda edge: _worth(trees.nodes[tree, int(trees.edges[tree, edge].child)]),
        reverse=True,
    )


def _worth(child: Any) -> tuple[int, int, float]:
    """What orders moves by the nodes they lead to."""
    if child.state == LOST:
        return 1, -int(child.distance), 0.0
    if child.state == WON:
        return -1, int(child.distance), 0.0
    value = -float(child.value_sum) / max(int(child.visits), 1)
    return 0, int(child.visits), value


def principal_variation(trees: Trees, tree: int, edge: int) -> list[int]:
    """The actions from an edge of the root on, as both sides prefer them."""
    actions = []
    while True:
        actions.append(int(trees.edges[tree, edge].action))
        child = int(trees.edges[tree, edge].child)
        if child == NO_NODE or trees.nodes[tree, child].opened == 0:
            return actions
        edge = ranked_edges(trees, tree, child)[0]


def proven_mate(child: Any) -> int | None:
    """Plies until the game is won (positive) or lost for the player who moved to this node."""
    plies = int(child.distance) + 1
    return {LOST: plies, WON: -plies}.get(int(child.state))


def value_for_parent(child: Any) -> float:
    """From -1 to 1, for the player who moved to this node."""
    if child.state in (WON, LOST):
        return -1.0 if child.state == WON else 1.0
    return -float(child.value_sum) / int(child.visits)
