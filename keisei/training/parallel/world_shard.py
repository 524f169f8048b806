"""`WorldShard`: some of the copies of a world, played with copies of the agents' models.

What it plays goes to a `WorldRollout`; nothing is learned here. The experience is the same wherever
a shard is played: its worlds and models have random streams of their own, which its state holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray
from torch import nn

from keisei.core.turn_parts import MergingMemory
from keisei.gridworld.environment import Environment
from keisei.gridworld.errors import WorldError
from keisei.gridworld.game import GameAgent
from keisei.gridworld.model import Model, NoMemory
from keisei.training.parallel.self_play import Group
from keisei.training.parallel.world_rollout import EpochNotes, WorldRollout, WorldRolloutLayout
from keisei.training.parallel.world_state import pack_state, unpack_state
from keisei.training.world_games import make_game
from keisei.world_config import WorldConfig

ShardState = dict[str, NDArray[Any]]
_LEARNED = re.compile(r"agent\d+\.(network|target|optimizer)\.")
"""Of a game's state: weights come from the learner with every epoch, moments are not used here."""


def shards_of(copies: int, shards: int) -> list[Group]:
    """The copies of a world, shared out as evenly as can be; the first ones get one more."""
    if not 1 <= shards <= copies:
        raise WorldError(f"{copies} copies of a world can be played in 1 to {copies} shards.")
    sizes = [copies // shards + (number < copies % shards) for number in range(shards)]
    return [Group(sum(sizes[:number]), size) for number, size in enumerate(sizes)]


class WorldShard:
    """The game of one shard, between epochs except while it is played."""

    def __init__(self, config: WorldConfig, group: Group) -> None:
        self.game = _game_of(config, group)
        self.networks = acting_networks(self.game.agents)
        """Of all agents, to load the learners' weights into."""

    def play(self, epoch: int, before_turn: Callable[[], None] = lambda: None) -> None:
        """Play an epoch with the weights that the models have."""
        self.game.epoch = epoch
        for agent in self.game.agents:
            if isinstance(agent.model.memory, MergingMemory):
                agent.model.memory.clear()
        self.game.play_epoch(lambda _: before_turn())

    def hand_over(self, rollout: WorldRollout) -> None:
        """Write what was played, and forget it."""
        game = self.game
        for agent in game.agents:
            memory = agent.model.memory
            if isinstance(memory, MergingMemory):
                rollout.put_turns(agent.number, memory.stored_turns())
                memory.clear()
        notes = EpochNotes(game.turns(), game.steps, game.counts())
        rollout.finish(game.rewards, notes, self.state()["state"].tobytes())

    def layout(self) -> WorldRolloutLayout:
        """Of rollouts that hold what shards of this size, or smaller, hand over."""
        memories = [agent.model.memory for agent in self.game.agents]
        return WorldRolloutLayout(
            [m.stored_turns() if isinstance(m, MergingMemory) else {} for m in memories],
            turns=self.game.max_turns,
            copies=self.game.world.copies,
            state_bytes=4096 + 2 * len(self.state()["state"]),
        )

    def state(self) -> ShardState:
        """What the next epoch goes on from, but for the weights; one array of bytes."""
        arrays, values = self.game.state()
        kept = {name: array for name, array in arrays.items() if not _LEARNED.match(name)}
        return {"state": pack_state(kept, values)}

    def load_state(self, state: ShardState) -> None:
        """Go on from what `state` gave, of a shard of the same copies."""
        saved, values = unpack_state(state["state"])
        self.game.load_state({**self.game.state()[0], **saved}, values)


def _game_of(config: WorldConfig, group: Group) -> Environment:
    acting = {"parallel_training": False, "async_learning": False}
    parallel = config.parallel.model_copy(update=acting)
    # A GPU belongs to the learners: workers play on the CPU.
    update = {"copies": group.games, "parallel": parallel, "device": "cpu"}
    settings = config.model_copy(update=update)
    game = make_game(settings, first_copy=group.first_game)
    if not isinstance(game, Environment):
        raise WorldError(f"Worker processes play worlds of this package, not {config.game}.")
    return game


def acting_networks(agents: Sequence[GameAgent]) -> nn.ModuleList:
    """What all agents decide with, in their order; none for those that do not learn."""
    found = (_network_of(agent.number, agent.model) for agent in agents)
    return nn.ModuleList(network for network in found if network is not None)


def _network_of(number: int, model: Model) -> nn.Module | None:
    network, memory = getattr(model, "network", None), model.memory
    if isinstance(network, nn.Module) and isinstance(memory, MergingMemory):
        return network
    if network is None and isinstance(memory, NoMemory):
        return None
    raise WorldError(
        f"Agent {number} has a {type(model).__name__}, which worker processes cannot play with: a "
        "model that learns has a `network` and a memory with `stored_turns` and `add_turns`."
    )
