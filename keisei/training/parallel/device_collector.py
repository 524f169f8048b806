"""`DeviceCollector`: games in large batches, their moves chosen on the learner's device.

The games are in two groups. While the device answers for one, the CPU's threads step the other, and
only compact positions and packed masks go out and moves come back. What is learned from stays on
the device.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from keisei.config_schema import Config
from keisei.core.device_policy import DevicePolicy
from keisei.core.device_rollout import DeviceRollout
from keisei.core.packed_masks import MASK_BYTES, actions_of_planes, pack_masks
from keisei.core.ppo_agent import PPOAgent
from keisei.shogi.batch import POSITION_BYTES
from keisei.shogi.judging import Reason
from keisei.training.opponent_pool import OpponentPool
from keisei.training.parallel.device_start import compile_ahead, kernels_compiled_beside
from keisei.training.parallel.experience_collector import (
    PlaysHere,
    join_states,
    split_state,
)
from keisei.training.parallel.rollout_statistics import RolloutStatistics
from keisei.training.parallel.self_play import GamesState, Group, SelfPlay, board_of

_GROUPS = 2


def device_groups(config: Config) -> list[Group]:
    """The games of a run in two groups, or one where there is a single game."""
    sizes = [len(part) for part in np.array_split(np.arange(config.games.count), _GROUPS)]
    return [Group(sum(sizes[:n]), size) for n, size in enumerate(sizes) if size]


class DeviceCollector(PlaysHere):
    """Plays all games with the learner's own network, on its device."""

    def __init__(
        self,
        config: Config,
        agent: PPOAgent,
        policy: DevicePolicy,
        pool: OpponentPool | None,
        *,
        threads: int,
    ) -> None:
        opponent = None if pool is None else DevicePolicy(pool.opponent)
        groups = device_groups(config)
        if agent.compiles:
            with kernels_compiled_beside(config):
                compile_ahead(
                    config,
                    agent,
                    policy,
                    opponent,
                    games=groups[0].games,
                    opponent_games=round(config.games.opponent_share * groups[0].games),
                )
        # Half of the cores: the process that feeds the device needs the others. 4,096 games are
        # stepped in 1.4 ms by 8 threads of 16 cores, in 1.9 ms by 16.
        threads = max(1, threads // 2)
        self._groups: list[_DeviceGroup] = []
        column = 0
        for group in groups:
            past = None if pool is None else pool.opponent
            play = SelfPlay(config, agent, past, group, threads=threads)
            self._groups.append(_DeviceGroup(play, policy, opponent, agent.device, column))
            column += group.games
        self._bootstrap = config.ppo.cut_games == "bootstrap"

    def collect(self, rollout: DeviceRollout) -> tuple[NDArray[np.float32], RolloutStatistics]:
        """Play T steps of every game; see `ExperienceCollector.collect`."""
        statistics = RolloutStatistics()
        turns = [(step, group) for step in range(rollout.steps) for group in self._groups]
        turns[0][1].ask(rollout, 0)
        for now, then in zip(turns, [*turns[1:], None], strict=True):
            # The device has the next group's question before this group's answer is waited for.
            alone = then is not None and then[1] is now[1]
            if then is not None and not alone:
                then[1].ask(rollout, then[0])
            now[1].play(rollout, now[0], statistics, bootstrap=self._bootstrap)
            if then is not None and alone:
                then[1].ask(rollout, then[0])
        return np.concatenate([group.last_values() for group in self._groups]), statistics

    def board(self) -> str:
        """The last game, as text."""
        return board_of(self._groups[-1].self_play.state())

    def state(self) -> GamesState:
        """The games in progress, as arrays."""
        return join_states([group.self_play.state() for group in self._groups])

    def load_state(self, state: GamesState) -> None:
        """Continue the games of `state`."""
        sizes = [group.self_play.games.num_games for group in self._groups]
        for group, part in zip(self._groups, split_state(state, sizes), strict=True):
            group.self_play.load_state(part)


class _DeviceGroup:
    """One group of games and its question to the device, one at a time."""

    def __init__(
        self,
        self_play: SelfPlay,
        policy: DevicePolicy,
        opponent: DevicePolicy | None,
        device: torch.device,
        column: int,
    ) -> None:
        self.self_play = self_play
        self._policy, self._opponent = policy, opponent
        self._opponent_rows = int(self_play.against_opponent.sum())
        self._device = device
        games = self_play.games.num_games
        self._columns = slice(column, column + games)
        self._positions = _pinned((games, POSITION_BYTES), torch.int8, device)
        self._masks = _pinned((games, MASK_BYTES), torch.uint8, device)
        self._words = _pinned((games,), torch.int64, device)
        self._learners = _pinned((games,), torch.bool, device)
        self._planes = _pinned((games,), torch.int64, device)
        self._answered = _event(device)

    def ask(self, rollout: DeviceRollout, step: int) -> None:
        """Have the device choose a move for every game; what it sees and says is stored there."""
        games = self.self_play.games
        self._positions.numpy()[:] = games.positions
        pack_masks(games.legal, games.legal_counts, self._masks.numpy())
        self._words.numpy()[:] = games.random_fractions() * 2.0**32
        self._learners.numpy()[:] = self.self_play.learners_turns()
        positions, masks = (
            rollout.positions[step, self._columns],
            rollout.masks[step, self._columns],
        )
        positions.copy_(self._positions, non_blocking=True)
        masks.copy_(self._masks, non_blocking=True)
        words = self._words.to(self._device, non_blocking=True)
        temperature = self.self_play.temperature
        choice = self._policy.choose(positions, masks, words, temperature)
        planes = choice.planes
        if self._opponent is not None and self._opponent_rows:
            planes = self._with_opponents(planes, positions, masks, words)
        rollout.planes[step, self._columns] = planes.to(torch.int16)
        rollout.log_probs[step, self._columns] = choice.log_probs
        rollout.values[step, self._columns] = choice.values
        self._planes.copy_(planes, non_blocking=True)
        if self._answered is not None:
            self._answered.record()

    def _with_opponents(
        self, planes: Tensor, positions: Tensor, masks: Tensor, words: Tensor
    ) -> Tensor:
        """The planes with a past self's where it is to move: asked of all its games, one shape."""
        assert self._opponent is not None
        rows = slice(self._opponent_rows)
        theirs = self._opponent.choose(
            positions[rows], masks[rows], words[rows], self.self_play.temperature
        )
        learners = self._learners[rows].to(self._device, non_blocking=True)
        return torch.cat([torch.where(learners, planes[rows], theirs.planes), planes[rows.stop :]])

    def play(
        self, rollout: DeviceRollout, step: int, statistics: RolloutStatistics, *, bootstrap: bool
    ) -> None:
        """Wait for the answer, play it in every game, and store what the games say."""
        asked = time.perf_counter()
        if self._answered is not None:
            self._answered.synchronize()
        answered = time.perf_counter()
        games, columns = self.self_play.games, self._columns
        actions = np.empty(games.num_games, np.int64)
        actions_of_planes(games.legal, games.legal_counts, self._planes.numpy(), actions)
        movers, counts = games.mover.copy(), games.legal_counts.copy()
        trains = self._learners.numpy().copy()
        games.step(actions)
        rollout.rewards[step, columns] = games.result
        rollout.ends[step, columns] = games.reason != Reason.NONE
        rollout.truncations[step, columns] = games.truncated
        rollout.trains[step, columns] = trains
        rollout.cut_values[step, columns] = self._cut_values() if bootstrap else 0
        self.self_play.count(statistics, movers, trains, counts)
        statistics.inference_seconds += answered - asked
        statistics.games_seconds += time.perf_counter() - answered

    def _cut_values(self) -> NDArray[np.float32]:
        """[B] the value of cut games' last positions for their mover; 0 where nothing was cut."""
        games = self.self_play.games
        if not games.truncated.any():
            return np.zeros(games.num_games, np.float32)
        return np.where(games.truncated, self._values(games.final_positions), np.float32(0))

    def last_values(self) -> NDArray[np.float32]:
        """[B] the value of the positions to move in, for their mover."""
        return self._values(self.self_play.games.positions)

    def _values(self, positions: NDArray[np.int8]) -> NDArray[np.float32]:
        values = self._policy.values(torch.from_numpy(positions).to(self._device))
        answer: NDArray[np.float32] = values.cpu().numpy()
        return answer


def _pinned(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Memory that a GPU reads and writes by itself."""
    return torch.zeros(shape, dtype=dtype, pin_memory=device.type == "cuda")


def _event(device: torch.device) -> Any:
    """What tells that a GPU has come so far; nothing on a CPU, which answers at once."""
    return torch.cuda.Event() if device.type == "cuda" else None  # type: ignore[no-untyped-call]
