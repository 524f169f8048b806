"""Imported once by the server that workers and helpers are forked from: all that is slow to load.

One-threaded throughout: a forked child inherits memory, not threads.
"""

from keisei.config_schema import Config, GamesConfig, ModelConfig, TrainingConfig
from keisei.core.experience_buffer import ExperienceBuffer
from keisei.core.ppo_agent import PPOAgent
from keisei.core.tower_kernels import WIDTH
from keisei.training.parallel import gradient_process, worker_process  # noqa: F401
from keisei.training.parallel.self_play import SelfPlay, groups_of


def _load_compiled_code() -> None:
    """Play one ply in every arithmetic: that loads each kernel a worker needs from the cache."""
    for width, mixed_precision in ((4, False), (4, True), (WIDTH, True)):
        config = Config(
            model=ModelConfig(depth=0, width=width),
            games=GamesConfig(count=1),
            training=TrainingConfig(rollout_length=1),
        )
        agent = PPOAgent(config.model, config.ppo, mixed_precision=mixed_precision)
        play = SelfPlay(config, agent, None, groups_of(config, None)[0], threads=1)
        play.collect(ExperienceBuffer(1, 1))


_load_compiled_code()
