"""`WorldParallelEnv`: any of our games as a PettingZoo environment of agents who act together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from keisei.gridworld.agent import Agent
from keisei.gridworld.environment import Environment
from keisei.gridworld.errors import WorldError
from keisei.gridworld.model import ModelMaker, RandomModel
from keisei.gridworld.pictures import picture_of, text_of

try:
    from gymnasium.spaces import Box, Discrete
    from pettingzoo import ParallelEnv
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"Worlds as PettingZoo environments need {error.name}: pip install 'keisei[pettingzoo]'"
    ) from error

RENDER_MODES = ["ansi", "rgb_array"]
Action = int | np.integer[Any]
Observations = dict[str, NDArray[np.float32]]
Infos = dict[str, dict[str, Any]]


class GameMaker(Protocol):
    """A game's class, or a function that is called like one; `rules` as the game takes them."""

    def __call__(self, make_model: ModelMaker, rules: Any, *, seed: int) -> Environment:
        """The game in one copy of its world."""


class WorldParallelEnv(ParallelEnv[str, NDArray[np.float32], Action]):  # type: ignore[misc]
    """One copy of a game's world; agents are called by kind and number, such as "hunter_0".

    A step is what `Environment` calls together: the agents act in their order, the things of the
    world change by themselves, then everybody looks. An agent that is done is terminated; those
    that are not when `max_turns` is reached are truncated. With the last step of an episode each
    info holds what the game counts. A seed given to `reset` sets the game up anew from it, without
    one its random streams go on.
    """

    def __init__(self, game: GameMaker, rules: Any = None, *, render_mode: str | None = None):
        if render_mode not in (None, *RENDER_MODES):
            raise WorldError(f"render_mode is one of {RENDER_MODES} or None, not {render_mode!r}.")
        self._make, self._rules, self.render_mode = game, rules, render_mode
        self._set_up(int(np.random.SeedSequence().generate_state(1)[0]))
        environment = self._environment
        self.metadata = {
            "name": type(environment).__name__.lower(),
            "render_modes": RENDER_MODES,
            "render_fps": 10,
            "is_parallelizable": True,
        }
        self.possible_agents = [agent_name(agent) for agent in environment.agents]
        self.agents: list[str] = []
        names_and_agents = zip(self.possible_agents, environment.agents, strict=True)
        self._spaces = {name: _spaces(agent) for name, agent in names_and_agents}

    def _set_up(self, seed: int) -> None:
        # Decisions come from outside: nobody asks these models for any.
        self._environment = self._make(RandomModel, self._rules, seed=seed)
        if self._environment.world.copies != 1:
            raise WorldError("An environment for PettingZoo has one copy of its world.")

    def observation_space(self, agent: str) -> Box:
        """The picture that the agent sees, end to end, then its features."""
        return self._spaces[agent][0]

    def action_space(self, agent: str) -> Discrete:
        """The numbers of its actions."""
        return self._spaces[agent][1]

    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Observations, Infos]:
        """Begin an episode; there are no options."""
        if seed is None:
            self._environment.reset()
        else:
            self._set_up(seed)
        environment = self._environment
        environment.start_epoch_action(environment.epoch)
        self.agents = list(self.possible_agents)
        environment.begin_turn()
        return self._observe(self.agents), {name: {} for name in self.agents}

    def step(
        self, actions: Mapping[str, Action]
    ) -> tuple[Observations, dict[str, float], dict[str, bool], dict[str, bool], Infos]:
        """Let every living agent act; dictionaries by the names of those agents."""
        if not self.agents:
            raise WorldError("The episode is over, or has not begun: call reset.")
        environment, acting = self._environment, self.agents
        chosen = {name: self._checked(name, actions) for name in acting}
        before = environment.rewards[:, 0].copy()
        terminations = {name: self._act(name, action) for name, action in chosen.items()}
        # Rewards are float32: rounding takes back what adding up and subtracting has blurred.
        gained = (environment.rewards[:, 0] - before).astype(np.float32)
        rewards = {name: float(gained[self._agent(name).number]) for name in acting}
        self.agents = [name for name in acting if environment.active[self._agent(name).number, 0]]
        truncations = {n: n not in self.agents and not ended for n, ended in terminations.items()}
        counts = {} if self.agents else self._finish()
        environment.begin_turn()
        infos: Infos = {name: dict(counts) for name in acting}
        return self._observe(acting), rewards, terminations, truncations, infos

    def _checked(self, name: str, actions: Mapping[str, Action]) -> int:
        space = self.action_space(name)
        if name not in actions:
            raise WorldError(f"{name} is alive and needs an action.")
        if not space.contains(actions[name]):
            raise WorldError(f"{name} has actions 0 to {space.n - 1}, and {actions[name]} is none.")
        return int(actions[name])

    def _act(self, name: str, action: int) -> bool:
        """Whether this ended the agent's own part, be it in the last turn."""
        environment, agent = self._environment, self._agent(name)
        nothing_seen = np.zeros((1, *agent.observation_spec.shape), np.float32)
        environment.execute(agent, nothing_seen, np.array([action]))
        if environment.active[agent.number, 0]:
            return False
        in_last_turn = environment.world.turn >= environment.max_turns
        return not in_last_turn or bool(np.all(agent.is_done(environment.world)))

    def _finish(self) -> dict[str, float]:
        environment = self._environment
        environment.end_epoch_action(environment.epoch)
        environment.epoch += 1
        return environment.counts()

    def _agent(self, name: str) -> Agent:
        return self._environment.agents[self.possible_agents.index(name)]

    def _observe(self, names: list[str]) -> Observations:
        world = self._environment.world
        return {name: np.array(self._agent(name).pov(world)[0], np.float32) for name in names}

    def render(self) -> str | NDArray[np.uint8] | None:
        """Lines of glyphs, or a picture [H * 16, W * 16, 3], as `render_mode` says."""
        world = self._environment.world
        if self.render_mode == "ansi":
            return text_of(world)
        return picture_of(world) if self.render_mode == "rgb_array" else None


def agent_name(agent: Agent) -> str:
    """Its kind and number: "hunter_0"."""
    return f"{type(agent).__name__.lower()}_{agent.number}"


def _spaces(agent: Agent) -> tuple[Box, Discrete]:
    """What an agent can see and do; of features only their number is known."""
    spec = agent.observation_spec
    picture = int(np.prod(spec.image_shape))
    low, high = np.zeros(spec.shape, np.float32), np.full(spec.shape, spec.highest, np.float32)
    low[picture:], high[picture:] = -np.inf, np.inf
    return Box(low, high, dtype=np.float32), Discrete(len(agent.action_spec))
