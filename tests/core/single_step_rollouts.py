"""What an agent thinks of games, and rollouts of one step a game that it learns from."""

import numpy as np
import torch

from keisei.core.experience_buffer import ExperienceBuffer
from tests.core.reference import softmax_over_legal
from tests.core.small import bits, played_games


def choose(agent, games, fractions):
    return agent.select_actions(games.positions, games.legal, games.legal_counts, fractions)


def logits_of(agent, games):
    with torch.no_grad():
        return agent.model(torch.from_numpy(games.positions))[0].numpy()


def probabilities_of(agent, games, actions):
    """[B] how likely the agent plays an action of each game, by the plain softmax."""
    logits = logits_of(agent, games)
    answer = []
    for row, action in enumerate(actions):
        legal = games.legal[row, : games.legal_counts[row]]
        answer.append(softmax_over_legal(logits[row], legal)[legal.tolist().index(int(action))])
    return np.array(answer)


def single_steps(agent, games, actions=None, **arrays):
    """A buffer of one step of each game, played by the agent or as given."""
    choice = choose(agent, games, games.random_fractions())
    actions = choice.actions if actions is None else actions
    count = games.num_games
    buffer = ExperienceBuffer(1, count)
    step = {
        "positions": games.positions,
        "legal": games.legal,
        "legal_counts": games.legal_counts,
        "actions": actions,
        "log_probs": np.log(probabilities_of(agent, games, actions)),
        "values": choice.values,
        "rewards": np.zeros(count),
        "ends": np.ones(count, np.bool_),
        "truncations": np.zeros(count, np.bool_),
        "cut_values": np.zeros(count),
        "trains": np.ones(count, np.bool_),
        "versions": agent.version,
    }
    buffer.add_batch(**{**step, **arrays})
    return buffer


def rollout(agent, games=16, seed=3):
    """A buffer of single steps with random advantages and returns."""
    buffer = single_steps(agent, played_games(games, seed=seed))
    random = np.random.default_rng(seed)
    buffer.advantages[0] = random.normal(size=games)
    buffer.returns[0] = random.uniform(-1, 1, games)
    return buffer


def weights(agent):
    return bits(agent.model.state_dict())


def everything(agent):
    tensors, state = agent.state()
    return bits(tensors), state
