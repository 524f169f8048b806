"""`Trainer`: all parts of a run, and what makes them continue exactly."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from keisei.config_schema import Config, with_parallel
from keisei.core.device_policy import DevicePolicy
from keisei.core.device_rollout import DeviceRollout
from keisei.core.device_update import DeviceUpdate
from keisei.core.devices import pick_device
from keisei.core.experience_buffer import ExperienceBuffer
from keisei.core.ppo_agent import PPOAgent
from keisei.prefixed_names import below
from keisei.training.checkpoint_format import Checkpoint
from keisei.training.memory_reuse import bound_primitive_caches, keep_freed_memory
from keisei.training.opponent_pool import OpponentPool
from keisei.training.parallel.child_process import child_context
from keisei.training.parallel.device_collector import DeviceCollector
from keisei.training.parallel.experience_collector import ExperienceCollector, SerialCollector
from keisei.training.parallel.gradient_helpers import GradientHelpers
from keisei.training.parallel.parallel_manager import ParallelManager
from keisei.training.parallel.process_counts import (
    ProcessCounts,
    minibatches_at_once,
    process_counts,
)
from keisei.training.parallel.rollout_statistics import RolloutStatistics
from keisei.training.parallel.self_play import groups_of, rollouts_of_an_update
from keisei.training.parallel.shared_memory import SharedMemoryError
from keisei.training.run_log import LOG_FILE
from keisei.training.timeline import TRACE_FILE, Timeline

_LOG = logging.getLogger(__name__)


def _plays_on_device(config: Config, device: torch.device) -> bool:
    """Whether the moves are chosen on the learner's device, in large batches."""
    collector = config.training.collector
    if collector == "auto":
        return device.type == "cuda" and not config.training.parallel.enabled
    return collector == "device"


def agent_of(config: Config) -> PPOAgent:
    """The agent of a run, as it begins."""
    # Large batches of one shape: worth trying out which convolution is fastest.
    torch.backends.cudnn.benchmark = True
    # Products of float32 are then those of Muon, which needs few digits, and of a few values.
    torch.backends.cuda.matmul.allow_tf32 = config.training.mixed_precision
    return PPOAgent(
        config.model,
        config.ppo,
        device=pick_device(config.device),
        seed=config.seed,
        compile=config.training.compile,
        record=config.training.cuda_graphs,
        mixed_precision=config.training.mixed_precision,
    )


