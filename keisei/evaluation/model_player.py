"""Trained models as players, and the matches that training asks for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from keisei.core.ppo_agent import PPOAgent
from keisei.evaluation.match import play_match
from keisei.evaluation.match_result import games_as_records
from keisei.evaluation.opponents import make_player
from keisei.evaluation.players import close_player
from keisei.evaluation.statistics import summary_line
from keisei.shogi.vector_shogi import VectorShogi
from keisei.training.evaluator import Evaluation


class ModelPlayer:
    """Plays the move a network finds most probable."""

    def __init__(self, agent: PPOAgent, name: str) -> None:
        self.name = name
        self._agent = agent

    def choose(self, games: VectorShogi, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The best move of each row."""
        return self._agent.select_actions(
            games.positions[rows], games.legal[rows], games.legal_counts[rows], None
        ).actions


def evaluate_for_training(agent: PPOAgent, opponent: str, *, games: int, seed: int) -> Evaluation:
    """The `Evaluator` of a training run; random openings."""
    other = make_player(opponent, seed, agent.device)
    try:
        even = games + games % 2
        result = play_match(ModelPlayer(agent, "keisei"), other, games=even, seed=seed)
    finally:
        close_player(other)
    tally = result.tally()
    return Evaluation(
        opponent=opponent,
        line=summary_line(result),
        figures={
            "win_rate": tally.wins / tally.games,
            "draw_rate": tally.draws / tally.games,
            "loss_rate": tally.losses / tally.games,
            "cut_rate": tally.cut / tally.games,
            "game_length": sum(result.lengths()) / tally.games,
        },
        records=games_as_records(result),
    )
