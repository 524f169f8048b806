"""`ParallelManager`: an `ExperienceCollector` whose games are played by worker processes.

In `sync` mode every worker plays one rollout with the newest weights, then the learner learns: with
the same seed and groups the experience is that of the serial collector, bit for bit. In `async`
mode workers play on while the learner learns, and a collection takes the first rollouts there are.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from keisei.config_schema import Config
from keisei.core.experience_buffer import ExperienceBuffer
from keisei.core.ppo_agent import PPOAgent
from keisei.training.opponent_pool import OpponentPool
from keisei.training.parallel.child_process import child_context
from keisei.training.parallel.collection_statistics import (
    PolicyLag,
    memory_mb,
    report_of,
    sync_figures,
    worker_figures,
)
from keisei.training.parallel.communication import NEWEST, Kind, Message, WorkerCommunicator
from keisei.training.parallel.experience_collector import (
    Collected,
    CollectorReport,
    join_states,
    split_state,
)
from keisei.training.parallel.packed_games import PackedGames, packed_games, unpacked_games
from keisei.training.parallel.published_weights import PublishedWeights
from keisei.training.parallel.rollout import Rollout, RolloutLayout
from keisei.training.parallel.rollout_statistics import RolloutStatistics
from keisei.training.parallel.self_play import (
    GamesState,
    Group,
    SelfPlay,
    board_of,
    rollouts_of_an_update,
)
from keisei.training.parallel.self_play_worker import SelfPlayWorker
from keisei.training.parallel.shared_memory import SharedMemoryError
from keisei.training.parallel.worker_process import WorkerSetup, work
from keisei.training.parallel.worker_supervisor import Committed, WorkerSupervisor

_LISTENING_SECONDS = 0.1
_SLOTS_BEING_COPIED = 1


class _Running(NamedTuple):
    """What exists while workers do."""

    communicator: WorkerCommunicator[Rollout]
    weights: PublishedWeights
    supervisor: WorkerSupervisor[Rollout]


class ParallelManager:
    """Starts the workers with the first collection and ends them with `close`."""

    def __init__(
        self,
        config: Config,
        agent: PPOAgent,
        pool: OpponentPool | None,
        groups: list[Group],
        *,
        announce: Callable[[str], None],
        log_path: Path | None = None,
        trace_path: Path | None = None,
        worker_main: Callable[[WorkerSetup], None] = work,
    ) -> None:
        self._config, self._settings = config, config.training.parallel
        self._agent, self._pool, self._announce = agent, pool, announce
        self._log_path, self._trace_path, self._worker_main = log_path, trace_path, worker_main
        opponent = None if pool is None else pool.opponent
        self.workers = [
            SelfPlayWorker(
                number, group, packed_games(SelfPlay(config, agent, opponent, group).state())
            )
            for number, group in enumerate(groups)
        ]
        self._states = [worker.state for worker in self.workers]
        """The games after the last rollout that was collected, of each group."""
        self._waiting: deque[Committed[Rollout]] = deque()
        self._lag = PolicyLag()
        self._stale_steps = 0
        self._running: _Running | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def start_workers(self) -> None:
        """Make the memory to share and start every worker; `collect` does it when needed."""
        self._get_running()

    def _get_running(self) -> _Running:
        if self._running is None:
            try:
                running = self._connect(shared=self._settings.use_shared_memory)
            except SharedMemoryError as error:
                self._announce(f"{error} Experience travels through pipes instead: slower.")
                running = self._connect(shared=False)
            self._running = running
            self.synchronize_models()
            running.supervisor.start_those_due()
        return self._running

    def _connect(self, *, shared: bool) -> _Running:
        settings, context = self._settings, child_context()
        communicator = WorkerCommunicator(
            context,
            RolloutLayout(self._config, self.workers[0].group.games),
            slots=settings.queue_maxsize or self._most_rollouts_under_way + _SLOTS_BEING_COPIED,
            shared=shared,
            timeout=settings.worker_timeout,
        )
        weights = PublishedWeights(self._agent, self._pool, settings, communicator)

        def setup_of(worker: SelfPlayWorker) -> WorkerSetup:
            return self._setup_of(worker, communicator, weights)

        supervisor = WorkerSupervisor(
            self.workers,
            communicator,
            settings,
            context=context,
            worker_main=self._worker_main,
            setup_of=setup_of,
            announce=self._announce,
        )
        return _Running(communicator, weights, supervisor)

    def _setup_of(
        self,
        worker: SelfPlayWorker,
        communicator: WorkerCommunicator[Rollout],
        weights: PublishedWeights,
    ) -> WorkerSetup:
        """What a worker is told when it starts, the pipe to it included."""
        link = communicator.connect(worker.number)
        weights.send_to(worker)
        return WorkerSetup(
            number=worker.number,
            epoch=worker.epoch,
            config=self._config,
            group=worker.group,
            state=worker.state,
            link=link,
            weights=weights.learner.memory,
            opponent_weights=None if weights.opponent is None else weights.opponent.memory,
            has_opponent=weights.opponent is not None,
            log_path=self._log_path,
            trace_path=self._trace_path,
        )

    @property
    def _is_sync(self) -> bool:
        return self._settings.mode == "sync"

    @property
    def _most_rollouts_under_way(self) -> int:
        """So many that each is collected before the learner is `max_policy_lag` versions ahead."""
        rollouts = rollouts_of_an_update(self._settings, len(self.workers))
        return rollouts * self._settings.updates_ahead

    def synchronize_models(self) -> None:
        """Publish the weights when it is time; nobody is waited for."""
        if self._running is not None:
            alive = [worker for worker in self.workers if worker.running]
            self._running.weights.publish(alive, self._lag.largest)

    def collect(self, buffer: ExperienceBuffer) -> Collected:
        """Fill the buffer with a rollout from every worker, or with what fits in from whoever."""
        running = self._get_running()
        statistics, states = RolloutStatistics(), list(self._states)
        last_values = np.zeros(buffer.games, np.float32)
        columns = deque(range(buffer.games // self.workers[0].group.games))
        while columns:
            self._order_rollouts(running, set(columns))
            seconds = 0 if self._waiting else _LISTENING_SECONDS
            self._waiting.extend(running.supervisor.listen(seconds))
            while self._waiting and columns:
                committed = self._waiting.popleft()
                column = committed.worker.number if self._is_sync else columns[0]
                columns.remove(column)
                # Before the copy: the worker waits for its next order.
                self._order_rollouts(running, set(columns))
                statistics.add(self._place(committed, buffer, column, last_values))
                states[committed.worker.number] = committed.state
                running.communicator.release(committed.slot)
        self._order_rollouts(running, set())
        self._states = states
        self._leave_out_stale_steps(buffer, statistics)
        return last_values, statistics

    def _order_rollouts(self, running: _Running, missing: set[int]) -> None:
        """Have workers play, as far as slots and the policy lag allow.

        missing: groups whose rollout is not collected; in sync mode only these play.
        """
        waiting = {committed.worker.number for committed in self._waiting}
        under_way = len(self._waiting) + sum(len(worker.orders) for worker in self.workers)
        while running.communicator.free_slots and under_way < self._most_rollouts_under_way:
            able = running.supervisor.playing
            if self._is_sync:
                due = missing - waiting
                able = [worker for worker in able if worker.number in due and not worker.orders]
            if not able:
                return
            # Of those with as little to do, the one that has done the least: few slots go round.
            able.sort(key=lambda worker: (len(worker.orders), worker.next_rollout))
            self._order(running, able[0])
            under_way += 1

    def _order(self, running: _Running, worker: SelfPlayWorker) -> None:
        versions = running.weights.versions if self._is_sync else (NEWEST, NEWEST)
        number = worker.next_rollout
        worker.next_rollout += 1
        worker.orders.append(number)
        order = Message(
            Kind.PLAY,
            worker.epoch,
            number=number,
            version=versions[0],
            opponent_version=versions[1],
        )
        running.communicator.grant(worker.number, order)

    def _place(
        self,
        committed: Committed[Rollout],
        buffer: ExperienceBuffer,
        column: int,
        last_values: NDArray[np.float32],
    ) -> RolloutStatistics:
        """Copy a rollout out of its slot; what happened in it."""
        rollout, worker = committed.rollout, committed.worker
        games = worker.group.games
        buffer.place(rollout.buffer.get_serializable_batch(), column * games)
        last_values[column * games : (column + 1) * games] = rollout.last_values
        worker.steps += len(rollout.buffer)
        statistics = rollout.statistics
        worker.games += statistics.games
        return statistics

    def _leave_out_stale_steps(
        self, buffer: ExperienceBuffer, statistics: RolloutStatistics
    ) -> None:
        """Steps that weights too old have played do not train; they are counted."""
        trains = buffer.trains[: buffer.filled]
        lags = self._agent.version - buffer.versions[: buffer.filled]
        stale = trains & (lags > self._settings.max_policy_lag)
        self._lag = PolicyLag.of(lags[trains & ~stale])
        trains[stale] = False
        statistics.stale_steps = int(stale.sum())
        statistics.trained_steps -= statistics.stale_steps
        self._stale_steps += statistics.stale_steps

    def pause(self) -> None:
        """Stop playing, between two plies, until `resume`."""
        if self._running is not None:
            for worker in self.workers:
                worker.pause(self._running.communicator)

    def resume(self) -> None:
        """Play on."""
        if self._running is not None:
            for worker in self.workers:
                worker.resume(self._running.communicator)

    def get_statistics(self) -> dict[str, Any]:
        """Everything there is to know: in all, and of each worker."""
        running = self._running
        return {
            "mode": self._settings.mode,
            "shared_memory": running is not None and running.communicator.shared,
            "workers_playing": sum(worker.ready for worker in self.workers),
            "queue_depth": len(self._waiting),
            "rollouts_under_way": sum(len(worker.orders) for worker in self.workers),
            "lag_min": self._lag.least,
            "lag_mean": self._lag.mean,
            "lag_max": self._lag.largest,
            "stale_steps": self._stale_steps,
            "restarts": sum(worker.restarts for worker in self.workers),
            "refused_messages": 0 if running is None else running.supervisor.refused,
            "main_memory_mb": memory_mb(os.getpid()),
            **sync_figures(None if running is None else running.weights.learner),
            "workers": [worker_figures(worker) for worker in self.workers],
        }

    def report(self) -> CollectorReport:
        """Figures for the metrics and a line for each worker."""
        return report_of(self.get_statistics())

    def board(self) -> str:
        """The last game of the last worker after its last collected rollout, as text."""
        return board_of(self._unpacked(self._states[-1]))

    def state(self) -> GamesState:
        """The games after all rollouts that were collected.

        What workers have played beyond that was not learned from: it is played again.
        """
        return join_states([self._unpacked(state) for state in self._states])

    def _unpacked(self, games: PackedGames) -> GamesState:
        return unpacked_games(games, self._config.games.max_moves)

    def load_state(self, state: GamesState) -> None:
        """Continue the games of `state`; before the workers are started."""
        if self._running is not None:
            raise RuntimeError("the workers are playing already")
        parts = split_state(state, [self._unpacked(games) for games in self._states])
        self._states = [packed_games(part) for part in parts]
        for worker, part in zip(self.workers, self._states, strict=True):
            worker.state = part

    def close(self) -> None:
        """End the workers and give back the memory; the games stay as they were collected."""
        if self._running is None:
            return
        self._running.supervisor.close()
        self._waiting.clear()
        for worker, state in zip(self.workers, self._states, strict=True):
            worker.state = state
        self._running.communicator.close()
        self._running = None
