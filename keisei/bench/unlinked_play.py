"""`UnlinkedPlay`: processes that play by themselves, which is what a machine has to give."""

from __future__ import annotations

import time
from contextlib import suppress
from multiprocessing.connection import Connection

from keisei.config_schema import Config
from keisei.core.experience_buffer import ExperienceBuffer
from keisei.core.ppo_agent import PPOAgent
from keisei.training.parallel.child_process import child_context, settle_as_child, start_child
from keisei.training.parallel.self_play import Group, SelfPlay

_WARM_ROLLOUTS = 2
_SECONDS_TO_END = 10.0


class UnlinkedPlay:
    """So many processes that play when told to; none knows of the others or hands anything over.

    Past selves are not among their opponents, whatever the config says.
    """

    def __init__(self, config: Config, processes: int, games: int) -> None:
        context = child_context()
        self._pipes: list[Connection] = []
        self._processes = []
        for number in range(processes):
            ours, theirs = context.Pipe()
            group = Group(number * games, games)
            process = context.Process(target=_play_when_told, args=(config, group, theirs))
            start_child(process)
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    def __enter__(self) -> UnlinkedPlay:
        self.steps_per_second(0.0)
        return self

    def __exit__(self, *_: object) -> None:
        for pipe, process in zip(self._pipes, self._processes, strict=True):
            pipe.close()
            process.join(_SECONDS_TO_END)
            process.kill()

    def steps_per_second(self, seconds: float) -> float:
        """Have all play for about so long; their rates added up."""
        for pipe in self._pipes:
            pipe.send(seconds)
        return float(sum(pipe.recv() for pipe in self._pipes))


def _play_when_told(config: Config, group: Group, pipe: Connection) -> None:
    """For every number of seconds that comes play for so long, and answer with the rate."""
    settle_as_child(gives_way=False)
    agent = PPOAgent(config.model, config.ppo, mixed_precision=config.training.mixed_precision)
    play = SelfPlay(config, agent, None, group)
    length = config.training.parallel.rollout_length or config.training.rollout_length
    rollout = ExperienceBuffer(length, group.games)

    def play_rollout() -> int:
        rollout.clear()
        return play.collect(rollout)[1].steps

    with suppress(EOFError):
        while True:
            seconds = pipe.recv()
            for _ in range(_WARM_ROLLOUTS):
                play_rollout()
            steps, start = 0, time.perf_counter()
            while (elapsed := time.perf_counter() - start) < seconds:
                steps += play_rollout()
            pipe.send(steps / elapsed if elapsed else 0.0)
