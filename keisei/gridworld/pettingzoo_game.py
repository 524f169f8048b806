"""`PettingZooGame`: the agents of any PettingZoo `ParallelEnv`, each with a model of its own.

It is run like an `Environment`: an epoch is one episode in each of B copies of the environment,
after which the agents train.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keisei.gridworld.errors import WorldError
from keisei.gridworld.game import Game
from keisei.gridworld.model import Model, ModelMaker, States

try:
    from gymnasium import spaces
    from pettingzoo import AECEnv, ParallelEnv
    from pettingzoo.utils import aec_to_parallel
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"Games from PettingZoo need {error.name}: pip install 'keisei[pettingzoo]'"
    ) from error

LARGEST_BYTE = np.float32(255)


@dataclass
class PettingZooAgent:
    """One agent: what it is called in the environment, what it sees and does, and its model."""

    number: int
    name: str
    model: Model
    observation_space: spaces.Space[Any]
    action_space: spaces.Discrete

    def encode(self, observation: Any) -> States:
        """[D] an observation as numbers, end to end; bytes, as in images, are scaled to 0 to 1."""
        numbers = np.asarray(spaces.flatten(self.observation_space, observation), np.float32)
        return numbers / LARGEST_BYTE if self.observation_space.dtype == np.uint8 else numbers


class PettingZooGame(Game):
    """B copies of an environment, which `make_env` makes, and a model for each possible agent.

    An agent's observation is flattened, whatever its space; its actions must be `Discrete`.
    Environments may say which actions are legal: by observations {"observation", "action_mask"},
    of which the model sees the first, or by an "action_mask" among the infos. A model that chooses
    an illegal action has a random legal one done instead. It remembers its own choice, of which
    the outcome is then a matter of chance like others: PPO needs what its policy chose.

    An agent is active in a copy while the environment lists it, so it may come late and leave
    early; an episode that does not end by itself is over after `max_turns`. For every epoch each
    copy is made anew, and seeded from `seed`, the epoch and its number: so a run that is resumed
    goes on as if it had not stopped. Resetting is not enough, as real environments keep things:
    knights_archers_zombies_v11, how long ago the last zombie came.
    """

    agents: list[PettingZooAgent]

    def __init__(
        self,
        make_env: Callable[[], ParallelEnv],
        make_model: ModelMaker,
        *,
        copies: int = 1,
        seed: int = 0,
        max_turns: int = 1000,
    ) -> None:
        if copies < 1 or max_turns < 1:
            raise WorldError(f"At least one copy and one turn, not {copies} and {max_turns}.")
        super().__init__()
        self.max_turns, self._seed, self._turn = max_turns, seed, 0
        self._make_env = make_env
        self.copies = self._new_copies(copies)
        """[B] the environments of this epoch."""
        names = getattr(self.copies[0], "possible_agents", None)
        if not names:
            raise WorldError(f"{self.copies[0]} does not say who its possible_agents are.")
        self.agents = [self._agent(number, name, make_model) for number, name in enumerate(names)]
        shape = (len(self.agents), copies)
        self.rewards = np.zeros(shape)
        self.steps = 0
        self.active: NDArray[np.bool_] = np.zeros(shape, np.bool_)
        """[N, B] who can act."""
        self.episode_turns = np.zeros(copies, np.int64)
        """[B] how many turns the episode of each copy has had."""
        self._seen: list[dict[str, Any]] = [{} for _ in self.copies]
        self._infos: list[dict[str, Any]] = [{} for _ in self.copies]
        self._random = np.random.default_rng(seed)

    def _new_copies(self, copies: int) -> list[ParallelEnv]:
        return [as_parallel(self._make_env()) for _ in range(copies)]

    def _agent(self, number: int, name: str, make_model: ModelMaker) -> PettingZooAgent:
        env = self.copies[0]
        observed, actions = env.observation_space(name), env.action_space(name)
        if not isinstance(actions, spaces.Discrete):
            raise WorldError(
                f"Models choose among numbered actions, Discrete: {name} of {env} has {actions}."
            )
        if _has_mask(observed):
            observed = observed["observation"]
        seed = int(np.random.SeedSequence([self._seed, number]).generate_state(1)[0])
        size = spaces.flatdim(observed)
        model = make_model((size,), int(actions.n), copies=len(self.copies), seed=seed)
        return PettingZooAgent(number, name, model, observed, actions)

    # A turn

    def reset(self) -> None:
        """Begin an episode in every copy."""
        self._turn = self.steps = 0
        self.rewards[...] = 0.0
        self.episode_turns[...] = 0
        self._random = np.random.default_rng([self._seed, self.epoch])
        self.copies = self._new_copies(len(self.copies))
        for copy, env in enumerate(self.copies):
            seeds = np.random.SeedSequence([self._seed, self.epoch, copy])
            # Some environments take no seeds above what an int32 holds.
            seed = int(seeds.generate_state(1)[0]) >> 1
            self._seen[copy], self._infos[copy] = env.reset(seed=seed)
            self._note_active(copy)

    def _note_active(self, copy: int) -> None:
        living = set(self.copies[copy].agents)
        self.active[:, copy] = [agent.name in living for agent in self.agents]

    def take_turn(self) -> None:
        """All agents look and decide, then the copies go on, then the agents remember it."""
        self._turn += 1
        acting = self.active.copy()
        self.steps += int(np.count_nonzero(acting))
        present = [agent for agent in self.agents if acting[agent.number].any()]
        states = {agent.number: self._states(agent) for agent in present}
        choices = np.zeros(acting.shape, np.int64)
        for agent in present:
            choices[agent.number] = agent.model.take_action(states[agent.number])
        rewards, dones = self._go_on(self._legal(present, choices))
        for agent in present:
            n = agent.number
            agent.model.memory.add(states[n], choices[n], rewards[n], dones[n], acting[n])

    def _states(self, agent: PettingZooAgent) -> States:
        """[B, D] what an agent sees; zeros where it is not active."""
        states = np.zeros((len(self.copies), spaces.flatdim(agent.observation_space)), np.float32)
        for copy in np.flatnonzero(self.active[agent.number]):
            seen = self._seen[copy][agent.name]
            states[copy] = agent.encode(seen["observation"] if _has_mask(seen) else seen)
        return states

    def _legal(
        self, present: list[PettingZooAgent], choices: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """[N, B] the choices, or what replaces them; where nothing is legal, all stay."""
        actions = choices.copy()
        for agent in present:
            for copy in np.flatnonzero(self.active[agent.number]):
                seen = self._seen[copy][agent.name]
                told = seen if _has_mask(seen) else self._infos[copy].get(agent.name, {})
                legal = np.flatnonzero(told.get("action_mask", ()))
                if len(legal) and actions[agent.number, copy] not in legal:
                    actions[agent.number, copy] = self._random.choice(legal)
        return actions

    def _go_on(self, actions: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """[N, B] each: what all agents get in all copies, and whether that was their end."""
        rewards, dones = np.zeros(actions.shape, np.float32), np.zeros(actions.shape, np.bool_)
        for copy in np.flatnonzero(self.active.any(axis=0)):
            self._step(int(copy), actions[:, copy], rewards[:, copy], dones[:, copy])
        self.rewards += rewards
        return rewards, dones | (self._turn >= self.max_turns)

    def _step(
        self,
        copy: int,
        actions: NDArray[np.int64],
        rewards: NDArray[np.float32],
        dones: NDArray[np.bool_],
    ) -> None:
        """Go on in a copy: actions [N] by all who are active; writes rewards [N] and dones [N]."""
        acting = [agent for agent in self.agents if self.active[agent.number, copy]]
        chosen = {a.name: int(a.action_space.start + actions[a.number]) for a in acting}
        seen, gained, terminated, truncated, infos = self.copies[copy].step(chosen)
        self._seen[copy], self._infos[copy] = seen, infos
        self._note_active(copy)
        self.episode_turns[copy] += 1
        for agent in acting:
            n, name = agent.number, agent.name
            rewards[n] = gained.get(name, 0.0)
            over = terminated.get(name, True) or truncated.get(name, True)
            dones[n] = over or not self.active[n, copy]
            self.active[n, copy] &= not over

    # An epoch

    def is_over(self) -> bool:
        """Whether the last turn was taken, or no copy has anybody left."""
        return self._turn >= self.max_turns or not self.active.any()

    def turns(self) -> int:
        """How many turns this epoch has had, in the copy with the longest episode."""
        return self._turn

    def watched(self) -> ParallelEnv:
        """The first copy, before each turn."""
        return self.copies[0]

    def counts(self) -> dict[str, float]:
        """How long the episodes were, the mean over the copies."""
        return {"episode_turns": float(self.episode_turns.mean())}


# Finding environments


def pettingzoo_game(
    place: str,
    make_model: ModelMaker,
    *,
    copies: int = 1,
    seed: int = 0,
    max_turns: int = 1000,
    options: Mapping[str, Any] | None = None,
) -> PettingZooGame:
    """The game whose factory is at `place`, such as "mpe2.simple_spread_v3:parallel_env".

    options: what the factory is called with, by name.
    """
    factory, given = _factory(place), dict(options or {})

    def make_env() -> Any:
        try:
            return factory(**given)
        except TypeError as error:
            raise WorldError(f"{place} cannot be made with options {given}: {error}.") from error

    return PettingZooGame(make_env, make_model, copies=copies, seed=seed, max_turns=max_turns)


def _factory(place: str) -> Callable[..., Any]:
    module_name, colon, attribute = place.partition(":")
    if not (module_name and colon and attribute):
        raise WorldError(f"An environment is named as module:attribute, not {place!r}.")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise WorldError(f"{module_name} cannot be imported: {error}.") from error
    factory: Callable[..., Any] | None = getattr(module, attribute, None)
    if not callable(factory):
        raise WorldError(f"{module_name} has no function or class {attribute!r}.")
    return factory


def as_parallel(env: Any) -> ParallelEnv:
    """An environment in which all agents act together, from one that may take turns."""
    if isinstance(env, ParallelEnv):
        return env
    if not isinstance(env, AECEnv):
        raise WorldError(f"{env} is a {type(env).__name__}, which is no PettingZoo environment.")
    if not env.metadata.get("is_parallelizable", False):
        raise WorldError(f"The agents of {env} take turns: only a ParallelEnv can be trained here.")
    return aec_to_parallel(env)


def _has_mask(observation: Any) -> bool:
    """Whether an observation, or a space of them, is one with a mask beside it."""
    known = observation.keys() if isinstance(observation, dict | spaces.Dict) else ()
    return {"observation", "action_mask"} <= set(known)
