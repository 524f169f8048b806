"""`ParallelSettings`: what the agents of a world do at the same time."""

from __future__ import annotations

import os
from dataclasses import dataclass

from keisei.gridworld.errors import WorldError


@dataclass(frozen=True, kw_only=True)
class ParallelSettings:
    """Each switch works alone and with the others; all off is the plain `Environment`."""

    enabled: bool = True
    """Off: none of the others counts."""
    parallel_actions: bool = True
    """Agents with networks alike decide in one pass; all must look before any acts."""
    parallel_training: bool = True
    """Agents learn at the same time: in `num_workers` threads, on a GPU those alike in one pass."""
    async_learning: bool = False
    """Learn beside the collection, from copies of what was collected."""
    train_interval: int = 1
    """Epochs between two lessons of the learner beside the collection."""
    backlog: int = 4
    """Epochs that wait for a busy learner; what is older is forgotten, and counted."""
    keep_pace: bool = True
    """Wait a little before each turn, no longer than a snapshot takes, so that a learner beside
    keeps up. Off: play on, and forget what it cannot learn from."""
    lesson_timeout: float | None = None
    """Seconds after which a lesson beside the collection is abandoned; None: never."""
    max_agents_per_lesson: int | None = None
    """Agents that learn at once beside the collection, those with most new experience first; None:
    all that are due."""
    num_workers: int | None = None
    """Threads that train; None: as many as there are processors."""
    deterministic: bool = False
    """New weights are taken up at the end of the epoch after their lesson, ready or waited for:
    a run can be repeated. Else they are taken up at the first turn after they are ready."""
    debug_serial: bool = False
    """Do all of it in one thread, in the order of `deterministic`, to use a debugger: nothing is
    abandoned then."""

    def __post_init__(self) -> None:
        if self.train_interval < 1:
            raise WorldError(f"train_interval is at least one epoch, not {self.train_interval}.")
        if self.backlog < self.train_interval:
            raise WorldError(
                f"backlog is {self.backlog} epochs, and must be at least train_interval, "
                f"{self.train_interval}."
            )
        if self.num_workers is not None and self.num_workers < 1:
            raise WorldError(f"num_workers is at least one, not {self.num_workers}.")
        if self.lesson_timeout is not None and not self.lesson_timeout > 0:
            raise WorldError(f"lesson_timeout is more than 0 seconds, not {self.lesson_timeout:g}.")
        if self.max_agents_per_lesson is not None and self.max_agents_per_lesson < 1:
            raise WorldError(
                f"max_agents_per_lesson is at least one, not {self.max_agents_per_lesson}."
            )
        for name in ("lesson_timeout", "max_agents_per_lesson"):
            if getattr(self, name) is not None and not self.async_learning:
                raise WorldError(f"{name} is for a learner beside the collection: async_learning.")

    @property
    def threads(self) -> int:
        """How many threads train; beside a collection that keeps their pace one core less.

        It would have to wait for a core after each of its pauses: 4 ms, now and then.
        """
        if self.debug_serial:
            return 1
        return self.num_workers or max(len(os.sched_getaffinity(0)) - self.paced, 1)

    @property
    def repeatable(self) -> bool:
        """Whether new weights are taken up at times that do not depend on the clock."""
        return self.deterministic or self.debug_serial

    @property
    def paced(self) -> bool:
        """Whether turns are waited with; where weights are waited for there is no need to."""
        return self.wants("async_learning") and self.keep_pace and not self.repeatable

    def wants(self, name: str) -> bool:
        """Whether a switch is on, and parallelism with it."""
        return self.enabled and bool(getattr(self, name))
