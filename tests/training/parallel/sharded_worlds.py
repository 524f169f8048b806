"""Small worlds in shards, and exact comparison of what became of them."""

from keisei.config_schema import ParallelConfig
from keisei.training.parallel.world_shards import ShardedGame
from keisei.world_config import WorldConfig
from tests.core.small import bits

COPIES = 7
SHARDS = 3
RULES = {"height": 7, "width": 8, "agents": 2, "max_turns": 9, "spawn_chance": 0.1}
SETTINGS = {
    "ppo": {"hidden": [8], "minibatch": 30, "n_frames": 2},
    "iqn": {"layer_size": 8, "n_frames": 2, "batch_size": 16, "memory_turns": 20},
    "random": {},
}
IN_PARALLEL = {"enabled": True, "num_workers": 2}


def world_config(kind="ppo", **settings):
    """Treasurehunt with 7 copies of a small field."""
    learner = {"kind": kind, "settings": SETTINGS[kind]}
    return WorldConfig(
        **{"seed": 5, "copies": COPIES, "rules": RULES, "learner": learner} | settings
    )


def supervised(**settings):
    return ParallelConfig(mode="sync", restart_backoff=0.0, **settings)


class Run:
    """A sharded game that writes down its rewards and news."""

    def __init__(self, config=None, shards=SHARDS, *, supervision=None, **options):
        self.news, self.rewards = [], []
        self.game = ShardedGame(
            config or world_config(),
            shards,
            supervision=supervision or supervised(),
            on_news=self.news.append,
            **options,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.game.close()

    def epochs(self, count):
        for _ in range(count):
            self.game.play_epoch()
            self.rewards.append(self.game.rewards.tolist())
            self.game.finish_epoch(train_steps=1)
        return self

    def outcome(self):
        """All that the run came to, to the last bit."""
        arrays, values = self.game.state()
        return bits(arrays), values, list(self.rewards)


def outcome_in_one_process(config=None, shards=SHARDS, *, epochs=4):
    with Run(config, shards, debug_serial=True) as run:
        return run.epochs(epochs).outcome()
