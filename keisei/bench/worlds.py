"""`keisei bench worlds`: agent-steps a second of worlds, with and without learning.

All sides take turns, in one run, and on one thread but for those that learn beside the collection.
An agent-step is one agent looking, deciding and acting once in one copy of the world.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any, NamedTuple

from keisei.bench.parallel_worlds import in_processes
from keisei.core.threads import one_thread
from keisei.core.world_models import model_maker
from keisei.gridworld.examples.cleanup import Cleanup
from keisei.gridworld.examples.treasurehunt import Treasurehunt, TreasurehuntRules
from keisei.gridworld.game import Game
from keisei.training.memory_reuse import bound_primitive_caches, keep_freed_memory
from keisei.world_config import WorldConfig

SORREL = {"treasurehunt": 804, "treasurehunt, IQN": 618, "cleanup": 309}
"""Agent-steps a second of Sorrel 1.4.0 with random actions, and with its own model, which learns:
measured on a machine with two cores of an EPYC at 2.6 GHz, in another run."""


class Side(NamedTuple):
    """One thing to measure."""

    game: Game
    train_steps: int
    sorrel: int | None = None
    least_epochs: int = 1
    """The first epoch is played and the last is learned from with nothing going on beside it."""

    def steps_per_second(self, seconds: float) -> float:
        """Run epochs for about so long."""
        steps, epochs, started = 0, 0, time.perf_counter()
        while epochs < self.least_epochs or time.perf_counter() - started < seconds:
            steps += self.game.run_epoch(train_steps=self.train_steps).steps
            epochs += 1
        self.game.finish_lessons(self.train_steps)
        return steps / (time.perf_counter() - started)


def sides() -> dict[str, Callable[[], Side]]:
    """What is measured, by name."""
    random, ppo, iqn = (model_maker(kind, {}) for kind in ("random", "ppo", "iqn"))
    many = TreasurehuntRules(agents=16)
    return {
        "treasurehunt, 1 copy": lambda: Side(
            Treasurehunt(random, copies=1), 0, SORREL["treasurehunt"]
        ),
        "treasurehunt, 1024 copies": lambda: Side(
            Treasurehunt(random, copies=1024), 0, SORREL["treasurehunt"]
        ),
        "treasurehunt, 1024 copies, 16 agents": lambda: Side(
            Treasurehunt(random, many, copies=1024), 0
        ),
        "cleanup, 256 copies": lambda: Side(Cleanup(random, copies=256), 0, SORREL["cleanup"]),
        "treasurehunt, PPO, 64 copies": lambda: Side(
            Treasurehunt(ppo, copies=64), 1, SORREL["treasurehunt, IQN"]
        ),
        "treasurehunt, PPO, 64 copies, learning beside processes": lambda: Side(
            in_processes(WorldConfig(game="treasurehunt", copies=64)),
            1,
            SORREL["treasurehunt, IQN"],
        ),
        "treasurehunt, PPO, 64 copies, 16 agents": lambda: Side(
            Treasurehunt(ppo, many, copies=64), 1
        ),
        # As Sorrel does: a train step on a batch of 64 for every epoch of every copy.
        "treasurehunt, IQN, 256 copies": lambda: Side(
            Treasurehunt(iqn, copies=256), 256, SORREL["treasurehunt, IQN"]
        ),
        "treasurehunt, IQN, 256 copies, learning beside processes": lambda: Side(
            in_processes(
                WorldConfig(
                    game="treasurehunt", copies=256, learner={"kind": "iqn", "train_steps": 256}
                )
            ),
            256,
            SORREL["treasurehunt, IQN"],
            least_epochs=8,
        ),
    }


def bench_worlds(*, rounds: int, seconds: float) -> dict[str, Any]:
    """The median rate of each side, and how many times Sorrel's it is where there is one."""
    keep_freed_memory()
    bound_primitive_caches()
    with one_thread(), ExitStack() as opened:
        measured = {name: make() for name, make in sides().items()}
        for side in measured.values():
            opened.enter_context(closing(side.game))
            side.game.run_epoch(train_steps=side.train_steps)  # compiled, and memory in use
        rates: dict[str, list[float]] = {name: [] for name in measured}
        for _ in range(rounds):
            for name, side in measured.items():
                rates[name].append(side.steps_per_second(seconds))
    medians = {name: statistics.median(values) for name, values in rates.items()}
    return {
        "agent_steps_per_second": medians,
        "times_sorrel": {
            name: medians[name] / side.sorrel for name, side in measured.items() if side.sorrel
        },
        "sixteen_agents_to_two": {
            name: medians[f"{name}, 16 agents"] / medians[name]
            for name in ("treasurehunt, 1024 copies", "treasurehunt, PPO, 64 copies")
        },
    }
