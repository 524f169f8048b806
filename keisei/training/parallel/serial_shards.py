"""`SerialShards`: the shards of a world, played in this process one after the other.

The same semantics as `WorldWorkers`, to use a debugger and to compare with.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

from torch import nn

from keisei.core.threads import one_thread
from keisei.gridworld.parallel_pace import FULL_SPEED, EpochPace
from keisei.training.parallel.world_rollout import WorldRollout
from keisei.training.parallel.world_shard import ShardState, WorldShard, shards_of
from keisei.world_config import WorldConfig


class SerialShards:
    """networks: whose weights the shards are played with, those of all agents."""

    def __init__(self, config: WorldConfig, shards: int, networks: nn.Module) -> None:
        self._networks = networks
        self._shards = [WorldShard(config, group) for group in shards_of(config.copies, shards)]
        layout = self._shards[0].layout()
        self._rollouts = [layout.private() for _ in self._shards]
        self._begun: tuple[int, dict[str, Any]] | None = None
        """The epoch that was begun, and the weights that it is played with."""

    @property
    def states(self) -> list[ShardState]:
        """Of each shard, what its next epoch goes on from."""
        return [shard.state() for shard in self._shards]

    def load_states(self, states: list[ShardState]) -> None:
        """Go on from what `states` gave."""
        self._begun = None
        for shard, state in zip(self._shards, states, strict=True):
            shard.load_state(state)

    def begin(self, epoch: int, _pace: EpochPace = FULL_SPEED) -> None:
        """Play an epoch, when it is asked for, with the weights of now; nobody learns meanwhile."""
        self._begun = epoch, deepcopy(self._networks.state_dict())

    @contextmanager
    def play(self, epoch: int) -> Iterator[list[WorldRollout]]:
        """Play an epoch of all shards; what was played, in their order."""
        if self._begun is None or self._begun[0] != epoch:
            self.begin(epoch)
        assert self._begun is not None
        weights = self._begun[1]
        with one_thread():  # as a worker does: more threads may round otherwise
            for shard, rollout in zip(self._shards, self._rollouts, strict=True):
                shard.networks.load_state_dict(weights)
                rollout.begin(0, epoch)
                shard.play(epoch)
                shard.hand_over(rollout)
        yield self._rollouts

    def get_statistics(self) -> dict[str, Any]:
        """There are no workers."""
        return {"workers": []}

    def close(self) -> None:
        """Nothing was started."""
