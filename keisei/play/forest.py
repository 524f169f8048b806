"""`Forest`: the search trees of G games, grown together with one network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keisei.core.ppo_agent import PPOAgent
from keisei.play.leaf_evaluation import evaluate_leaves
from keisei.play.mate_kernels import new_mate_room
from keisei.play.search_kernels import LeafMates, Leaves, gather_leaves
from keisei.play.search_tree import EDGE, ROOT, Selection, new_trees
from keisei.play.tree_answers import keep_subtree, take_answers
from keisei.shogi.batch import POSITION_BYTES, Games, Rules
from keisei.shogi.judging import Declaration
from keisei.shogi.position import MAX_LEGAL_MOVES, new_games

_LEAF_TABLE_BITS = 10
EDGES_PER_NODE = 192
"""Room; positions have 50 to 150 legal moves on average, depending on how a network plays."""


@dataclass(frozen=True)
class SearchSettings:
    """How trees grow."""

    selection: Selection = field(default_factory=Selection)
    leaf_mates: LeafMates = field(default_factory=LeafMates)
    root_noise: float = 0.05
    """Share of the root's priors that is random, by the seed."""
    declaration: Declaration = Declaration.OFF
    max_moves: int = 512
    seed: int = 1


class Forest:
    """G trees with room for `nodes` nodes each; a call grows each by up to `most_leaves` leaves."""

    def __init__(
        self,
        agent: PPOAgent,
        settings: SearchSettings,
        *,
        trees: int,
        nodes: int,
        most_leaves: int,
    ) -> None:
        self.agent = agent
        self.settings = settings
        self.most_leaves = most_leaves
        self.trees = new_trees(trees, nodes, min(nodes * EDGES_PER_NODE, 2**31 - 1))
        self.roots: Any = new_games(trees)
        self._legal = np.zeros((trees, MAX_LEGAL_MOVES), np.uint16)
        self._room = new_mate_room(_LEAF_TABLE_BITS)
        self._places = np.zeros(nodes, np.int32)
        # Memory of `zeros`, unlike that of `zeros_like`, is taken only where it is used.
        self._spare = np.zeros(self.trees.edges.shape[1], EDGE).view(np.recarray)
        self._leaves = _new_leaves(trees * most_leaves)
        self._games = _new_games(trees, settings.max_moves)
        self._rules = Rules(settings.max_moves, int(settings.declaration), 0.0, 0, 0.0, 0)

    def set_roots(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Begin anew, with the positions and pasts of R games.

        state: R records' fields by name, "keys" and "check_runs" [R, M + 1], as
        `VectorShogi.state` gives them.
        """
        self._set_games(state)
        self.forget()

    def move_root(self, state: Mapping[str, NDArray[Any]], number: int) -> None:
        """Go on in the only tree from its node `number`, whose game is `state`."""
        self._set_games(state)
        keep_subtree(self.trees, 0, number, self._places, self._spare)

    def forget(self) -> None:
        """Empty all trees."""
        self.trees.counts.nodes[:] = 0
        self.trees.counts.edges[:] = 0
        self.trees.counts.full[:] = 0

    def _set_games(self, state: Mapping[str, NDArray[Any]]) -> None:
        count, plies = state["keys"].shape
        if self._games.keys.shape[1] < plies + 1:
            self._games = _new_games(len(self.roots), plies)
        for name in self.roots.dtype.names or ():
            self.roots[name][:count] = state[name]
        self._games.keys[:count, :plies] = state["keys"]
        self._games.check_runs[:count, :plies] = state["check_runs"]

    def grow(self, wanted: NDArray[np.int64]) -> int:
        """Descend wanted [R] times in the first R trees; how many leaves the network valued."""
        leaves = self._leaves
        found = int(
            gather_leaves(
                self.trees,
                self.roots,
                wanted,
                self._games,
                self._rules,
                self._legal,
                self.settings.selection,
                self.settings.leaf_mates,
                self._room,
                leaves,
            )
        )
        if found:
            legal, counts = leaves.legal[:found], leaves.counts[:found]
            priors, values = evaluate_leaves(self.agent, leaves.positions[:found], legal, counts)
            self._add_noise(priors, found)
            rows = (leaves.trees[:found], leaves.nodes[:found])
            take_answers(self.trees, *rows, legal, counts, priors, values)
        return found

    def _add_noise(self, priors: NDArray[np.float32], found: int) -> None:
        """Mix a random share, drawn by seed and position, into the priors of roots."""
        share = self.settings.root_noise
        if share == 0:
            return
        for row in np.flatnonzero(self._leaves.nodes[:found] == ROOT).tolist():
            key = int(self.roots.key[self._leaves.trees[row]])
            random = np.random.default_rng([self.settings.seed, key])
            count = int(self._leaves.counts[row])
            noise = random.standard_exponential(count)
            priors[row, :count] *= 1 - share
            priors[row, :count] += share * noise / noise.sum()


def _new_games(count: int, max_moves: int) -> Games:
    history = (count, max_moves + 2)
    return Games(
        records=new_games(count),
        keys=np.zeros(history, np.uint64),
        check_runs=np.zeros(history, np.uint16),
        actions=np.zeros(history, np.uint16),
        captured=np.zeros(history, np.int8),
    )


def _new_leaves(rows: int) -> Leaves:
    return Leaves(
        positions=np.zeros((rows, POSITION_BYTES), np.int8),
        legal=np.zeros((rows, MAX_LEGAL_MOVES), np.uint16),
        counts=np.zeros(rows, np.int32),
        trees=np.zeros(rows, np.int32),
        nodes=np.zeros(rows, np.int32),
    )
