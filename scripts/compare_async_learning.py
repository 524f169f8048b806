"""Rewards after equal environment steps: learning beside the collection, and one after the other.

    python scripts/compare_async_learning.py --epochs 200 --seeds 1 2 3
    python scripts/compare_async_learning.py learner.settings.epochs=1

All sides of each seed play treasurehunt with the settings of configs/treasurehunt.yaml and those
given. The reward is the mean of all agents together over the last epochs.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch

from keisei.config_loading import any_config_of
from keisei.gridworld.parallel_environment import ParallelEnvironment
from keisei.training.memory_reuse import keep_freed_memory
from keisei.training.world_games import make_game
from keisei.world_config import WorldConfig

SIDES = {
    "one after the other": ["observe=together"],
    "beside": ["parallel.enabled=true", "parallel.async_learning=true"],
    "beside, full speed": [
        "parallel.enabled=true",
        "parallel.async_learning=true",
        "parallel.keep_pace=false",
    ],
    "beside, deterministic": [
        "parallel.enabled=true",
        "parallel.async_learning=true",
        "parallel.deterministic=true",
    ],
}


def main() -> None:
    """Run all sides of all seeds, and print their rewards."""
    options = _options()
    keep_freed_memory()
    torch.set_num_threads(1)
    rewards: dict[str, list[float]] = {side: [] for side in SIDES}
    for seed in options.seeds:
        for side, words in SIDES.items():
            settings = [*words, *options.settings, f"seed={seed}"]
            rewards[side].append(_reward(side, settings, options))
    for side, its_rewards in rewards.items():
        spread = statistics.stdev(its_rewards) if len(its_rewards) > 1 else 0.0
        print(f"{side:22}  mean {statistics.mean(its_rewards):6.1f}, deviation {spread:.1f}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("settings", nargs="*", help="key=value, for all sides")
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--last", type=int, default=20, help="epochs that the reward is of")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    return parser.parse_args()


def _reward(side: str, words: list[str], options: argparse.Namespace) -> float:
    config = any_config_of(["treasurehunt", *words])
    if not isinstance(config, WorldConfig):
        raise TypeError("treasurehunt is a world")
    game, started = make_game(config), time.perf_counter()
    try:
        results = game.run_experiment(options.epochs, train_steps=config.learner.train_steps)
        game.finish_lessons(config.learner.train_steps)
    finally:
        game.close()
    reward = statistics.mean(result.total_reward for result in results[-options.last :])
    steps = sum(result.steps for result in results)
    seconds = time.perf_counter() - started
    learned = ""
    if isinstance(game, ParallelEnvironment):
        share, longest = game.learned_steps / game.collected_steps, game.pauses.longest
        milliseconds = [f"{1000 * longest.get(name, 0.0):.1f}" for name in ("pause", "snapshot")]
        learned = f", learned from {share:.0%}, pause and snapshot {' and '.join(milliseconds)} ms"
    print(
        f"{words[-1]:8} {side:22}  reward {reward:6.1f} after {steps:,} agent-steps, "
        f"{seconds:.0f} s{learned}",
        flush=True,
    )
    return reward


if __name__ == "__main__":
    main()
