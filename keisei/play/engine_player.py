"""`EnginePlayer`: a network that answers `go` with a move, a mate, a resignation or a win."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from keisei.core.ppo_agent import PPOAgent
from keisei.play.engine_policy import PolicySearch
from keisei.play.engine_position import game_of
from keisei.play.engine_thought import Thought
from keisei.play.forest import EDGES_PER_NODE, SearchSettings
from keisei.play.game_history import GameHistory
from keisei.play.mate_search import Mate, MateLimits, MateSearch
from keisei.play.search_tree import EDGE, NODE
from keisei.play.searching import Limits, Line, Searcher, SearchReport
from keisei.play.time_control import thinking_time
from keisei.play.tree_search import TreeSearch
from keisei.play.usi_answers import info_lines, info_string, score_of
from keisei.play.usi_options import Options
from keisei.play.usi_protocol import Position
from keisei.shogi.judging import Declaration
from keisei.shogi.shogi_game import ShogiGame
from keisei.training.trained_models import load_model

Tell = Callable[[str], None]
_LINES_TO_CHOOSE_FROM = 16
_MOST_MOVES = 32_000
"""USI knows no limit, and programs that have one end the game themselves."""
_DECLARATIONS = {
    "27": Declaration.POINTS_27,
    "24": Declaration.POINTS_24,
    "off": Declaration.OFF,
}


def load_player(model: Path) -> EnginePlayer:
    """The player of a run or checkpoint, on the GPU if there is one."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return EnginePlayer(load_model(model, device))


class EnginePlayer:
    """Answers one `Thought` after the other. It speaks USI text, but knows nothing of streams."""

    def __init__(self, agent: PPOAgent) -> None:
        self._agent = agent
        self._made_of: tuple[object, ...] | None = None
        self._searcher: Searcher = PolicySearch(agent)
        self._warm: set[type[Searcher]] = set()
        self._mates = MateSearch()
        self._random = np.random.default_rng(0)

    def get_ready(self, options: Options) -> None:
        """Make what the options ask for; the first of its kind is used once.

        So the first move is not slower than others. More threads than cores are none.
        """
        made_of = _what_makes_a_searcher(options)
        if made_of == self._made_of:
            return
        torch.set_num_threads(min(options.threads, os.cpu_count() or 1))
        self._random = np.random.default_rng(options.seed)
        self._searcher = _searcher(self._agent, options)
        self._made_of = made_of
        if type(self._searcher) not in self._warm:
            self._warm_up()
            self._warm.add(type(self._searcher))

    def _warm_up(self) -> None:
        start = Position().sfen
        self._mates.mate_in(start, nodes=1)
        self._searcher.set_position(start, [])
        best = self._searcher.search(Limits(nodes=20)).lines[0]
        self._searcher.set_position(start, best.moves[:1])
        self._searcher.search(Limits(nodes=2))
        self._searcher.clear()

    def new_game(self) -> None:
        """Forget the last game."""
        self._searcher.clear()

    def answer(self, thought: Thought, tell: Tell) -> str:
        """The line that ends a `go`; `tell` gets the lines before it."""
        self.get_ready(thought.options)
        try:
            game = game_of(thought.position.sfen, thought.position.moves)
        except ValueError as error:
            tell(info_string(f"there is no position to move in: {error}"))
            thought.wait_until_answer_is_wanted()
            return "checkmate timeout" if thought.go.is_for_mate else "bestmove resign"
        if thought.go.is_for_mate:
            return f"checkmate {self._mate(thought)}"
        return f"bestmove {self._move(game, thought, tell)}"

    def _mate(self, thought: Thought) -> str:
        game = GameHistory.of(thought.position.sfen, thought.position.moves)
        seconds = thought.seconds_for_mate()
        found = self._mates.find_mate(
            game, MateLimits(seconds=seconds, stop=lambda: thought.is_stopped)
        )
        if found.mate is Mate.FORCED:
            return " ".join(found.moves)
        return "nomate" if found.mate is Mate.NONE else "timeout"

    def _move(self, game: ShogiGame, thought: Thought, tell: Tell) -> str:
        if _wins_by_declaration(game, thought.options.declaration):
            thought.wait_until_answer_is_wanted()
            return "win"
        if not game.legal_actions():
            thought.wait_until_answer_is_wanted()
            return "resign"
        report = self._search(game, thought, tell)
        if score_of(report.lines[0]) <= -thought.options.resign_value:
            return "resign"
        line = self._choose(report, game.ply, thought.options)
        return _as_best_move(game, line.moves[: 2 if thought.options.ponder else 1])

    def _search(self, game: ShogiGame, thought: Thought, tell: Tell) -> SearchReport:
        options = thought.options

        def told(report: SearchReport) -> None:
            thought.note(report)
            for line in info_lines(report, shown=options.lines):
                tell(line)

        thought.begin(thinking_time(thought.go, game.mover, options.margin_ms / 1000))
        self._searcher.set_position(thought.position.sfen, thought.position.moves)
        lines = max(options.lines, _LINES_TO_CHOOSE_FROM if _samples(options, game.ply) else 1)
        report = self._searcher.search(thought.limits(), lines=lines, report=told)
        thought.wait_until_answer_is_wanted()
        told(report)
        return report

    def _choose(self, report: SearchReport, ply: int, options: Options) -> Line:
        """The best line; in the first plies, if wanted, one drawn by visits."""
        visits = np.array([line.visits for line in report.lines], np.float64)
        if not _samples(options, ply) or report.lines[0].mate is not None or visits.max() <= 0:
            return report.lines[0]
        weights = (visits / visits.max()) ** (100 / options.temperature)
        return report.lines[self._random.choice(len(weights), p=weights / weights.sum())]


def _what_makes_a_searcher(options: Options) -> tuple[object, ...]:
    """The options that need another searcher when they change."""
    searches = options.nodes > 0
    return searches, options.hash_megabytes, options.declaration, options.seed, options.threads


def _searcher(agent: PPOAgent, options: Options) -> Searcher:
    if options.nodes == 0:
        return PolicySearch(agent)
    settings = SearchSettings(
        declaration=_DECLARATIONS[options.declaration], max_moves=_MOST_MOVES, seed=options.seed
    )
    # Edges have room twice: for the tree, and for what is kept of it after a move.
    bytes_per_node = NODE.itemsize + 2 * EDGES_PER_NODE * EDGE.itemsize
    tree_nodes = options.hash_megabytes * 2**20 // bytes_per_node
    return TreeSearch(agent, settings=settings, tree_nodes=tree_nodes)


def _samples(options: Options, ply: int) -> bool:
    return options.temperature > 0 and ply < options.temperature_plies


def _wins_by_declaration(game: ShogiGame, rule: str) -> bool:
    if rule == "off":
        return False
    return game.declaration(24 if rule == "24" else 27) == "win"


def _as_best_move(game: ShogiGame, moves: Sequence[str]) -> str:
    """The move, and the reply to ponder on if there is one; an illegal one raises."""
    for move in moves:
        game.make_move(move)
    return " ponder ".join(moves)
