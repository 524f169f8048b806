"""No tensor, memory, optimizer state or random stream is shared between the agents of a world."""

import numpy as np
import pytest
import torch

from keisei.core.world_models import model_maker
from tests.core.small import bits
from tests.gridworld.small_worlds import Coin, Hedge, Meadow, MeadowRules, Thorn

LEARNERS = {
    "ppo": model_maker("ppo", {"hidden": [8], "minibatch": 16}),
    "iqn": model_maker("iqn", {"layer_size": 8, "batch_size": 8, "memory_turns": 30}),
}


def belongings(thing, seen=None):
    """Everything of an agent's model that can change: where its tensors and arrays begin in
    memory, and which random generators it has."""
    seen = {} if seen is None else seen
    if id(thing) in seen or isinstance(thing, type):
        return set()
    seen[id(thing)] = thing  # kept alive, so that no other thing gets this id
    if isinstance(thing, torch.Tensor):
        return {("storage", thing.untyped_storage().data_ptr())} if thing.numel() else set()
    if isinstance(thing, np.ndarray):
        while isinstance(thing.base, np.ndarray):
            thing = thing.base
        return {("storage", thing.ctypes.data)} if thing.size else set()
    if isinstance(thing, torch.Generator | np.random.Generator):
        return {("generator", id(getattr(thing, "bit_generator", thing)))}
    parts = []
    if isinstance(thing, dict):
        parts = [*thing.keys(), *thing.values()]
    elif isinstance(thing, list | tuple | set):
        parts = list(thing)
    elif hasattr(thing, "__dict__") and type(thing).__module__.startswith(("keisei", "torch")):
        parts = list(vars(thing).values())
    return set().union(*(belongings(part, seen) for part in parts))


@pytest.mark.parametrize("kind", LEARNERS)
def test_agents_share_no_tensor_memory_optimizer_state_or_generator(kind):
    game = Meadow(LEARNERS[kind], MeadowRules(agents=3), copies=2)
    game.run_experiment(2, train_steps=2)
    theirs = [belongings(agent.model) for agent in game.agents]
    for its, agent in zip(theirs, game.agents, strict=True):
        assert agent.model.optimizer.state
        kinds = [what for what, _ in its]
        assert kinds.count("storage") > 20
        assert "generator" in kinds
    for number, its in enumerate(theirs):
        for other in theirs[number + 1 :]:
            assert not its & other


@pytest.mark.parametrize("kind", LEARNERS)
def test_agents_begin_with_weights_of_their_own(kind):
    first, second = Meadow(LEARNERS[kind]).agents
    weights = [agent.model.network.state_dict() for agent in (first, second)]
    different = [name for name in weights[0] if not torch.equal(weights[0][name], weights[1][name])]
    assert any(name.endswith("weight") for name in different)


class Apart(Meadow):
    """Two walkers, each with its own coins and thorns, and a hedge between them."""

    def populate_environment(self):
        world = self.world
        world.place(Hedge, world.border())
        middle = world.width // 2
        world.place(Hedge, world.cells_at(np.arange(world.height), middle))
        inside = world.inside()
        for agent, side in zip(
            self.agents, (inside.columns < middle, inside.columns > middle), strict=True
        ):
            spots = world.pick(inside[side], 9)
            agent.put(world, spots[0])
            for spot in spots[1:5]:
                world.place(Coin, spot)
            for spot in spots[5:]:
                world.place(Thorn, spot)


def lives(kind, *agent_seeds):
    """Of each agent of a run: where it was after each turn, its rewards, and its model's state."""
    rules = MeadowRules(height=6, width=11, coin_chance=0.0)
    game = Apart(LEARNERS[kind], rules, copies=3, seed=4, agent_seeds=agent_seeds)
    walks = []
    for _ in range(4):
        game.run_epoch(
            train_steps=2,
            watch=lambda world: walks.append(
                (world.agents.rows.copy(), world.agents.columns.copy())
            ),
        )
        walks.append((game.rewards.copy(), game.world.agents.facing.copy()))
    states = [agent.model.state() for agent in game.agents]
    return [
        ([(one[number].tolist(), two[number].tolist()) for one, two in walks], bits(arrays), values)
        for number, (arrays, values) in enumerate(states)
    ]


@pytest.mark.parametrize("kind", LEARNERS)
def test_another_seed_of_one_agent_changes_only_what_its_actions_change(kind):
    first, second = lives(kind, 1, 2)
    other_first, same_second = lives(kind, 3, 2)
    assert first[0] != other_first[0]
    assert first[1] != other_first[1]
    assert second == same_second


@pytest.mark.parametrize("kind", LEARNERS)
def test_the_random_streams_of_the_program_play_no_part(kind):
    before = lives(kind, 1, 2)
    torch.manual_seed(123)
    np.random.seed(123)
    torch_state, numpy_state = torch.random.get_rng_state(), np.random.get_state()[1].copy()
    assert lives(kind, 1, 2) == before
    assert torch.equal(torch.random.get_rng_state(), torch_state)
    assert np.array_equal(np.random.get_state()[1], numpy_state)
