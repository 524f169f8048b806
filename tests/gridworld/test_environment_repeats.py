"""`Environment`: a seed or a state repeats a run, and a copy lives alone as among others."""

import json

import numpy as np
import pytest

from keisei.core.world_models import model_maker
from keisei.gridworld.errors import WorldError
from keisei.gridworld.model import RandomModel
from tests.core.small import bits
from tests.gridworld.small_worlds import Doing, Meadow, MeadowRules, handing_out

KINDS_OF_MODELS = {
    "random": model_maker("random", {}),
    "ppo": model_maker("ppo", {"hidden": [8], "minibatch": 16, "n_frames": 2}),
    "iqn": model_maker(
        "iqn",
        {"layer_size": 8, "batch_size": 8, "memory_turns": 20, "n_frames": 2, "sync_interval": 2},
    ),
}


def state_bits(game):
    arrays, values = game.state()
    return bits(arrays), json.loads(json.dumps(values))


def experiences(results):
    return [(result.epoch, result.rewards.tolist(), result.figures) for result in results]


@pytest.mark.parametrize("observe", ["in_turn", "together"])
@pytest.mark.parametrize("kind", KINDS_OF_MODELS)
def test_a_resumed_experiment_equals_an_unbroken_one_bit_for_bit(kind, observe):
    make = KINDS_OF_MODELS[kind]
    unbroken = Meadow(make, copies=3, seed=7, observe=observe)
    expected = experiences(unbroken.run_experiment(6, train_steps=2))[3:]
    first = Meadow(make, copies=3, seed=7, observe=observe)
    first.run_experiment(3, train_steps=2)
    arrays, values = first.state()
    kept = {name: array.copy() for name, array in arrays.items()}
    first.run_experiment(1, train_steps=2)  # what was given is a copy
    resumed = Meadow(make, copies=3, seed=99, observe=observe)
    resumed.load_state(kept, json.loads(json.dumps(values)))
    assert experiences(resumed.run_experiment(3, train_steps=2)) == expected
    assert state_bits(resumed) == state_bits(unbroken)
    assert np.array_equal(resumed.world.map, unbroken.world.map)


class Absent(Meadow):
    """The agents are put into some copies only, which chance decides."""

    def populate_environment(self):
        for agent, spot in zip(self.agents, self.world.pick(self.world.inside(), 2), strict=True):
            there = self.world.draw(spot) < 0.5
            there[0] = True
            agent.put(self.world, spot[there])


def test_absent_agents_do_not_keep_a_resumed_experiment_from_equalling_an_unbroken_one():
    make = KINDS_OF_MODELS["ppo"]
    unbroken, first, resumed = (Absent(make, copies=4, seed=2) for _ in range(3))
    unbroken.run_experiment(6)
    first.run_experiment(3)
    resumed.load_state(*first.state())
    resumed.run_experiment(3)
    assert state_bits(resumed) == state_bits(unbroken)


@pytest.mark.parametrize("kind", KINDS_OF_MODELS)
def test_the_same_seed_repeats_a_run_and_another_does_not(kind):
    make = KINDS_OF_MODELS[kind]
    runs = []
    for seed in (5, 5, 6):
        game = Meadow(make, copies=2, seed=seed)
        results = experiences(game.run_experiment(3))
        runs.append((results, state_bits(game)))
    assert runs[0] == runs[1]
    assert runs[0][0] != runs[2][0]


def test_a_state_of_another_number_of_agents_is_refused():
    state = Meadow(RandomModel).state()
    with pytest.raises(WorldError, match="The state is of 2 agents, this game has 3"):
        Meadow(RandomModel, MeadowRules(agents=3)).load_state(*state)


def test_a_state_of_another_number_of_copies_is_refused():
    with pytest.raises(WorldError, match="copies"):
        Meadow(RandomModel, copies=4).load_state(*Meadow(RandomModel, copies=1).state())


def epochs_of(game, models, epochs=2):
    """Maps after each epoch, and what the agents saw, did and got."""
    maps = []
    for _ in range(epochs):
        game.run_epoch()
        maps.append(game.world.map.copy())
    diaries = [[model.memory.column(part) for part in range(5)] for model in models]
    return maps, diaries


@pytest.mark.parametrize("observe", ["in_turn", "together"])
def test_a_copy_alone_lives_through_the_same_as_among_eight(observe):
    actions = np.random.default_rng(1).integers(0, 5, (2, 24, 8))
    models = [Doing(its) for its in actions]
    together = Meadow(handing_out(*models), copies=8, seed=3, observe=observe)
    all_maps, all_diaries = epochs_of(together, models)
    for copy in range(8):
        models = [Doing(its[:, copy : copy + 1]) for its in actions]
        alone = Meadow(handing_out(*models), seed=3, first_copy=copy, observe=observe)
        maps, diaries = epochs_of(alone, models)
        for one, whole in zip(maps, all_maps, strict=True):
            assert np.array_equal(one[0], whole[copy])
        for diary, whole_diary in zip(diaries, all_diaries, strict=True):
            for part, whole in zip(diary, whole_diary, strict=True):
                assert np.array_equal(part[:, 0], whole[:, copy])


def test_one_copy_and_64_copies_bring_the_same_rewards_on_average():
    rules = MeadowRules(coin_chance=0.03, max_turns=15)
    totals = {}
    for copies, epochs in ((1, 512), (64, 8)):
        game = Meadow(RandomModel, rules, copies=copies, seed=11 + copies)
        found = []
        for _ in range(epochs):
            game.run_epoch(train_steps=0)
            found.append(game.world.total_reward.copy())
        totals[copies] = np.concatenate(found)
    one, many = totals[1], totals[64]
    assert len(one) == len(many) == 512
    error = (one.var() / len(one) + many.var() / len(many)) ** 0.5
    assert abs(one.mean() - many.mean()) < 4 * error
    assert 0.8 < one.std() / many.std() < 1.25
    quantiles = np.linspace(0.1, 0.9, 9)
    assert abs(np.quantile(one, quantiles) - np.quantile(many, quantiles)).max() <= one.std() / 2
