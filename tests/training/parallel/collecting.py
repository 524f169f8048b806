"""Small parallel runs, and exact comparison of the experience they collect."""

from dataclasses import asdict

import numpy as np

from keisei.core.experience_buffer import ExperienceBuffer
from keisei.core.ppo_agent import PPOAgent
from keisei.training.opponent_pool import OpponentPool
from keisei.training.parallel.experience_collector import SerialCollector
from keisei.training.parallel.parallel_manager import ParallelManager
from keisei.training.parallel.self_play import groups_of
from tests.core.small import SMALL_MODEL, bits, opinionated, small_config

STEPS = 6
"""Plies of a rollout."""
GAMES = 6
"""Of each worker."""
BUSY_GAMES = {
    "count": 2 * GAMES,
    "max_moves": 40,
    "random_start_share": 0.8,
    "random_start_plies": 39,
    "rewind_share": 0.5,
    "rewind_plies": 4,
}
"""Games of which some end with every ply."""


def parallel_config(*, model=SMALL_MODEL, games=None, ppo=None, training=None, **parallel):
    """A config of 2 workers with 6 busy games each; the keywords are settings of `parallel`."""
    settings = {"enabled": True, "num_workers": 2, "num_learners": 1, "mode": "sync"}
    return small_config(
        seed=7,
        model=model,
        games={**BUSY_GAMES, **(games or {})},
        ppo={"learning_rate": 0.01, "cut_games": "bootstrap", **(ppo or {})},
        training={
            "rollout_length": STEPS,
            "parallel": {**settings, **parallel},
            **(training or {}),
        },
    )


class Learner:
    """An agent, its past selves and a buffer, to be filled by a collector of either kind.

    rollouts: that find room in the buffer; those of all groups if not said otherwise.
    """

    def __init__(self, config, *, rollouts=None):
        self.config = config
        precision = config.training.mixed_precision
        agent = PPOAgent(config.model, config.ppo, seed=config.seed, mixed_precision=precision)
        self.agent = opinionated(agent)
        self.pool = OpponentPool(config, self.agent) if config.games.opponent_share else None
        self.groups = groups_of(config, config.training.parallel.num_workers)
        parallel = config.training.parallel
        steps = parallel.rollout_length or config.training.rollout_length
        games = self.groups[0].games * (rollouts or len(self.groups))
        self.buffer = ExperienceBuffer(steps, games)
        self.news = []
        self.collector = None
        self.updates = 0

    def serial(self):
        self.collector = SerialCollector(self.config, self.agent, self.pool, self.groups, threads=1)
        return self

    def parallel(self, **options):
        self.collector = ParallelManager(
            self.config, self.agent, self.pool, self.groups, announce=self.news.append, **options
        )
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.collector.close()

    def collect(self):
        """Statistics of a collection that fills the buffer anew."""
        self.buffer.clear()
        self.last_values, statistics = self.collector.collect(self.buffer)
        return statistics

    def learn(self):
        """Change the weights, and the opponent when it is time."""
        ppo = self.config.ppo
        self.buffer.compute_advantages_and_returns(
            self.last_values,
            gamma=ppo.gamma,
            gae_lambda=ppo.gae_lambda,
            cut_games=ppo.cut_games,
        )
        self.agent.update(self.buffer, 0.0)
        self.updates += 1
        if self.pool is not None:
            self.pool.after_update(self.updates)
        self.collector.synchronize_models()


def experience(buffer, columns=slice(None)):
    """Every array of a filled buffer as bits; legal moves by content, wherever they lie."""
    arrays = dict(buffer.get_serializable_batch())
    pool, lengths = arrays.pop("legal_pool"), arrays.pop("lengths")[columns]
    arrays = {name: array[:, columns] for name, array in arrays.items()}
    starts, counts = arrays.pop("legal_starts"), arrays.pop("legal_counts")
    stored = np.arange(buffer.filled)[:, np.newaxis] < lengths
    lists = [
        pool[start : start + int(count)]
        for start, count in zip(starts[stored], counts[stored], strict=True)
    ]
    # Behind a game's last step lies what an earlier rollout left there.
    steps = {name: array[stored] for name, array in arrays.items()}
    legal = {"legal_moves": np.concatenate(lists), "legal_counts": counts[stored]}
    return bits({**steps, **legal, "lengths": lengths})


def without_seconds(statistics):
    return {k: v for k, v in asdict(statistics).items() if not k.endswith("_seconds")}


def new_version(learner, versions=1):
    """As after an update, but the weights stay the same."""
    learner.agent.version += versions
    learner.collector.synchronize_models()


class SerialRollouts:
    """What each group plays, rollout by rollout, without versions."""

    def __init__(self, config):
        self._learner = Learner(config).serial()
        self.played = [[] for _ in self._learner.groups]

    def number_of(self, rollout):
        """(group, number) of a rollout, playing on until there is one like it."""
        for _ in range(500):
            for group, rollouts in enumerate(self.played):
                if rollout in rollouts:
                    return group, rollouts.index(rollout)
            self._learner.collect()
            for group, rollouts in enumerate(self.played):
                rollouts.append(rollout_of(self._learner.buffer, group))
        raise AssertionError("no group plays such a rollout")


def rollout_of(buffer, block):
    """A worker's part of the buffer."""
    part = experience(buffer, slice(block * GAMES, (block + 1) * GAMES))
    return {name: array for name, array in part.items() if name not in ("versions", "trains")}
