"""`Environment`: a game. It sets up the world and its agents, and runs turns and epochs.

A turn: things change by themselves, then every agent looks, decides and acts, in the order of the
agents. An epoch is `max_turns` turns from a world set up anew; after it the agents train.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from keisei.gridworld.agent import Agent
from keisei.gridworld.agent_places import AgentPlaces
from keisei.gridworld.cells import Cells
from keisei.gridworld.errors import WorldError
from keisei.gridworld.game import EpochResult, Game
from keisei.gridworld.model import AllActions, AllStates, Model, ModelMaker, States
from keisei.gridworld.world import World

Observe = Literal["in_turn", "together"]
__all__ = ["Environment", "EpochResult", "Observe"]


class Environment(Game):
    """A game of N agents in B copies of a world; games subclass it.

    A game writes `setup_agents` and `populate_environment`, and may write `start_epoch_action`,
    `end_epoch_action` and `counts`. observe: "in_turn", each agent looks when its turn comes and
    sees what those before it did; "together", all look first and then act in order.
    agent_seeds: of the agents' models; by default they come from `seed` and the agent's number.
    """

    agents: list[Agent]

    def __init__(
        self,
        world: World,
        make_model: ModelMaker,
        *,
        max_turns: int = 100,
        observe: Observe = "in_turn",
        seed: int = 0,
        agent_seeds: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        if max_turns < 1:
            raise WorldError(f"An epoch has at least one turn, not {max_turns}.")
        if observe not in ("in_turn", "together"):
            raise WorldError(f"observe is 'in_turn' or 'together', not {observe!r}.")
        self.world, self.max_turns, self.observe = world, max_turns, observe
        self._make_model, self._seed, self._agent_seeds = make_model, seed, agent_seeds
        self._models_made = 0
        self.agents = self._numbered(self.setup_agents())
        self._changing = [kind for kind in world.kinds if kind.has_transition()]
        shape = (len(self.agents), world.copies)
        self.rewards = np.zeros(shape)
        self.active: NDArray[np.bool_] = np.ones(shape, np.bool_)
        """[N, B] whose episode is not over."""
        self.reset()

    # What a game writes

    def setup_agents(self) -> list[Agent]:
        """Make the agents; called once. `self.new_model(...)` makes a model for each."""
        raise NotImplementedError

    def populate_environment(self) -> None:
        """Fill the empty world and put the agents into it; called at the start of each epoch."""
        raise NotImplementedError

    # Setting up

    def new_model(self, spec: Any, actions: int) -> Model:
        """A model for an agent that observes by this `ObservationSpec`; each with its own seed."""
        number = self._models_made
        self._models_made += 1
        if self._agent_seeds is None:
            seed = int(np.random.SeedSequence([self._seed, number]).generate_state(1)[0])
        elif number < len(self._agent_seeds):
            seed = self._agent_seeds[number]
        else:
            raise WorldError(f"There are {len(self._agent_seeds)} agent_seeds and more agents.")
        return self._make_model(spec.shape, actions, copies=self.world.copies, seed=seed)

    def _numbered(self, agents: list[Agent]) -> list[Agent]:
        if not agents:
            raise WorldError("A game has at least one agent: setup_agents gave none.")
        world = self.world
        world.agents = AgentPlaces(len(agents), world.copies)
        for number, agent in enumerate(agents):
            world.number_of(type(agent))
            if agent.passable:
                raise WorldError(
                    f"{type(agent).__name__} is passable, and others would walk over it: "
                    "agents are not."
                )
            if not 0 <= agent.layer < world.layers:
                raise WorldError(
                    f"Agent {number} lives on layer {agent.layer}, and the world has 0 to "
                    f"{world.layers - 1}."
                )
            agent.number = number
            world.agents.layers[number] = agent.layer
        return agents

    def reset(self) -> None:
        """Set the world up anew, and the agents in it."""
        self.world.clear()
        self.rewards[...] = 0.0
        self.steps = 0
        self.active[...] = True
        for agent in self.agents:
            agent.reset()
        self.populate_environment()
        missing = ~self.world.agents.present.any(axis=1)
        if missing.any():
            raise WorldError(
                f"populate_environment did not put agent {int(missing.argmax())} on the map."
            )

    def scatter_agents(self, where: Cells) -> None:
        """Put all agents on different cells of `where`, at random in every copy."""
        spots = self.world.pick(where, len(self.agents))
        if self._put_together(np.stack([spot.flat for spot in spots])):
            return
        for agent, spot in zip(self.agents, spots, strict=True):
            agent.put(self.world, spot)

    def _put_together(self, flat: NDArray[np.int64]) -> bool:
        """Put the agents on different cells [N, B] at once; False, and nothing done, if in doubt.

        Sure is who can be put as any agent, is on no map yet and may stand there: to put 256 agents
        one by one took 6 ms.
        """
        world, places = self.world, self.world.agents
        cells, kinds = Cells(flat, world.map.shape), world.map.reshape(-1)
        if (
            not all(_is_put_as_any(agent) for agent in self.agents)
            or places.present.any()
            or not world.passable[kinds[flat]].all()
            or (cells.layers != places.layers[:, np.newaxis]).any()
        ):
            return False
        places.rows[...], places.columns[...] = cells.rows, cells.columns
        places.present[...] = True
        kinds[flat] = world.numbers_of([type(agent) for agent in self.agents])[:, np.newaxis]
        return True

    # A turn

    def take_turn(self) -> None:
        """Things change by themselves, then the agents look, decide and act."""
        self.begin_turn()
        if self.observe == "together":
            states = self.look()
            self.carry_out(states, self.decide(states))
        else:
            for agent in self.agents:
                if self.active[agent.number].any():
                    state = agent.pov(self.world)
                    self.execute(agent, state, agent.get_action(state))

    def begin_turn(self) -> None:
        """Count the turn and let things change by themselves."""
        self.world.turn += 1
        for kind in self._changing:
            kind.transition(self.world, self.world.cells(kind))

    def look(self) -> AllStates:
        """What each agent observes now."""
        return [agent.pov(self.world) for agent in self.agents]

    def decide(self, states: AllStates) -> AllActions:
        """What each agent wants to do, given what it observed; one that is done is not asked."""
        idle = np.zeros(self.world.copies, np.int64)
        return [
            agent.get_action(states[agent.number]) if self.active[agent.number].any() else idle
            for agent in self.agents
        ]

    def carry_out(self, states: AllStates, actions: AllActions) -> None:
        """Have all agents act on what they decided, in their order."""
        for agent, state, action in zip(self.agents, states, actions, strict=True):
            self.execute(agent, state, action)

    def execute(self, agent: Agent, state: States, action: NDArray[np.int64]) -> None:
        """Have an agent act on what it decided, and remember the turn."""
        world, active = self.world, self.active[agent.number]
        if not active.any():
            return
        self.steps += int(np.count_nonzero(active))
        self.check_action(agent, action)
        reward = self._checked(agent, "act", self._act(agent, action, active), np.float32)
        reward = np.where(active, reward, np.float32(0))
        self.rewards[agent.number] += reward
        world.total_reward += reward
        if world.turn >= self.max_turns:
            done = np.ones(world.copies, np.bool_)
        else:
            done = self._checked(agent, "is_done", agent.is_done(world), np.bool_)
        agent.add_memory(state, action, reward, done, active)
        self.active[agent.number] = active & ~done

    def _act(
        self, agent: Agent, action: NDArray[np.int64], active: NDArray[np.bool_]
    ) -> NDArray[np.float32]:
        """Have it act where its episode goes on; elsewhere it counts as absent meanwhile."""
        if active.all():
            return agent.act(self.world, action)
        present = self.world.agents.present[agent.number]
        resting = present & ~active
        present[resting] = False
        reward = agent.act(self.world, action)
        present[resting] = True
        return reward

    def check_action(self, agent: Agent, action: Any) -> None:
        """Refuse what a compiled loop would take for another action, or read beyond its end."""
        count = len(agent.action_spec)
        if not (isinstance(action, np.ndarray) and action.dtype == np.int64):
            what = getattr(action, "dtype", type(action).__name__)
            raise WorldError(f"Agent {agent.number} chose actions of type {what}, not int64.")
        if action.shape != (self.world.copies,) or (action.view(np.uint64) >= count).any():
            raise WorldError(
                f"Agent {agent.number} must choose an action for each of {self.world.copies} "
                f"copies, a number from 0 to {count - 1}, and chose {str(action.tolist())[:60]}."
            )

    def _checked(self, agent: Agent, method: str, answer: Any, dtype: type) -> NDArray[Any]:
        array: NDArray[Any] = np.asarray(answer, dtype)
        if array.shape == (self.world.copies,):
            return array
        if array.shape == () and method == "is_done":
            return np.full(self.world.copies, array)
        raise WorldError(
            f"{type(agent).__name__}.{method} must answer for each copy, an array of shape "
            f"[{self.world.copies}], and gave one of shape {list(array.shape)}."
        )

    # An epoch

    def is_over(self) -> bool:
        """Whether the last turn was taken, or everybody is done."""
        return self.world.turn >= self.max_turns or not self.active.any()

    def turns(self) -> int:
        """How many turns this epoch has had."""
        return self.world.turn

    def watched(self) -> World:
        """The world, before each turn."""
        return self.world

    # Going on later

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """All that the next epoch depends on: arrays by name, and JSON. Between epochs only."""
        arrays, values = super().state()
        return {**arrays, "random_state": self.world.random_state.copy()}, values

    def load_state(self, arrays: Mapping[str, NDArray[Any]], values: Mapping[str, Any]) -> None:
        """Go on from what `state` gave, in a game set up alike."""
        streams = arrays["random_state"]
        if streams.shape != self.world.random_state.shape:
            raise WorldError(
                f"The state is of {len(streams)} copies, this game has {self.world.copies}."
            )
        super().load_state(arrays, values)
        self.world.random_state[...] = streams


def _is_put_as_any(agent: Agent) -> bool:
    return type(agent).put is Agent.put and type(agent).leave is Agent.leave
