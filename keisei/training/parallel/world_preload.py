"""Imported once by the server that workers of a world are forked from: all that is slow to load.

One-threaded throughout: a forked child inherits memory, not threads.
"""

from keisei.training.parallel import world_worker  # noqa: F401
from keisei.training.parallel.world_shards import ShardedGame
from keisei.world_config import WorldConfig


def _load_compiled_code() -> None:
    """Play one turn: that loads the kernels of worlds from the cache."""
    config = WorldConfig(
        copies=1, rules={"height": 5, "width": 5, "agents": 1, "max_turns": 1, "spawn_chance": 0.1}
    )
    with ShardedGame(config, 1, debug_serial=True) as game:
        game.play_epoch()


_load_compiled_code()
