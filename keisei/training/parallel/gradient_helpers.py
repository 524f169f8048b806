"""`GradientHelpers`: the gradients of an update, computed by several processes at once.

Every minibatch is split into as many parts as there are learners: this process computes the first,
a helper process each of the others, all with one thread. The parts are added up in a fixed order.
Whatever happens to a helper changes no bit of the result: this process then computes its part.

A part costs a few milliseconds however small it is. With many learners it is better to compute
several minibatches at once, each by some of them: all with the same weights, and then as many steps
are taken. The last of them is then by so many steps out of date.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, pairwise
from multiprocessing.context import ForkServerContext, SpawnContext
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from keisei.core.experience_buffer import ExperienceBuffer
from keisei.core.minibatch import Lesson
from keisei.core.ppo_agent import PPOAgent
from keisei.core.threads import one_thread
from keisei.training.parallel.child_process import start_child
from keisei.training.parallel.gradient_parts import GradientParts, LearnerShape, Part, memory_for
from keisei.training.parallel.gradient_process import (
    SECONDS_TO_START,
    SECONDS_TO_STOP,
    HelperLostError,
    HelperProcess,
    HelperSetup,
    help_learning,
)

_FAILURES_TO_GIVE_UP = 5
_PATIENCE = 0.02
"""Seconds: longer than a gradient step and what lies between two updates of a small network."""


class GradientHelpers:
    """A `GradientSource` for one agent on the CPU, by `learners` processes with this one.

    The agent's weights move to shared memory, and updates must learn from `buffer`, which lies
    there too. A helper that dies, fails or is silent for `timeout` seconds is replaced; the
    replacement joins in when it is ready. One that fails five times without an answer between is
    given up. What went wrong is in `failures`. With `own_cores`, one for every process that plays
    or learns, they look out for each other's orders and answers before they fall asleep.
    """

    def __init__(
        self,
        agent: PPOAgent,
        *,
        steps: int,
        games: int,
        learners: int,
        minibatches: int = 1,
        own_cores: bool = False,
        context: ForkServerContext | SpawnContext,
        timeout: float = 60.0,
        start: bool = True,
        announce: Callable[[str], None] = lambda news: None,
        trace_path: Path | None = None,
        helper_main: Callable[[HelperSetup], None] = help_learning,
    ) -> None:
        if agent.device.type != "cpu":
            raise ValueError(f"helpers compute on the CPU, and the agent is on {agent.device}")
        self.learners, self._timeout = learners, timeout
        self._at_once = min(minibatches, learners)
        self._shape = LearnerShape(
            agent.model_config,
            agent.config,
            agent.mixed_precision,
            steps,
            games,
            learners,
            self._at_once,
            patience=_PATIENCE if own_cores else 0.0,
        )
        self._memory = memory_for(agent, self._shape)
        self._parts = GradientParts(agent, self._memory, self._shape, keep_weights=True)
        self._context, self._helper_main, self._announce = context, helper_main, announce
        self._ticket = 0
        self._trace_path = trace_path
        self.restarts = 0
        self.failures: list[str] = []
        self._failures_in_a_row = [0] * learners
        self._helpers: dict[int, HelperProcess] = {}
        if start:  # otherwise this process computes all parts, with the same result
            for number in range(1, learners):
                self._start(number)

    @property
    def buffer(self) -> ExperienceBuffer:
        """The rollout to learn from."""
        return self._parts.buffer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all helpers; the agent and the buffer stay usable, by this process alone."""
        helpers = list(self._helpers.values())
        self._helpers.clear()
        deadline = time.monotonic() + SECONDS_TO_STOP
        for helper in helpers:
            helper.hang_up()
        for helper in helpers:
            helper.end(deadline)
        self._memory.close()

    def wait_until_ready(self, timeout: float = SECONDS_TO_START) -> bool:
        """Wait until every helper takes part; False if some do not in that time."""
        deadline = time.monotonic() + timeout
        for number in range(1, self.learners):
            while not self._ask(number, HelperProcess.is_ready, 0.05):
                if number not in self._helpers or time.monotonic() > deadline:
                    return False
        return True

    def gradients_in_turn(
        self, lesson: Lesson, minibatches: Iterable[NDArray[np.int64]]
    ) -> Iterator[dict[str, Tensor]]:
        """See `GradientSource`."""
        if lesson.buffer is not self.buffer:
            raise ValueError("helpers see only their own buffer: collect into that one")
        rest = iter(minibatches)
        while several := list(islice(rest, self._at_once)):
            self._ticket += 1
            shares = self._share_out(several)
            parts = {
                number: Part(self._ticket, first, behind, *lesson[1:])
                for share in shares
                for number, (first, behind) in share.items()
            }
            self._compute(parts)
            for share in shares:
                yield self._parts.add_up({number: parts[number].size for number in share})

    def _share_out(self, several: list[NDArray[np.int64]]) -> list[dict[int, tuple[int, int]]]:
        """For each minibatch which learners compute it, and from where to where."""
        end = 0
        shares = []
        for chosen, numbers in zip(several, _groups(self.learners, len(several)), strict=True):
            begin, end = end, end + len(chosen)
            self._parts.chosen[begin:end] = chosen
            borders = [begin + border for border in _borders(len(chosen), len(numbers))]
            shares.append(dict(zip(numbers, pairwise(borders), strict=True)))
        return shares

    def _compute(self, parts: dict[int, Part]) -> None:
        """Have every learner's part in its row."""
        with one_thread():
            asked = [number for number, part in parts.items() if self._order(number, part)]
            deadline = time.monotonic() + self._timeout
            self._parts.compute(0, parts[0])
            done = {0, *(number for number in asked if self._await(number, deadline))}
            for number, part in parts.items():
                if number not in done and part.size:
                    self._parts.compute(number, part)

    def _order(self, number: int, part: Part) -> bool:
        """Whether a helper computes this part."""
        return part.size > 0 and self._ask(number, HelperProcess.takes, part)

    def _await(self, number: int, deadline: float) -> bool:
        """Whether a helper has computed its part, waiting for it."""
        if not self._ask(number, HelperProcess.has_done_it, deadline):
            return False
        self._failures_in_a_row[number] = 0
        return True

    def _ask(self, number: int, question: Callable[[HelperProcess, Any], bool], what: Any) -> bool:
        """A helper's answer; no, if there is none. One that is lost is replaced."""
        if number not in self._helpers:
            return False
        try:
            return question(self._helpers[number], what)
        except HelperLostError as lost:
            self._replace(number, lost)
            return False

    def _replace(self, number: int, lost: HelperLostError) -> None:
        """Have done with a helper and start another, without waiting for it."""
        self._helpers.pop(number).end()
        self._failures_in_a_row[number] += 1
        self._note(f"helper {number} {lost}")
        if self._failures_in_a_row[number] < _FAILURES_TO_GIVE_UP:
            self.restarts += 1
            try:
                self._start(number)
            except (OSError, EOFError) as error:
                self._note(f"helper {number} cannot be started again: {error}")
        else:
            self._note(
                f"helper {number} has failed {_FAILURES_TO_GIVE_UP} times in a row and is given "
                "up: the main process computes its part from now on"
            )

    def _note(self, failure: str) -> None:
        self.failures.append(failure)
        self._announce(failure)

    def _start(self, number: int) -> None:
        pipe, theirs = self._context.Pipe()
        setup = HelperSetup(number, self._shape, self._memory, theirs, self._trace_path)
        process = self._context.Process(
            target=self._helper_main, args=(setup,), name=f"keisei helper {number}", daemon=True
        )
        start_child(process)
        theirs.close()
        self._helpers[number] = HelperProcess(number, process, pipe, self._parts.board)


def _groups(learners: int, groups: int) -> list[range]:
    """The learners in as many groups, as equal as can be."""
    return [range(first, behind) for first, behind in pairwise(_borders(learners, groups))]


def _borders(count: int, parts: int) -> list[int]:
    """Where the parts of `np.array_split` begin, and where the last one ends."""
    size, larger = divmod(count, parts)
    return [number * size + min(number, larger) for number in range(parts + 1)]
