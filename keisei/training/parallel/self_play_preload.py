"""Imported once by the server that workers and helpers are forked from: all that is slow to load.

One-threaded throughout: a forked child inherits memory, not threads.
"""

from keisei.config_schema import Config, GamesConfig, ModelConfig, TrainingConfig
from keisei.core.experience_buffer import ExperienceBuffer
from keisei.core.ppo_agent import PPOAgent
from keisei.training.parallel import gradient_process, worker_process  # noqa: F401
from keisei.training.parallel.self_play import SelfPlay, groups_of


def _load_compiled_code() -> None:
    """Play one ply in either arithmetic: that loads every kernel a worker needs from the cache."""
    config = Config(
        model=ModelConfig(depth=0, width=4),
        games=GamesConfig(count=1),
        training=TrainingConfig(rollout_length=1),
    )
    for mixed_precision in (False, True):
        agent = PPOAgent(config.model, config.ppo, mixed_precision=mixed_precision)
        play = SelfPlay(config, agent, None, groups_of(config, None)[0], threads=1)
        play.collect(ExperienceBuffer(1, 1))


_load_compiled_code()
