"""`ExperienceCollector`: who plays the games that the learner learns from.

The serial one plays them in this process.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Protocol

import numba
import numpy as np
from numpy.typing import NDArray

from keisei.config_schema import Config
from keisei.core.experience_buffer import ExperienceBuffer
from keisei.core.ppo_agent import Choice, PPOAgent
from keisei.shogi.judging import Declaration, Reason
from keisei.shogi.sfen import format_sfen
from keisei.shogi.shogi_game import ShogiGame
from keisei.shogi.vector_shogi import VectorShogi
from keisei.training.opponent_pool import OpponentPool

_DECLARATIONS = {
    "off": Declaration.OFF,
    "24": Declaration.POINTS_24,
    "27": Declaration.POINTS_27,
}


@dataclass
class RolloutStatistics:
    """What happened in one rollout."""

    steps: int = 0
    trained_steps: int = 0
    games: int = 0
    wins: list[int] = field(default_factory=lambda: [0, 0])
    """By colour of the winner."""
    draws: int = 0
    cut: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    plies: int = 0
    """Length of all finished games together."""
    legal_moves: int = 0
    games_seconds: float = 0.0
    inference_seconds: float = 0.0


class ExperienceCollector(Protocol):
    """Fills a buffer with one rollout."""

    def collect(self, buffer: ExperienceBuffer) -> tuple[NDArray[np.float32], RolloutStatistics]:
        """Fill the empty buffer.

        Returns the values [B] of the positions behind its last step, and what happened.
        """

    def board(self) -> str:
        """One of the running games, as text."""

    def state(self) -> dict[str, NDArray[Any]]:
        """The games in progress, as arrays."""

    def load_state(self, state: dict[str, NDArray[Any]]) -> None:
        """Continue the games of `state`."""


class SerialCollector:
    """B games in this process, the learner playing both sides of most of them.

    The first `opponent_share` of the games are played against a past self, the learner's colour
    changing from game to game.
    """

    def __init__(
        self, config: Config, agent: PPOAgent, pool: OpponentPool | None, *, threads: int
    ) -> None:
        settings = config.games
        self._agent, self._pool = agent, pool
        self.games = VectorShogi(
            settings.count,
            seed=config.seed,
            max_moves=settings.max_moves,
            declaration=_DECLARATIONS[settings.declaration],
            random_start_share=settings.random_start_share,
            random_start_plies=min(settings.random_start_plies, settings.max_moves - 1),
            rewind_share=settings.rewind_share,
            rewind_plies=settings.rewind_plies,
            threads=min(threads, settings.count, numba.config.NUMBA_NUM_THREADS),
        )
        self._bootstrap = config.ppo.cut_games == "bootstrap"
        self._against_pool = np.zeros(settings.count, np.bool_)
        if pool is not None:
            self._against_pool[: round(settings.opponent_share * settings.count)] = True
        self._learner_colour = (np.arange(settings.count) % 2).astype(np.int8)

    def collect(self, buffer: ExperienceBuffer) -> tuple[NDArray[np.float32], RolloutStatistics]:
        """Play `buffer.steps` plies of every game."""
        statistics = RolloutStatistics()
        for _ in range(buffer.steps):
            self._play_one_step(buffer, statistics)
        start = time.perf_counter()
        last_values = self._agent.evaluate_positions(self.games.positions)
        statistics.inference_seconds += time.perf_counter() - start
        return last_values, statistics

    def _play_one_step(self, buffer: ExperienceBuffer, statistics: RolloutStatistics) -> None:
        games = self.games
        started = time.perf_counter()
        fractions = games.random_fractions()
        trains = ~self._against_pool | (games.mover == self._learner_colour)
        positions, movers = games.positions.copy(), games.mover.copy()
        counts = games.legal_counts.copy()
        legal = games.legal[:, : int(counts.max())].copy()
        asked = time.perf_counter()
        choice = self._choose(fractions, trains)
        answered = time.perf_counter()
        games.step(choice.actions)
        buffer.add_batch(
            positions=positions,
            legal=legal,
            legal_counts=counts,
            actions=choice.actions,
            log_probs=choice.log_probs,
            values=choice.values,
            rewards=games.result,
            ends=games.reason != Reason.NONE,
            truncations=games.truncated,
            cut_values=self._cut_values(),
            trains=trains,
            versions=self._agent.version,
        )
        self._count(statistics, movers, trains, counts)
        statistics.inference_seconds += answered - asked
        statistics.games_seconds += time.perf_counter() - answered + asked - started

    def _choose(self, fractions: NDArray[np.float64], learners: NDArray[np.bool_]) -> Choice:
        """The learner's choice where it is its turn, the past self's elsewhere."""
        if self._pool is None or learners.all():
            return self._ask(self._agent, slice(None), fractions)
        choice = Choice(
            np.zeros(len(learners), np.int64),
            np.zeros(len(learners), np.float32),
            np.zeros(len(learners), np.float32),
        )
        for player, rows in ((self._agent, learners), (self._pool.opponent, ~learners)):
            if not rows.any():
                continue
            answer = self._ask(player, rows, fractions[rows])
            choice.actions[rows] = answer.actions
            choice.log_probs[rows] = answer.log_probs
            choice.values[rows] = answer.values
        return choice

    def _ask(self, player: PPOAgent, rows: Any, fractions: NDArray[np.float64]) -> Choice:
        games = self.games
        return player.select_actions(
            games.positions[rows], games.legal[rows], games.legal_counts[rows], fractions
        )

    def _cut_values(self) -> NDArray[np.float32]:
        """[B] the value of cut games' last positions for their mover; 0 where nothing was cut."""
        values = np.zeros(self.games.num_games, np.float32)
        cut = self.games.truncated
        if self._bootstrap and cut.any():
            values[cut] = self._agent.evaluate_positions(self.games.final_positions[cut])
        return values

    def _count(
        self,
        statistics: RolloutStatistics,
        movers: NDArray[np.int8],
        trains: NDArray[np.bool_],
        legal_counts: NDArray[np.int32],
    ) -> None:
        games = self.games
        statistics.steps += len(movers)
        statistics.trained_steps += int(trains.sum())
        statistics.legal_moves += int(legal_counts.sum())
        over = np.flatnonzero(games.reason)
        if len(over) == 0:
            return
        statistics.games += len(over)
        winners = np.where(games.result[over] > 0, movers[over], 1 - movers[over])
        decided = games.result[over] != 0
        for colour in (0, 1):
            statistics.wins[colour] += int((winners[decided] == colour).sum())
        statistics.cut += int(games.truncated[over].sum())
        statistics.draws += int((~decided & ~games.truncated[over]).sum())
        statistics.reasons.update(Reason(reason).name.lower() for reason in games.reason[over])
        low, high = (games.final_positions[over, byte].astype(int) & 255 for byte in (98, 99))
        statistics.plies += int((low + 256 * high).sum())
        self._learner_colour[over] ^= 1

    def board(self) -> str:
        """The last game of the batch, as text."""
        game = self.games.records[-1]
        return str(ShogiGame(format_sfen(game, int(game.ply) + 1)))

    def state(self) -> dict[str, NDArray[Any]]:
        """The games in progress, as arrays."""
        return {**self.games.state(), "learner_colour": self._learner_colour.copy()}

    def load_state(self, state: dict[str, NDArray[Any]]) -> None:
        """Continue the games of `state`."""
        self._learner_colour[:] = state["learner_colour"]
        self.games.load_state(state)
