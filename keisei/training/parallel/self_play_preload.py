"""Imported once by the server that workers and helpers are forked from: all that is slow to load.

One-threaded throughout: a forked child inherits memory, not threads.
"""

import numpy as np

from keisei.config_schema import Config, GamesConfig, ModelConfig, TrainingConfig
from keisei.core.experience_buffer import ExperienceBuffer
from keisei.core.fused_network import FusedNetwork
from keisei.core.minibatch import Lesson
from keisei.core.ppo_agent import PPOAgent
from keisei.core.tower_kernels import WIDTH
from keisei.training.parallel import gradient_process, worker_process  # noqa: F401
from keisei.training.parallel.packed_games import packed_games, unpacked_games
from keisei.training.parallel.self_play import SelfPlay, groups_of


def _load_compiled_code() -> None:
    """Play one ply in every arithmetic: that loads each kernel that children need from the cache.

    Those of learning too, where it is kernels: autograd starts threads.
    """
    for width, mixed_precision in ((4, False), (4, True), (WIDTH, True)):
        config = Config(
            model=ModelConfig(depth=0, width=width),
            games=GamesConfig(count=1),
            training=TrainingConfig(rollout_length=1),
        )
        agent = PPOAgent(config.model, config.ppo, mixed_precision=mixed_precision)
        play = SelfPlay(config, agent, None, groups_of(config, None)[0], threads=1)
        buffer = ExperienceBuffer(1, 1)
        play.collect(buffer)
        unpacked_games(packed_games(play.state()), config.games.max_moves)
        if FusedNetwork.is_for(agent.model):
            agent.gradients(Lesson(buffer, 0.0, 1.0, 0.0, version=0), np.zeros(1, np.int64))


_load_compiled_code()
