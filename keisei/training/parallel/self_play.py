"""`SelfPlay`: a group of games, played by the network against itself and its past selves.

The serial collector plays its groups here in this process, one after the other; each worker process
plays one. A group gives the same experience wherever it is played: every game has its own random
stream, and the network is asked about the group as one batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from keisei.config_schema import Config, ParallelConfig, WorkerProfile
from keisei.core.experience_buffer import ExperienceBuffer
from keisei.core.legal_pool import padded_width
from keisei.core.ppo_agent import Answer, Choice, PPOAgent
from keisei.shogi.judging import Declaration, Reason
from keisei.shogi.sfen import format_sfen
from keisei.shogi.shogi_game import ShogiGame
from keisei.shogi.vector_shogi import VectorShogi
from keisei.training.parallel.rollout_statistics import RolloutStatistics

_DECLARATIONS = {
    "off": Declaration.OFF,
    "24": Declaration.POINTS_24,
    "27": Declaration.POINTS_27,
}
_ORDINARY = WorkerProfile()
GamesState = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Group:
    """Some of the games of a run, played together."""

    first_game: int
    games: int
    profile: WorkerProfile = _ORDINARY


def rollouts_of_an_update(parallel: ParallelConfig, workers: int) -> int:
    """How many rollouts an update is made of: one of every worker, or of some as they are ready.

    If workers may play two updates ahead, each is made of the rollouts of half of them: all play
    all the time, none waits for the slowest, and each asks about twice as many games at once.
    """
    return -(-workers // parallel.updates_ahead)


def groups_of(config: Config, workers: int | None) -> list[Group]:
    """The games of a run, so many for each of `workers`; all in one group for None.

    An update learns from `games.count` of them.
    """
    if workers is None:
        return [Group(0, config.games.count)]
    parallel = config.training.parallel
    rollouts = rollouts_of_an_update(parallel, workers)
    games = parallel.games_per_worker or -(-config.games.count // rollouts)
    profiles = [*parallel.worker_profiles, *[_ORDINARY] * workers]
    return [Group(number * games, games, profiles[number]) for number in range(workers)]


class SelfPlay:
    """The games of one group.

    The first `opponent_share` of them are played against `opponent`, the learner's colour changing
    from game to game.
    """

    def __init__(
        self,
        config: Config,
        agent: PPOAgent,
        opponent: PPOAgent | None,
        group: Group,
        *,
        threads: int = 1,
    ) -> None:
        settings, profile = config.games, group.profile
        seed = config.training.parallel.seed
        self._agent, self._opponent = agent, opponent
        self.temperature = profile.temperature
        self.games = VectorShogi(
            group.games,
            seed=config.seed if seed is None else seed,
            first_game=group.first_game,
            max_moves=settings.max_moves,
            declaration=_DECLARATIONS[settings.declaration],
            random_start_share=_first(profile.random_start_share, settings.random_start_share),
            random_start_plies=min(settings.random_start_plies, settings.max_moves - 1),
            rewind_share=settings.rewind_share,
            rewind_plies=settings.rewind_plies,
            threads=min(threads, group.games, numba.config.NUMBA_NUM_THREADS),
        )
        self._bootstrap = config.ppo.cut_games == "bootstrap"
        self._episodes = config.training.parallel.episodes_per_worker
        self.against_opponent = np.zeros(group.games, np.bool_)
        """[B] which games have a past self on one side."""
        if opponent is not None:
            share = _first(profile.opponent_share, settings.opponent_share)
            self.against_opponent[: round(share * group.games)] = True
        self._learner_colour = (np.arange(group.games) % 2).astype(np.int8)
        self._foreseen: Answer | None = None
        """What the network said of the positions as they are, for the end of a rollout."""

    def collect(
        self, buffer: ExperienceBuffer, before_step: Callable[[], None] = lambda: None
    ) -> tuple[NDArray[np.float32], RolloutStatistics]:
        """Play until the empty buffer is full, or `episodes_per_worker` games have ended.

        Returns the values [B] of the positions behind the last step, and what happened.
        """
        statistics = RolloutStatistics()
        while buffer.filled < buffer.steps:
            before_step()
            self._play_one_step(buffer, statistics)
            if self._episodes is not None and statistics.games >= self._episodes:
                break
        start = time.perf_counter()
        games = self.games
        self._foreseen = self._agent.ask(games.positions, games.legal, games.legal_counts)
        last_values: NDArray[np.float32] = self._foreseen.values.cpu().numpy()
        statistics.inference_seconds += time.perf_counter() - start
        return last_values, statistics

    def _play_one_step(self, buffer: ExperienceBuffer, statistics: RolloutStatistics) -> None:
        games = self.games
        started = time.perf_counter()
        fractions = games.random_fractions()
        trains = self.learners_turns()
        positions, movers = games.positions.copy(), games.mover.copy()
        counts = games.legal_counts.copy()
        legal = games.legal[:, : padded_width(counts)].copy()
        asked = time.perf_counter()
        choice = self._choose(legal, fractions, trains)
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
        self.count(statistics, movers, trains, counts)
        statistics.inference_seconds += answered - asked
        statistics.games_seconds += time.perf_counter() - answered + asked - started

    def learners_turns(self) -> NDArray[np.bool_]:
        """[B] where the learner is to move, not a past self."""
        turns: NDArray[np.bool_] = self.games.mover == self._learner_colour
        return turns | ~self.against_opponent

    def _choose(
        self,
        legal: NDArray[np.uint16],
        fractions: NDArray[np.float64],
        learners: NDArray[np.bool_],
    ) -> Choice:
        """The learner's choice where it is its turn, the past self's elsewhere."""
        foreseen = self._take_foreseen()
        if self._opponent is None or learners.all():
            return self._ask(self._agent, slice(None), legal, fractions, foreseen)
        choice = Choice(
            np.zeros(len(learners), np.int64),
            np.zeros(len(learners), np.float32),
            np.zeros(len(learners), np.float32),
        )
        for player, rows in ((self._agent, learners), (self._opponent, ~learners)):
            if not rows.any():
                continue
            answer = self._ask(player, rows, legal, fractions[rows])
            choice.actions[rows] = answer.actions
            choice.log_probs[rows] = answer.log_probs
            choice.values[rows] = answer.values
        return choice

    def _take_foreseen(self) -> Answer | None:
        """What the end of the last rollout was asked, if the weights are still the same.

        They are where workers do not wait for the learner between two rollouts.
        """
        foreseen, self._foreseen = self._foreseen, None
        same = foreseen is not None and foreseen.version == self._agent.version
        return foreseen if same else None

    def _ask(
        self,
        player: PPOAgent,
        rows: Any,
        legal: NDArray[np.uint16],
        fractions: NDArray[np.float64],
        known: Answer | None = None,
    ) -> Choice:
        games = self.games
        return player.select_actions(
            games.positions[rows],
            legal[rows],
            games.legal_counts[rows],
            fractions,
            temperature=self.temperature,
            answer=known,
        )

    def _cut_values(self) -> NDArray[np.float32]:
        """[B] the value of cut games' last positions for their mover; 0 where nothing was cut."""
        values = np.zeros(self.games.num_games, np.float32)
        cut = self.games.truncated
        if self._bootstrap and cut.any():
            values[cut] = self._agent.evaluate_positions(self.games.final_positions[cut])
        return values

    def count(
        self,
        statistics: RolloutStatistics,
        movers: NDArray[np.int8],
        trains: NDArray[np.bool_],
        legal_counts: NDArray[np.int32],
    ) -> None:
        """Add a step of all games, just made, to the statistics; [B] each, as they were before."""
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
        statistics.black_wins += int((winners[decided] == 0).sum())
        statistics.white_wins += int((winners[decided] == 1).sum())
        statistics.cut += int(games.truncated[over].sum())
        statistics.draws += int((~decided & ~games.truncated[over]).sum())
        statistics.reasons.update(Reason(reason).name.lower() for reason in games.reason[over])
        low, high = (games.final_positions[over, byte].astype(int) & 255 for byte in (98, 99))
        statistics.plies += int((low + 256 * high).sum())
        met = self.against_opponent[over]
        statistics.pool_games += int(met.sum())
        statistics.pool_wins += int((met & decided & (winners == self._learner_colour[over])).sum())
        statistics.pool_draws += int((met & ~decided).sum())
        self._learner_colour[over] ^= 1

    def reset(self) -> None:
        """Begin new games everywhere; the random streams go on."""
        self.games.reset()
        self._foreseen = None

    def state(self) -> GamesState:
        """The games in progress, as arrays by name, [B, ...] each."""
        return {**self.games.state(), "learner_colour": self._learner_colour.copy()}

    def live_state(self) -> GamesState:
        """The same without a copy: the next step changes it."""
        return {**self.games.live_state(), "learner_colour": self._learner_colour}

    def load_state(self, state: GamesState) -> None:
        """Continue the games of `state`."""
        self.games.load_state(state)
        self._learner_colour[:] = state["learner_colour"]
        self._foreseen = None


def games_state_layout(config: Config, games: int) -> list[tuple[str, Any, tuple[int, ...]]]:
    """(name, type, shape) of the arrays that `SelfPlay.state` gives for so many games."""
    one = VectorShogi(1, max_moves=config.games.max_moves, threads=1).state()
    arrays = [(name, array.dtype, (games, *array.shape[1:])) for name, array in one.items()]
    return [*arrays, ("learner_colour", np.dtype(np.int8), (games,))]


def board_of(state: GamesState) -> str:
    """The last game of a `SelfPlay.state`, as text."""
    last = {name: array[-1:] for name, array in state.items()}
    games = VectorShogi(1, max_moves=state["actions"].shape[1] - 1, threads=1)
    games.load_state(last)
    record = games.records[0]
    return str(ShogiGame(format_sfen(record, int(record.ply) + 1)))


def _first(special: float | None, general: float) -> float:
    return general if special is None else special
