"""`DeviceCollector`: games in large batches, their moves chosen on the learner's device.

The games are in two groups. While the device answers for one, the CPU's threads step the other, and
only compact positions, sets of squares and packed masks go out and moves come back. What is learned
from stays on the device.
"""

from __future__ import annotations

import time
from functools import partial
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
from keisei.core.recorded_call import RecordedCall
from keisei.shogi.batch import POSITION_BYTES
from keisei.shogi.judging import Reason
from keisei.training.opponent_pool import OpponentPool
from keisei.training.parallel.device_start import (
    compile_learning,
    compile_playing,
    compiled_beside,
    seconds_in_log,
)
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
            with (
                seconds_in_log("all that children compile"),
                compiled_beside(config),
                seconds_in_log("what plays is compiled"),
            ):
                compile_playing(
                    agent,
                    policy,
                    opponent,
                    games=groups[0].games,
                    opponent_games=round(config.games.opponent_share * groups[0].games),
                )
            with seconds_in_log("what learns is compiled"):
                compile_learning(config, agent, policy)
        # Half of the cores: the process that feeds the device needs the others. 4,096 games are
        # stepped in 1.4 ms by 8 threads of 16 cores, in 1.9 ms by 16.
        threads = max(1, threads // 2)
        self._groups: list[_DeviceGroup] = []
        column = 0
        for group in groups:
            past = None if pool is None else pool.opponent
            play = SelfPlay(config, agent, past, group, threads=threads)
            self._groups.append(_DeviceGroup(play, agent, policy, opponent, column))
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
        parts = split_state(state, [group.self_play.state() for group in self._groups])
        for group, part in zip(self._groups, parts, strict=True):
            group.self_play.load_state(part)


class _DeviceGroup:
    """A group of games and its question to the device, one at a time.

    Where the agent records, all that the device does for a question is recorded, and for values.
    """

    def __init__(
        self,
        self_play: SelfPlay,
        agent: PPOAgent,
        policy: DevicePolicy,
        opponent: DevicePolicy | None,
        column: int,
    ) -> None:
        self.self_play = self_play
        self._policy, self._opponent = policy, opponent
        self._opponent_rows = int(self_play.against_opponent.sum())
        self._device, self._records = agent.device, agent.records
        self._recorded: RecordedCall[None] | None = None
        self._recorded_values: RecordedCall[Tensor] | None = None
        games = self_play.games.num_games
        self._columns = slice(column, column + games)
        self._step = _pinned((1,), torch.int64, agent.device)
        self._features = agent.model.features
        self._positions = _pinned((games, POSITION_BYTES), torch.int8, agent.device)
        self._sets = _pinned((games, 81, self._features.words), torch.int64, agent.device)
        self._masks = _pinned((games, MASK_BYTES), torch.uint8, agent.device)
        self._words = _pinned((games,), torch.int64, agent.device)
        self._learners = _pinned((games,), torch.bool, agent.device)
        self._planes = _pinned((games,), torch.int64, agent.device)
        self._answered = _event(agent.device)

    def ask(self, rollout: DeviceRollout, step: int) -> None:
        """Have the device choose a move for every game; what it sees and says is stored there.

        rollout: always the same one.
        """
        games = self.self_play.games
        games.use_threads()
        self._step[0] = step
        self._positions.numpy()[:] = games.positions
        self._features.write_sets(games.positions, self._sets.numpy())
        pack_masks(games.legal, games.legal_counts, self._masks.numpy())
        self._words.numpy()[:] = games.random_fractions() * 2.0**32
        self._learners.numpy()[:] = self.self_play.learners_turns()
        if self._records and self._recorded is None:
            self._recorded = RecordedCall(partial(self._answer, rollout))
        if self._recorded is None:
            self._answer(rollout)
        else:
            self._recorded()
        if self._answered is not None:
            self._answered.record()

    def _answer(self, rollout: DeviceRollout) -> None:
        """All that the device does: where it reads and writes never changes."""
        step, positions, sets, masks, words = (
            tensor.to(self._device, non_blocking=True)
            for tensor in (self._step, self._positions, self._sets, self._masks, self._words)
        )
        choice = self._policy.choose(positions, sets, masks, words, self.self_play.temperature)
        planes = choice.planes
        if self._opponent is not None and self._opponent_rows:
            planes = self._with_opponents(planes, positions, sets, masks, words)
        for steps, said in (
            (rollout.positions, positions),
            (rollout.sets, sets),
            (rollout.masks, masks),
            (rollout.planes, planes.to(torch.int16)),
            (rollout.log_probs, choice.log_probs),
            (rollout.values, choice.values),
        ):
            steps[:, self._columns].index_copy_(0, step, said.unsqueeze(0))
        self._planes.copy_(planes, non_blocking=True)

    def _with_opponents(
        self, planes: Tensor, positions: Tensor, sets: Tensor, masks: Tensor, words: Tensor
    ) -> Tensor:
        """The planes with a past self's where it is to move: asked of all its games, one shape."""
        assert self._opponent is not None
        rows = slice(self._opponent_rows)
        theirs = self._opponent.choose(
            positions[rows], sets[rows], masks[rows], words[rows], self.self_play.temperature
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
        self.self_play.games.use_threads()
        seen = torch.from_numpy(positions).to(self._device)
        sets = self._features.sets_of(positions).to(self._device)
        if self._records and self._recorded_values is None:
            self._recorded_values = RecordedCall(self._policy.values, seen, sets)
        values = (self._recorded_values or self._policy.values)(seen, sets)
        answer: NDArray[np.float32] = values.cpu().numpy()
        return answer


def _pinned(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Memory that a GPU reads and writes by itself."""
    return torch.zeros(shape, dtype=dtype, pin_memory=device.type == "cuda")


def _event(device: torch.device) -> Any:
    """What tells that a GPU has come so far; nothing on a CPU, which answers at once."""
    return torch.cuda.Event() if device.type == "cuda" else None  # type: ignore[no-untyped-call]
