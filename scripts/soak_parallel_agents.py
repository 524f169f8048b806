"""Watch the memory of many agents that learn beside the collection, for as long as you like.

    python scripts/soak_parallel_agents.py --duration 600 --agents 64 --copies 256

Agents of treasurehunt with IQN have large replay buffers, which are full before the watch begins.
Memory is flat when the second half of the watch never used much more than the first half did; the
exit code says so.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time

import psutil
import torch

from keisei.core.world_models import model_maker
from keisei.gridworld.examples.treasurehunt import Treasurehunt, TreasurehuntRules
from keisei.gridworld.parallel_environment import ParallelEnvironment, in_parallel
from keisei.gridworld.parallel_settings import ParallelSettings
from keisei.training.memory_reuse import bound_primitive_caches, keep_freed_memory

ALLOWED_GROWTH = 0.005
"""Of the first half's memory, by which the second half may have more."""
SECONDS_BETWEEN_LINES = 15
TURNS = 20
"""Of an epoch: short, so that there are many lessons."""
SMALL = {"layer_size": 32, "n_frames": 1, "n_quantiles": 8}
"""Networks: the memory is in the buffers."""


def main() -> int:
    """Fill the buffers, then watch."""
    options = _options()
    keep_freed_memory()
    bound_primitive_caches()
    torch.set_num_threads(1)
    with _game(options) as game:
        _fill(game, options)
        sizes = _watch(game, options)
        game.finish_lessons(options.train_steps)
    half = len(sizes) // 2
    first, second = max(sizes[:half]), max(sizes[half:])
    flat = second <= first * (1 + ALLOWED_GROWTH)
    print(
        f"first half {first / 2**20:,.0f} MB at most, second half {second / 2**20:,.0f} MB: "
        f"{'flat' if flat else 'it grows'}"
    )
    return 0 if flat else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--duration", type=float, default=600.0, help="seconds to watch")
    parser.add_argument("--agents", type=int, default=64)
    parser.add_argument("--copies", type=int, default=256)
    parser.add_argument("--kind", choices=("iqn", "ppo"), default="iqn")
    parser.add_argument("--memory-turns", type=int, default=100, help="of IQN's buffers")
    parser.add_argument("--train-steps", type=int, default=4, help="of each agent and epoch")
    return parser.parse_args()


def _game(options: argparse.Namespace) -> ParallelEnvironment:
    rules = TreasurehuntRules(agents=options.agents, height=40, width=40, max_turns=TURNS)
    settings = {**SMALL, "memory_turns": options.memory_turns} if options.kind == "iqn" else {}
    return in_parallel(Treasurehunt)(
        model_maker(options.kind, settings),
        rules,
        copies=options.copies,
        seed=1,
        parallel=ParallelSettings(async_learning=True, lesson_timeout=300.0),
    )


def _fill(game: ParallelEnvironment, options: argparse.Namespace) -> None:
    """Play until the buffers are full, and all has been allocated that is kept."""
    turns = 0
    while turns < 2 * options.memory_turns:
        turns += game.run_epoch(train_steps=options.train_steps).turns
    game.finish_lessons(options.train_steps)
    game.pauses.longest.clear()  # the first ones compile


def _watch(game: ParallelEnvironment, options: argparse.Namespace) -> list[int]:
    """Bytes of this process after each epoch."""
    process, sizes = psutil.Process(), []
    began = told = time.monotonic()
    while (now := time.monotonic()) < began + options.duration or len(sizes) < 4:
        game.run_epoch(train_steps=options.train_steps)
        gc.collect()
        sizes.append(process.memory_info().rss)
        if now - told >= SECONDS_BETWEEN_LINES or len(sizes) == 1:
            told = now
            _tell(game, now - began, sizes[-1])
    return sizes


def _tell(game: ParallelEnvironment, seconds: float, size: int) -> None:
    longest = game.pauses.longest
    print(
        f"{seconds:5.0f} s  epoch {game.epoch:4}  {size / 2**20:8,.1f} MB  learned "
        f"{game.learned_steps / max(game.collected_steps, 1):.0%}  longest pause "
        f"{longest.get('pause', 0.0) * 1000:.0f} ms, snapshot "
        f"{longest.get('snapshot', 0.0) * 1000:.0f} ms",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
