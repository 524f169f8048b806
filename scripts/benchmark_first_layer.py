"""The first layer on sets of bits against a convolution of dense planes, in turns on one thread.

    python scripts/benchmark_first_layer.py

prints microseconds a position, forward and backward, the best of several rounds, and their ratio.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from keisei.core.sparse_stem import sparse_stem
from keisei.shogi.features import FEATURE_SETS, FeatureSet
from keisei.shogi.vector_shogi import VectorShogi

POSITIONS, ROUNDS, TIMES = 64, 20, 10


def main() -> None:
    """Both ways for every feature set and some widths, in bfloat16."""
    torch.set_num_threads(1)
    games = VectorShogi(POSITIONS, seed=1, threads=1)
    games.play_random(80)
    positions = torch.from_numpy(games.positions.copy())
    for features in FEATURE_SETS.values():
        for width in (16, 32, 128):
            dense, sparse = _compare(features, positions, width)
            print(
                f"{features.name}, {width} channels: dense {dense:.1f} us a position, "
                f"sparse {sparse:.1f}, {dense / sparse:.1f} times as fast"
            )


def _compare(features: FeatureSet, positions: Tensor, width: int) -> tuple[float, float]:
    stem = nn.Conv2d(features.num_planes, width, 3, padding=1).to(torch.bfloat16)
    stem = stem.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def dense() -> Tensor:
        return torch.relu(stem(features.expand(positions, dtype=torch.bfloat16)))

    def sparse() -> Tensor:
        return sparse_stem(features, positions, stem, torch.bfloat16)

    gradient = torch.randn_like(dense())
    ways = (dense, sparse)
    rounds = [[_seconds(way, stem, gradient) for way in ways] for _ in range(ROUNDS)]
    best_dense, best_sparse = (min(times) / POSITIONS * 1e6 for times in zip(*rounds, strict=True))
    return best_dense, best_sparse


def _seconds(way: Callable[[], Tensor], stem: nn.Conv2d, gradient: Tensor) -> float:
    start = time.process_time()
    for _ in range(TIMES):
        torch.autograd.grad(way(), list(stem.parameters()), gradient)
    return (time.process_time() - start) / TIMES


if __name__ == "__main__":
    main()
