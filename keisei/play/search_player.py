"""`SearchPlayer`: a network that searches before it moves, in many games at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from keisei.core.ppo_agent import PPOAgent
from keisei.play.forest import Forest, SearchSettings
from keisei.play.game_history import GameHistory
from keisei.play.mate_search import Mate, MateLimits, MateSearch
from keisei.play.root_moves import best_action
from keisei.shogi.judging import Declaration
from keisei.shogi.policy_output_mapper import PolicyOutputMapper
from keisei.shogi.vector_shogi import State, VectorShogi

MOST_TREES = 128
"""So many games are searched side by side; a batch of more is taken in parts."""
_LEAVES_A_TREE = 4
"""A tree of 200 nodes that asks for many leaves at once spends them worse."""
_NO_MATE = -1


class SearchPlayer:
    """Plays the move that a search of `nodes` nodes prefers. Each move is searched afresh.

    A mate that `mate_nodes` nodes of a mate search find is played without.

    What it plays follows from the seed, the nodes and the game alone, and not from which games are
    played beside it, up to the last bits of a network that is asked in batches of another size.
    """

    def __init__(
        self,
        agent: PPOAgent,
        name: str,
        *,
        nodes: int = 200,
        seed: int = 1,
        mate_nodes: int = 200,
        declaration: Declaration = Declaration.OFF,
    ) -> None:
        if nodes < 1:
            raise ValueError(f"a search has at least 1 node, not {nodes}")
        self.name = name
        self._agent = agent
        self._nodes = nodes
        self._settings = SearchSettings(seed=seed, declaration=declaration)
        self._mates = MateSearch(table_bits=12)
        self._mate_limits = MateLimits(nodes=mate_nodes)
        self._forest: Forest | None = None
        self.nodes_searched = 0
        """For the last `choose`, in all its games together."""

    def choose(self, games: VectorShogi, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """[R] int64: the preferred action of each row."""
        self.nodes_searched = 0
        parts = [rows[i : i + MOST_TREES] for i in range(0, len(rows), MOST_TREES)]
        return np.concatenate([self._choose(games, part) for part in parts])

    def _choose(self, games: VectorShogi, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        state = games.state(rows)
        actions = np.array([self._mating_action(games, state, row) for row in range(len(rows))])
        searched = np.flatnonzero(actions == _NO_MATE)
        if searched.size:
            chosen = {name: array[searched] for name, array in state.items()}
            actions[searched] = self._search(chosen, games.max_moves)
        return actions

    def _mating_action(self, games: VectorShogi, state: State, row: int) -> int:
        """The first move of a mate, `_NO_MATE` if none was found."""
        game = GameHistory.of_row(state, row)
        answer = self._mates.find_mate(game, self._mate_limits, max_moves=games.max_moves)
        if answer.mate is not Mate.FORCED:
            return _NO_MATE
        return PolicyOutputMapper.action_of(answer.moves[0], game.mover)

    def _search(self, state: State, max_moves: int) -> NDArray[np.int64]:
        """[R] int64: what the trees of R games prefer."""
        rows = len(state["mover"])
        forest = self._forest_for(max_moves, rows)
        forest.set_roots(state)
        left = np.full(rows, self._nodes, np.int64)
        counts = forest.trees.counts[:rows]
        counts.descents = 0
        while left.any():
            before = counts.descents.copy()
            forest.grow(np.minimum(left, _LEAVES_A_TREE))
            done = counts.descents - before
            left = np.where(done == 0, 0, left - done)  # a proven root needs no more
        self.nodes_searched += int(counts.descents.sum())
        return np.array([best_action(forest.trees, tree) for tree in range(rows)], np.int64)

    def _forest_for(self, max_moves: int, rows: int) -> Forest:
        forest = self._forest
        fits = forest is not None and len(forest.roots) >= rows
        if forest is None or not fits or forest.settings.max_moves != max_moves:
            settings = replace(self._settings, max_moves=max_moves)
            forest = Forest(
                self._agent, settings, trees=rows, nodes=self._nodes, most_leaves=_LEAVES_A_TREE
            )
            self._forest = forest
        return forest
