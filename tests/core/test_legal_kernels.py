"""What the kernels say of legal moves on a CPU equals what tensors say on any device."""

import numpy as np
import pytest
import torch

from keisei.core.legal_policy import (
    choose_moves,
    entropy,
    legal_policy,
    log_prob_of,
    played_moves,
    sample,
)
from tests.core.small import played_games
from tests.core.test_legal_policy import tensors_of

pytestmark = pytest.mark.uncompiled


@pytest.fixture(scope="module")
def games():
    return played_games(plies=40)


@pytest.fixture
def logits(games):
    generator = torch.Generator().manual_seed(2)
    return (4 * torch.randn(games.num_games, 2187, generator=generator)).double()


def actions_of(games):
    middle = games.legal_counts // 2
    return torch.from_numpy(games.legal[np.arange(games.num_games), middle].astype(np.int64))


def by_tensors(logits, games):
    policy = legal_policy(logits, *tensors_of(games))
    return log_prob_of(policy, logits, actions_of(games)), entropy(policy)


def test_probabilities_and_entropies_are_the_same(games, logits):
    played = played_moves(logits, *tensors_of(games), actions_of(games))
    for ours, theirs in zip(played, by_tensors(logits, games), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("part", [0, 1], ids=["log-probability", "entropy"])
def test_gradients_are_the_same(games, logits, part):
    weights = torch.linspace(-1, 2, games.num_games, dtype=torch.float64)
    gradients = []
    for compute in (
        lambda x: played_moves(x, *tensors_of(games), actions_of(games)),
        lambda x: by_tensors(x, games),
    ):
        leaf = logits.clone().requires_grad_()
        (compute(leaf)[part] * weights).sum().backward()
        gradients.append(leaf.grad)
    torch.testing.assert_close(*gradients, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_the_same_fractions_choose_the_same_moves(games, logits, temperature):
    legal, counts = tensors_of(games)
    generator = torch.Generator().manual_seed(3)
    for _ in range(5):
        fractions = torch.rand(games.num_games, generator=generator, dtype=torch.float64)
        actions, log_probs = choose_moves(logits, legal, counts, fractions, temperature=temperature)
        policy = legal_policy(logits, legal, counts)
        index = sample(policy._replace(log_probs=policy.log_probs / temperature), fractions)
        rows = torch.arange(games.num_games)
        assert torch.equal(actions, legal[rows, index].long())
        torch.testing.assert_close(log_probs, policy.log_probs[rows, index], rtol=1e-9, atol=1e-9)


def test_without_fractions_the_most_probable_move_is_chosen(games, logits):
    legal, counts = tensors_of(games)
    actions, _ = choose_moves(logits, legal, counts, None, temperature=1.0)
    best = legal_policy(logits, legal, counts).log_probs.argmax(dim=1)
    assert torch.equal(actions, legal[torch.arange(games.num_games), best].long())


@pytest.mark.parametrize("fraction", [0.0, 1 - 2**-53])
def test_the_ends_of_the_range_choose_a_legal_move(games, logits, fraction):
    legal, counts = tensors_of(games)
    fractions = torch.full((games.num_games,), fraction, dtype=torch.float64)
    actions, log_probs = choose_moves(logits, legal, counts, fractions, temperature=1.0)
    for row, action in enumerate(actions.tolist()):
        assert action in games.legal[row, : games.legal_counts[row]]
    assert torch.isfinite(log_probs).all()
