"""`JointTurn`: the agents of a world look in one call, and walk in one call.

It does what `Environment` does with one after the other, for agents that look and act as `Agent`
and `MovingAgent` do. Python's own work is most of a turn in few copies: acting and remembering of
16 agents in one copy took 410 µs one by one and 140 at once, on a busy machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from keisei.gridworld.action_spec import STAY
from keisei.gridworld.agent import Agent, MovingAgent
from keisei.gridworld.environment import Environment
from keisei.gridworld.map_kernels import walk_all
from keisei.gridworld.model import AllActions, AllStates, States
from keisei.gridworld.observation_spec import ObservationSpec

_ACTING = ("act", "walk", "is_done", "add_memory")


class Turn(NamedTuple):
    """What N agents did in one turn of B copies, to be remembered."""

    states: AllStates
    actions: NDArray[np.int64]
    """[N, B], as all that follow."""
    rewards: NDArray[np.float32]
    dones: NDArray[np.bool_]
    active: NDArray[np.bool_]

    def of(self, numbers: Sequence[int]) -> Turn:
        """The same of some agents."""
        if list(numbers) == list(range(len(self.actions))):
            return self
        chosen = list(numbers)
        return Turn(
            [self.states[number] for number in chosen],
            self.actions[chosen],
            self.rewards[chosen],
            self.dones[chosen],
            self.active[chosen],
        )


class JointTurn:
    """What can be done at once in a game, for all agents of it."""

    def __init__(self, game: Environment) -> None:
        self._game = game
        self._by_spec = _by_spec([agent for agent in game.agents if _only_looks(agent)])
        self._others = [agent for agent in game.agents if not _only_looks(agent)]
        self.asking = [agent.number for agent in game.agents if _asks_its_model(agent)]
        """Agents that do what their models say, no more and no less."""
        alike = all(_only_walks(agent) for agent in game.agents)
        self._all_walk = alike and type(game).execute is Environment.execute
        self._choices = np.array([[len(agent.action_spec)] for agent in game.agents], np.uint64)
        self._headings = _headings(game.agents)

    def look(self) -> AllStates:
        """What each agent observes now; one call for those that share an `ObservationSpec`."""
        world = self._game.world
        if len(self._by_spec) == 1 and not self._others:
            [(spec, agents)] = self._by_spec
            return spec.observe_all(world, agents)
        seen = cast("list[States]", [None] * len(self._game.agents))
        for spec, agents in self._by_spec:
            for agent, its_view in zip(agents, spec.observe_all(world, agents), strict=True):
                seen[agent.number] = its_view
        for agent in self._others:
            seen[agent.number] = agent.pov(world)
        return seen

    def can_walk(self) -> bool:
        """Whether all that any agent does is to walk, and nobody's episode is over."""
        return self._all_walk and bool(self._game.active.all())

    def walk(self, states: AllStates, actions: AllActions) -> Turn:
        """Have all agents walk, in their order, and count what they get: `execute` of each."""
        game, world = self._game, self._game.world
        chosen = self._checked(actions)
        rewards = np.empty(chosen.shape, np.float32)
        places = world.agents
        where = (places.layers, places.rows, places.columns, places.facing, places.present)
        kinds = (world.passable, world.values)
        got = (rewards, world.total_reward)
        walk_all(world.map, *where, self._headings, chosen, *kinds, *got)
        game.steps += chosen.size
        game.rewards += rewards
        active = game.active.copy()
        game.active[...] = world.turn < game.max_turns
        return Turn(states, chosen, rewards, ~game.active, active)

    def _checked(self, actions: AllActions) -> NDArray[np.int64]:
        """[N, B] the actions, if they are what `Environment.check_action` wants."""
        shape = (self._game.world.copies,)
        if isinstance(actions, np.ndarray) or all(_is_answer(each, shape) for each in actions):
            chosen: NDArray[np.int64] = np.asarray(actions)
            if _is_answer(chosen, (len(self._choices), *shape)) and not self._any_unknown(chosen):
                return chosen
        for agent, action in zip(self._game.agents, actions, strict=True):
            self._game.check_action(agent, action)
        raise AssertionError("actions are wrong all together, and none of them is")

    def _any_unknown(self, actions: NDArray[np.int64]) -> bool:
        """Whether there are numbers below 0, or beyond those of an agent's actions."""
        return bool((actions.view(np.uint64) >= self._choices).any())


def _is_answer(action: Any, shape: tuple[int, ...]) -> bool:
    return isinstance(action, np.ndarray) and action.dtype == np.int64 and action.shape == shape


def _only_looks(agent: Agent) -> bool:
    """Whether it observes by its spec, no more and no less."""
    return type(agent).pov is Agent.pov and type(agent.observation_spec) is ObservationSpec


def _asks_its_model(agent: Agent) -> bool:
    return type(agent).get_action is Agent.get_action


def _only_walks(agent: Agent) -> bool:
    """Whether all that it does is to walk, until the epoch is over."""
    kind = type(agent)
    return issubclass(kind, MovingAgent) and all(
        getattr(kind, name) is getattr(MovingAgent, name) for name in _ACTING
    )


def _by_spec(agents: Sequence[Agent]) -> list[tuple[ObservationSpec, list[Agent]]]:
    groups: dict[int, tuple[ObservationSpec, list[Agent]]] = {}
    for agent in agents:
        spec = agent.observation_spec
        groups.setdefault(id(spec), (spec, []))[1].append(agent)
    return list(groups.values())


def _headings(agents: Sequence[Agent]) -> NDArray[np.int64]:
    """[N, A] the direction of each agent's actions."""
    most = max(len(agent.action_spec) for agent in agents)
    headings = np.full((len(agents), most), STAY)
    for number, agent in enumerate(agents):
        headings[number, : len(agent.action_spec)] = agent.action_spec.headings
    return headings
