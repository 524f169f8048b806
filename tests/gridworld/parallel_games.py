"""Runs of games in parallel that several tests look at, and states as checkpoints have them."""

import json

from tests.core.small import bits
from tests.gridworld.learning_doubles import LEARNERS, Rooms, parallel_game, rewards_of, rooms
from tests.gridworld.small_worlds import MeadowRules, handing_out

TURNS, COPIES = 12, 3
RULES = MeadowRules(agents=3, coin_chance=0.1, max_turns=TURNS)
BESIDE = {"async_learning": True, "deterministic": True, "num_workers": 2}
MODES = {
    "one by one": {"parallel_training": False},
    "stacked": {"parallel_training": True},
    "one by one beside": {"parallel_training": False, **BESIDE},
    "stacked beside": {"parallel_training": True, **BESIDE},
}


def run_of(game, epochs, **others):
    """What was got, what was done, and the game, of a run to its end."""
    with game:
        rewards = rewards_of(game.run_experiment_parallel(epochs, **others))
    return rewards, game.done, game


def in_sequence(kind, game, rules=RULES):
    return game(LEARNERS[kind], rules, copies=COPIES, seed=4, observe="together")


def pupils_game(*pupils, **settings):
    return parallel_game(handing_out(*pupils), agents=len(pupils), copies=2, **settings)


def rooms_game(kind, **settings):
    return parallel_game(LEARNERS[kind], game=Rooms, agents=4, rules=rooms(4), **settings)


def saved(game):
    """A state as a checkpoint has it: copies of the arrays, and values that were JSON."""
    arrays, values = game.state()
    return {name: array.copy() for name, array in arrays.items()}, json.loads(json.dumps(values))


def state_bits(game):
    arrays, values = saved(game)
    return bits(arrays), values
