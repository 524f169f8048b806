"""What the loop asks of an evaluation; `keisei.evaluation` provides it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from keisei.core.ppo_agent import PPOAgent
from keisei.shogi.notation.records import GameRecord


@dataclass(frozen=True)
class Evaluation:
    """The outcome of a match against one opponent."""

    opponent: str
    line: str
    """One line for people."""
    figures: dict[str, float]
    """For the metrics; "win_rate" decides which checkpoint is best."""
    records: list[GameRecord] = field(default_factory=list)


class Rater(Protocol):
    """Rates the agent by games against players of known strength."""

    def __call__(self, agent: PPOAgent, *, games: int, seed: int) -> Evaluation:
        """Play at most `games` games."""


class Evaluator(Protocol):
    """Plays a match between the agent and a named opponent."""

    def __call__(self, agent: PPOAgent, opponent: str, *, games: int, seed: int) -> Evaluation:
        """Play `games` games."""
