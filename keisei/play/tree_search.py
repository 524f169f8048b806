"""`TreeSearch`: searches one game at a time, by nodes or by the clock, and keeps its tree."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from keisei.core.ppo_agent import PPOAgent
from keisei.play.forest import Forest, SearchSettings
from keisei.play.game_history import GameHistory
from keisei.play.mate_search import Mate, MateAnswer, MateLimits, MateSearch, moves_of
from keisei.play.root_moves import principal_variation, proven_mate, ranked_edges, value_for_parent
from keisei.play.search_tree import AWAITED, LOST, ROOT, WON
from keisei.play.searching import Limits, Line, SearchReport
from keisei.shogi.sfen import START_SFEN

_VISITS_A_LEAF = 8
"""A batch is as many leaves as one in so many visits: early leaves decide where later ones go."""
_LONGEST_STEP_S = 0.05
"""How long a batch should take at most where a clock runs or `stop` may come."""
_MATE_SHARE = 0.1
"""Of the seconds of a search that may go to the mate search before it."""


class TreeSearch:
    """The `Searcher` of a network.

    `batch` leaves at most are valued at once; the tree has room for `tree_nodes` nodes. Before a
    search `mate_nodes` nodes go to a mate search (0: none). `settings` hold the rules, the seed and
    how the tree grows: the same settings, games and nodes give the same answers.
    """

    def __init__(
        self,
        agent: PPOAgent,
        *,
        settings: SearchSettings | None = None,
        batch: int = 128,
        tree_nodes: int = 100_000,
        mate_nodes: int = 10_000,
    ) -> None:
        if min(batch, tree_nodes) < 1:
            raise ValueError("a search has at least one leaf a batch and one node in its tree")
        self._forest = Forest(
            agent, settings or SearchSettings(), trees=1, nodes=tree_nodes, most_leaves=batch
        )
        self._batch = batch
        self._leaves_in_time = batch
        self._mate_nodes = mate_nodes
        self._mates = MateSearch()
        self._known_mate: MateAnswer | None = None
        self._sfen, self._moves = START_SFEN, list[str]()
        self._game = GameHistory.of(START_SFEN, [])
        self._forest.set_roots(self._game.state())

    def set_position(self, sfen: str, moves: Sequence[str]) -> None:
        """Search this game from now on; what the tree knows of it is kept."""
        game = GameHistory.of(sfen, moves)
        new = list(moves[len(self._moves) :])
        goes_on = sfen == self._sfen and list(moves[: len(self._moves)]) == self._moves
        number = self._node_after(new) if goes_on else None
        if number is None:
            self._forest.set_roots(game.state())
        elif new:
            self._forest.move_root(game.state(), number)
        if not goes_on or new:
            self._known_mate = None
        self._sfen, self._moves, self._game = sfen, list(moves), game

    def clear(self) -> None:
        """Forget the tree."""
        self._forest.forget()
        self._known_mate = None

    def search(
        self,
        limits: Limits,
        *,
        lines: int = 1,
        report: Callable[[SearchReport], None] | None = None,
        report_every: float = 0.5,
    ) -> SearchReport:
        """Search until a limit is reached, or the root is proven won or lost."""
        start = time.perf_counter()
        counts = self._forest.trees.counts[:1]
        counts.descents[0] = counts.deepest[0] = 0
        if self._game.legal_count == 0:
            return SearchReport((), 0, time.perf_counter() - start, 0, 0, 0)
        mate = self._mate_at_root(limits)
        if mate.mate is Mate.FORCED:
            return _mate_report(mate, time.perf_counter() - start)
        next_report = start + report_every
        while not self._is_over(limits, start):
            self._grow(limits)
            if report is not None and time.perf_counter() >= next_report:
                report(self._report(lines, start))
                next_report = time.perf_counter() + report_every
        return self._report(lines, start)

    def _node_after(self, moves: Sequence[str]) -> int | None:
        """The node that the moves lead to from the root, None if the tree does not know it."""
        trees, number = self._forest.trees, ROOT
        if trees.counts.nodes[0] == 0:
            return None
        for ply, move in enumerate(moves):
            mover = (self._game.mover + ply) % 2
            for edge in ranked_edges(trees, 0, number):
                child = int(trees.edges[0, edge].child)
                if child > 0 and moves_of([int(trees.edges[0, edge].action)], mover)[0] == move:
                    number = child
                    break
            else:
                return None
        # A leaf that was settled without being valued has no moves to choose from.
        return number if trees.nodes[0, number].edges else None

    def _mate_at_root(self, limits: Limits) -> MateAnswer:
        """Look for a mate once for each position."""
        if self._known_mate is None and self._mate_nodes:
            seconds = None if limits.seconds is None else limits.seconds * _MATE_SHARE
            self._known_mate = self._mates.find_mate(
                self._game,
                MateLimits(self._mate_nodes, seconds, limits.stop),
                max_moves=self._forest.settings.max_moves,
            )
        return self._known_mate or MateAnswer(Mate.UNKNOWN)

    def _grow(self, limits: Limits) -> None:
        trees = self._forest.trees
        visits = int(trees.nodes.visits[0, ROOT]) if trees.counts.nodes[0] else 0
        wanted = min(max(visits // _VISITS_A_LEAF, 1), self._batch)
        if limits.nodes is not None:
            wanted = min(wanted, limits.nodes - int(trees.counts.descents[0]))
        if limits.nodes is None or limits.seconds is not None:
            wanted = min(wanted, self._leaves_in_time)
        began = time.perf_counter()
        leaves = self._forest.grow(np.array([wanted]))
        if leaves:
            pace = leaves / (time.perf_counter() - began)
            self._leaves_in_time = max(int(pace * _LONGEST_STEP_S), 1)

    def _is_over(self, limits: Limits, start: float) -> bool:
        trees = self._forest.trees
        if trees.counts.nodes[0] == 0 or trees.nodes.state[0, ROOT] == AWAITED:
            return False  # one node at least: a move needs the root's priors
        if limits.nodes is not None and trees.counts.descents[0] >= limits.nodes:
            return True
        if limits.seconds is not None and time.perf_counter() - start >= limits.seconds:
            return True
        if trees.nodes.state[0, ROOT] in (WON, LOST) or limits.stop():
            return True
        return limits.depth is not None and self._depth() >= limits.depth

    def _depth(self) -> int:
        best = ranked_edges(self._forest.trees, 0, ROOT)[:1]
        return len(principal_variation(self._forest.trees, 0, best[0])) if best else 0

    def _report(self, lines: int, start: float) -> SearchReport:
        trees = self._forest.trees
        ranked = ranked_edges(trees, 0, ROOT)[:lines]
        found = tuple(self._line(edge) for edge in ranked)
        nodes, edges = trees.nodes.shape[1], trees.edges.shape[1]
        used = max(int(trees.counts.nodes[0]) / nodes, int(trees.counts.edges[0]) / edges)
        return SearchReport(
            lines=found,
            nodes=int(trees.counts.descents[0]),
            seconds=time.perf_counter() - start,
            depth=len(found[0].moves),
            seldepth=max(int(trees.counts.deepest[0]), len(found[0].moves)),
            hashfull=round(1000 * used),
        )

    def _line(self, edge: int) -> Line:
        trees = self._forest.trees
        moves = moves_of(principal_variation(trees, 0, edge), self._game.mover)
        if trees.edges[0, edge].child < 0:
            return Line(moves, float(trees.nodes.value[0, ROOT]), 0)
        child = trees.nodes[0, int(trees.edges[0, edge].child)]
        return Line(moves, value_for_parent(child), int(child.visits), proven_mate(child))


def _mate_report(mate: MateAnswer, seconds: float) -> SearchReport:
    plies = len(mate.moves)
    line = Line(mate.moves, 1.0, mate.nodes, plies)
    return SearchReport((line,), mate.nodes, seconds, plies, plies, 0)
