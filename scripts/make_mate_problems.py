"""Make mate problems out of games of a trained model: `tests/data/mates.jsonl`.

    python scripts/make_mate_problems.py MODEL tests/data/mates.jsonl

A position is kept only if cshogi agrees that there is a mate of this length and none shorter, or,
for problems of length 0, that there is none of up to nine plies.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import cshogi
import torch

from keisei.core.ppo_agent import PPOAgent
from keisei.play.mate_search import Mate, MateSearch
from keisei.shogi.sfen import format_sfen
from keisei.shogi.vector_shogi import VectorShogi
from keisei.training.trained_models import load_model

LENGTHS = (1, 3, 5, 7, 9)
WANTED = {0: 60, 1: 24, 3: 24, 5: 20, 7: 20, 9: 20}
GAMES, NODES = 64, 20_000
SKIPPED_PLIES = 60
"""Of the first games: nobody mates in an opening."""


def positions(agent: PPOAgent, seed: int) -> Iterator[str]:
    """Positions of self-play without end, as SFEN."""
    games = VectorShogi(GAMES, seed=seed, threads=1)
    while True:
        fractions = games.random_fractions()
        arrays = (games.positions, games.legal, games.legal_counts, fractions)
        games.step(agent.select_actions(*arrays).actions)
        for record, ply in zip(games.records, games.ply.tolist(), strict=True):
            yield format_sfen(record, ply + 1)


def shortest_by_cshogi(sfen: str) -> int:
    """The length of the shortest mate of up to nine plies that cshogi finds, else 0."""
    board = cshogi.Board(sfen)
    if board.mate_move_in_1ply():
        return 1
    return next((length for length in LENGTHS[1:] if board.mate_move(length)), 0)


def problem_of(search: MateSearch, sfen: str) -> dict[str, object] | None:
    """The problem of a position, if it is one that both sides agree on."""
    answer = search.mate_in(sfen, nodes=NODES)
    if answer.mate is Mate.UNKNOWN:
        return None
    if answer.mate is Mate.NONE and answer.nodes < 4:  # hardly a check to try
        return None
    if answer.mate is Mate.FORCED and not answer.shortest:
        return None
    length = len(answer.moves)
    if length > LENGTHS[-1] or shortest_by_cshogi(sfen) != length:
        return None
    return {"sfen": sfen, "length": length, "moves": list(answer.moves)}


def main(model: str, target: str) -> None:
    """Write the problems, shortest first."""
    torch.set_num_threads(1)
    agent = load_model(Path(model), torch.device("cpu"))
    search, counts = MateSearch(), Counter[int]()
    problems = []
    for number, sfen in enumerate(positions(agent, seed=1)):
        if number < GAMES * SKIPPED_PLIES or number % 7:  # neighbours are too much alike
            continue
        problem = problem_of(search, sfen)
        if problem is not None and counts[len(problem["moves"])] < WANTED[len(problem["moves"])]:
            counts[len(problem["moves"])] += 1
            problems.append(problem)
        if counts == WANTED:
            break
    problems.sort(key=lambda problem: len(problem["moves"]))
    Path(target).write_text("".join(json.dumps(problem) + "\n" for problem in problems))


if __name__ == "__main__":
    main(*sys.argv[1:])
