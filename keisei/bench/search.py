"""`keisei bench search`: nodes a second of the search, and of the obvious one in Python.

Both sides take turns on the same positions with the same network, in one process and on one thread;
a ratio is the median over rounds of the ratio within a round.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from keisei.bench.plain_search import PlainSearch
from keisei.core.ppo_agent import PPOAgent
from keisei.core.threads import one_thread
from keisei.evaluation.match import play_match
from keisei.evaluation.model_player import ModelPlayer
from keisei.play.search_player import SearchPlayer
from keisei.play.searching import Limits
from keisei.play.tree_search import TreeSearch
from keisei.shogi.policy_output_mapper import PolicyOutputMapper
from keisei.shogi.sfen import START_SFEN
from keisei.shogi.shogi_game import ShogiGame
from keisei.shogi.vector_shogi import VectorShogi

_PLIES_BEFORE = 40
"""Moves that the network plays against itself first, so that not all positions are openings."""

Game = list[str]


def bench_search(
    agent: PPOAgent, *, rounds: int = 7, nodes: int = 8000, games: int = 64
) -> dict[str, Any]:
    """Nodes a second of one tree, of `games` trees at once and of the plain search; the ratios."""
    with one_thread():
        return _bench(agent, rounds, nodes, games)


def _bench(agent: PPOAgent, rounds: int, nodes: int, games: int) -> dict[str, Any]:
    starts = positions_of_self_play(agent, rounds + 1)
    sides: dict[str, Callable[[int], float]] = {
        "plain": _plain_rate(agent, starts, max(nodes // 20, 1)),
        "one_tree": _tree_rate(agent, starts, nodes),
        "many_games": _many_games_rate(agent, games),
    }
    for rate in sides.values():  # nobody pays for compilation
        rate(rounds)
    history = [{name: rate(turn) for name, rate in sides.items()} for turn in range(rounds)]
    return {
        "device": str(agent.device),
        "model": f"{agent.model_config.depth}x{agent.model_config.width}",
        "rounds": rounds,
        "games": games,
        "nodes_per_second": {
            name: statistics.median(turn[name] for turn in history) for name in sides
        },
        "one_tree_vs_plain": _ratio(history, "one_tree", "plain"),
        "many_games_vs_plain": _ratio(history, "many_games", "plain"),
    }


def search_strength(
    agent: PPOAgent, *, nodes: int = 200, games: int = 200, seed: int = 1
) -> dict[str, Any]:
    """A match of the network with a search of `nodes` nodes against itself without."""
    searching = SearchPlayer(agent, f"{nodes} nodes", nodes=nodes, seed=seed)
    start = time.perf_counter()
    result = play_match(searching, ModelPlayer(agent, "no search"), games=games, seed=seed)
    tally = result.tally()
    return {
        "nodes": nodes,
        "games": games,
        "wins": tally.wins,
        "draws": tally.draws,
        "losses": tally.losses,
        "score": tally.points / tally.games,
        "seconds": time.perf_counter() - start,
    }


def positions_of_self_play(agent: PPOAgent, count: int, seed: int = 1) -> list[Game]:
    """`count` games of the network against itself, in the middle, as USI moves from the start."""
    batch = VectorShogi(count, seed=seed, threads=1)
    games: list[Game] = [[] for _ in range(count)]
    for _ in range(_PLIES_BEFORE):
        fractions = batch.random_fractions()
        legal, counts = batch.legal, batch.legal_counts
        actions = agent.select_actions(batch.positions, legal, counts, fractions).actions
        for row, action in enumerate(actions.tolist()):
            games[row].append(PolicyOutputMapper.move_of(action, int(batch.mover[row])))
        batch.step(actions)
        for row in np.flatnonzero(batch.reason).tolist():
            games[row] = []
    return games


def _plain_rate(agent: PPOAgent, starts: list[Game], nodes: int) -> Callable[[int], float]:
    search = PlainSearch(agent)

    def rate(turn: int) -> float:
        game = ShogiGame()
        for move in starts[turn]:
            game.make_move(move)
        begin = time.perf_counter()
        search.search(game, nodes)
        return nodes / (time.perf_counter() - begin)

    return rate


def _tree_rate(agent: PPOAgent, starts: list[Game], nodes: int) -> Callable[[int], float]:
    search = TreeSearch(agent, mate_nodes=0)

    def rate(turn: int) -> float:
        search.set_position(START_SFEN, starts[turn])
        search.clear()
        report = search.search(Limits(nodes=nodes))
        return report.nodes / report.seconds

    return rate


def _many_games_rate(agent: PPOAgent, games: int) -> Callable[[int], float]:
    nodes = 100
    player = SearchPlayer(agent, "search", nodes=nodes)
    batch = VectorShogi(games, seed=2, threads=1)

    def rate(_turn: int) -> float:
        batch.step(batch.random_actions())
        begin = time.perf_counter()
        batch.step(player.choose(batch, np.arange(games)))
        return player.nodes_searched / (time.perf_counter() - begin)

    return rate


def _ratio(history: list[dict[str, float]], ours: str, theirs: str) -> float:
    return statistics.median(turn[ours] / turn[theirs] for turn in history)