class Trainer:
    """The learner, the games and the counters of one run.

    Its `folder` is where workers log, and where they trace if `trace` is set. With `debug_serial`
    everything that workers and helpers would do happens in this process, with the same result as
    in `sync` mode.
    """

    def __init__(
        self,
        config: Config,
        folder: Path | None = None,
        *,
        trace: bool = False,
        debug_serial: bool = False,
    ) -> None:
        keep_freed_memory()
        bound_primitive_caches()
        self.config = config
        self.on_news: Callable[[str], None] = _LOG.warning
        """Who is told what happens to workers."""
        parallel = config.training.parallel
        self._log_path = None if folder is None else folder / LOG_FILE
        self._trace_path = folder / TRACE_FILE if folder is not None and trace else None
        self.timeline = Timeline(self._trace_path, "learner", owner=True)
        self.agent = agent_of(config)
        by_rating = config.games.opponent_choice == "rating"
        self.pool = (
            OpponentPool(config, self.agent, by_rating=by_rating)
            if config.games.opponent_share
            else None
        )
        on_device = _plays_on_device(config, self.agent.device)
        if on_device and parallel.enabled:
            raise ValueError(
                "training.collector is device, but training.parallel is enabled: worker processes "
                "play on the CPU; use collector=processes or parallel.enabled=false"
            )
        counts = process_counts(config, self.agent) if parallel.enabled else None
        if counts is not None:
            # Numbers for `auto`: a resumed run keeps the same groups of games.
            self.config = config = with_parallel(
                config, num_workers=counts.workers, num_learners=counts.learners
            )
        self._groups = groups_of(config, None if counts is None else counts.workers)
        self._rollouts = 1 if counts is None else rollouts_of_an_update(parallel, counts.workers)
        self._learners = 1 if counts is None else counts.learners
        self._threads = config.training.threads or torch.get_num_threads()
        self._helpers: GradientHelpers | None = None
        self.collector: ExperienceCollector[Any]
        self._device_policy: DevicePolicy | None = None
        self._device_update: DeviceUpdate | None = None
        if on_device:
            self._device_policy = DevicePolicy(self.agent)
            self.collector = self._device_collector(self._device_policy)
        elif counts is None or debug_serial:
            self.collector = self._serial_collector()
        else:
            self.collector = self._parallel_collector()
        # After the games: Numba's first parallel loop resets the number of OpenMP's threads.
        threads = self._threads if counts is None else 1
        self.agent.use_threads(threads)
        if self.pool is not None:
            self.pool.opponent.use_threads(threads)
        self.buffer = self._make_buffer(helpers=not debug_serial)
        self.updates = 0
        self.steps = 0
        self.games = 0
        self.best_score: float | None = None
        self.evaluated_at: int | None = None
        """Update of the last evaluation."""

    def _serial_collector(self) -> SerialCollector:
        threads = self._threads if len(self._groups) == 1 else 1
        return SerialCollector(self.config, self.agent, self.pool, self._groups, threads=threads)

    def _device_collector(self, policy: DevicePolicy) -> DeviceCollector:
        return DeviceCollector(self.config, self.agent, policy, self.pool, threads=self._threads)

    def _parallel_collector(self) -> ParallelManager:
        return ParallelManager(
            self.config,
            self.agent,
            self.pool,
            self._groups,
            announce=self._tell,
            log_path=self._log_path,
            trace_path=self._trace_path,
        )

    def _make_buffer(self, *, helpers: bool) -> ExperienceBuffer | DeviceRollout:
        """The buffer of one update, in shared memory if several processes learn from it."""
        training = self.config.training
        steps = training.rollout_length
        if training.parallel.enabled:
            steps = training.parallel.rollout_length or steps
        games = self._groups[0].games * self._rollouts
        if self._device_policy is not None:
            words = self.agent.model.features.words
            rollout = DeviceRollout(steps, games, words, self.agent.device)
            self._device_update = DeviceUpdate(self.agent, self._device_policy, rollout)
            return rollout
        if self._learners == 1:
            return ExperienceBuffer(steps, games)
        try:
            self._helpers = GradientHelpers(
                self.agent,
                steps=steps,
                games=games,
                learners=self._learners,
                minibatches=minibatches_at_once(training.parallel),
                own_cores=ProcessCounts(len(self._groups), self._learners).have_own_cores(),
                context=child_context(),
                timeout=training.parallel.worker_timeout,
                start=helpers,
                announce=self._tell,
                trace_path=self._trace_path,
            )
        except SharedMemoryError as error:
            self._tell(f"{error} This process learns alone.")
            return ExperienceBuffer(steps, games)
        self.agent.gradient_source = self._helpers
        return self._helpers.buffer

    def _tell(self, news: str) -> None:
        self.on_news(news)

    def fall_back_to_serial(self) -> None:
        """Play in this process from now on; the games go on as they were collected."""
        state = self.collector.state()
        self.collector.close()
        self.collector = self._serial_collector()
        self.collector.load_state(state)

    def close(self) -> None:
        """End all processes; what was learned stays."""
        self.collector.close()
        if self._helpers is not None:
            self._helpers.close()
        self.timeline.close()

    @property
    def progress(self) -> float:
        """From 0 to 1: how much of the run is done."""
        return min(self.steps / self.config.training.total_steps, 1.0)

    def collect(self) -> RolloutStatistics:
        """Play one rollout into the buffer and compute its advantages."""
        self.buffer.clear()
        with self.timeline.span("collect"):
            last_values, statistics = self.collector.collect(self.buffer)
        self.buffer.compute_advantages_and_returns(
            last_values,
            gamma=self.config.ppo.gamma,
            gae_lambda=self.config.ppo.gae_lambda,
            cut_games=self.config.ppo.cut_games,
        )
        self.steps += statistics.steps
        self.games += statistics.games
        if self.pool is not None:
            points = statistics.pool_wins + statistics.pool_draws / 2
            self.pool.note_results(points, statistics.pool_games)
        return statistics

    def perform_ppo_update(self) -> dict[str, float]:
        """Learn from the rollout in the buffer; the figures of the update."""
        try:
            with self.timeline.span("update"):
                return self._learn()
        finally:
            self.updates += 1
            if self.pool is not None:
                self.pool.after_update(self.updates)
            with self.timeline.span("publish"):
                self.collector.synchronize_models()

    def _learn(self) -> dict[str, float]:
        if isinstance(self.buffer, DeviceRollout):
            assert self._device_update is not None  # made with the rollout
            return self._device_update(self.progress)
        return self.agent.update(self.buffer, self.progress)

    def state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """(tensors, JSON) of everything that the run continues from."""
        tensors, agent = self.agent.state()
        everything: dict[str, Any] = {f"agent.{name}": value for name, value in tensors.items()}
        everything |= {f"games.{name}": array for name, array in self.collector.state().items()}
        state: dict[str, Any] = {
            "agent": agent,
            "updates": self.updates,
            "steps": self.steps,
            "games": self.games,
            "best_score": self.best_score,
            "evaluated_at": self.evaluated_at,
            "model": self.config.model.model_dump(),
        }
        if self.pool is not None:
            weights, state["pool"] = self.pool.state()
            everything |= {f"pool.{name}": value for name, value in weights.items()}
        return everything, state

    def load_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Continue from a checkpoint of a run with the same config."""
        tensors, state = checkpoint.tensors, checkpoint.state
        self.agent.load_state(below("agent.", tensors), state["agent"])
        games = {name: np.asarray(array) for name, array in below("games.", tensors).items()}
        found, going_on = len(games["ply"]), sum(group.games for group in self._groups)
        if found != going_on:
            self._tell(
                f"The run has {found} games, and these settings make {going_on}: "
                + ("the others are given up." if found > going_on else "the others begin anew.")
            )
        self.collector.load_state(games)
        if self.pool is not None:
            self.pool.load_state(below("pool.", tensors), state["pool"])
        self.updates, self.steps, self.games = state["updates"], state["steps"], state["games"]
        self.best_score = state["best_score"]
        self.evaluated_at = state.get("evaluated_at")  # older checkpoints lack it
