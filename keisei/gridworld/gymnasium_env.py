"""`WorldEnv`: a game of one agent as a Gymnasium environment."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

try:
    from gymnasium import Env
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"Worlds as Gymnasium environments need {error.name}: pip install 'keisei[pettingzoo]'"
    ) from error

from keisei.gridworld.errors import WorldError
from keisei.gridworld.pettingzoo_env import Action, GameMaker, WorldParallelEnv


class WorldEnv(Env[NDArray[Any], Action]):
    """One copy of the world of a game of one agent; see `WorldParallelEnv` for what a step is."""

    def __init__(self, game: GameMaker, rules: Any = None, *, render_mode: str | None = None):
        self._world = WorldParallelEnv(game, rules, render_mode=render_mode)
        if len(self._world.possible_agents) != 1:
            raise WorldError(
                f"A Gymnasium environment has one agent, and this game has "
                f"{len(self._world.possible_agents)}: use WorldParallelEnv."
            )
        [self._agent] = self._world.possible_agents
        self.metadata, self.render_mode = self._world.metadata, render_mode
        self.observation_space = self._world.observation_space(self._agent)
        self.action_space = self._world.action_space(self._agent)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin an episode; there are no options."""
        super().reset(seed=seed)
        observations, infos = self._world.reset(seed, options)
        return observations[self._agent], infos[self._agent]

    def step(self, action: Action) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Act, and look again."""
        agent = self._agent
        seen, rewards, terminations, truncations, infos = self._world.step({agent: action})
        return seen[agent], rewards[agent], terminations[agent], truncations[agent], infos[agent]

    def render(self) -> Any:
        """Lines of glyphs, or a picture [H * 16, W * 16, 3], as `render_mode` says."""
        return self._world.render()
