"""A network of 16 channels by our own kernels against the same by torch, in turns on one thread.

    python scripts/benchmark_network.py

prints microseconds a position in bfloat16, the medians of rounds, and their ratio: choosing moves
for 512 and for 8 positions, and the gradient of PPO's loss for a minibatch of 512.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

from keisei.config_schema import ModelConfig, PPOConfig
from keisei.core.fused_network import FusedNetwork
from keisei.core.half_copy import HalfCopy
from keisei.core.legal_policy import played_moves
from keisei.core.llvm_code import has_pair_products
from keisei.core.minibatch import Minibatch
from keisei.core.ppo_loss import ppo_losses
from keisei.core.res_tower import model_factory
from keisei.shogi.vector_shogi import VectorShogi

POSITIONS, FEW, ROUNDS, TIMES = 512, 8, 15, 5
CONFIG = PPOConfig()


def main() -> None:
    """Both ways with the network of `shogi-laptop`."""
    torch.set_num_threads(1)
    model = model_factory(ModelConfig(depth=2, width=16, features="attack"))
    if not has_pair_products():
        raise SystemExit("This processor has no products of pairs of bfloat16: torch does it all.")
    games = VectorShogi(POSITIONS, seed=1, threads=1)
    games.play_random(80)
    positions = torch.from_numpy(games.positions.copy())
    legal = torch.from_numpy(games.legal[:, : int(games.legal_counts.max())].copy())
    counts = torch.from_numpy(games.legal_counts.astype("int64"))
    ways = {"torch": HalfCopy(model), "ours": FusedNetwork(model)}
    tasks: dict[str, tuple[int, Callable[[FusedNetwork | HalfCopy], None]]] = {
        f"choose, {POSITIONS} positions": (
            POSITIONS,
            lambda network: _choose(network, positions, legal, counts),
        ),
        f"choose, {FEW} positions": (
            FEW,
            lambda network: _choose(network, positions[:FEW], legal[:FEW], counts[:FEW]),
        ),
        f"gradient, {POSITIONS} positions": (
            POSITIONS,
            lambda network: _learn(network, positions, legal, counts),
        ),
    }
    for task, (rows, work) in tasks.items():
        rounds = [[_seconds(work, network) for network in ways.values()] for _ in range(ROUNDS)]
        torchs, ours = (
            statistics.median(times) / rows * 1e6 for times in zip(*rounds, strict=True)
        )
        print(
            f"{task}: torch {torchs:.1f} us a position, ours {ours:.1f}, "
            f"{torchs / ours:.2f} times as fast"
        )


@torch.no_grad()
def _choose(
    network: FusedNetwork | HalfCopy, positions: Tensor, legal: Tensor, counts: Tensor
) -> None:
    network.of_moves(positions, legal, counts)


def _learn(
    network: FusedNetwork | HalfCopy, positions: Tensor, legal: Tensor, counts: Tensor
) -> None:
    nothing = torch.zeros(len(counts))
    steps = Minibatch(positions, legal, counts, legal[:, 0].long(), *[nothing] * 4)
    if isinstance(network, FusedNetwork):
        network.learn(steps, CONFIG, CONFIG.entropy)
        return
    logits, values = network.of_moves(positions, legal, counts)
    played = played_moves(logits, legal, counts, steps.actions)
    network.backward(ppo_losses(played, values, steps, CONFIG, CONFIG.entropy)["loss"])


def _seconds(
    work: Callable[[FusedNetwork | HalfCopy], None], network: FusedNetwork | HalfCopy
) -> float:
    start = time.perf_counter()
    for _ in range(TIMES):
        work(network)
    return (time.perf_counter() - start) / TIMES


if __name__ == "__main__":
    main()
