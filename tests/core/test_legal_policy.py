"""The policy over legal moves against a plain softmax, its sampling and its gradients."""

import math

import numpy as np
import pytest
import torch

from keisei.core.legal_policy import entropy, legal_policy, log_prob_of, sample
from keisei.shogi.policy_output_mapper import PolicyOutputMapper
from tests.core.reference import softmax_over_legal
from tests.core.small import played_games

JUST_BELOW_1 = 1 - 2**-53


def tensors_of(games):
    """(legal [B, L], counts [B]) of games, as the learner has them."""
    width = int(games.legal_counts.max())
    legal = torch.from_numpy(games.legal[:, :width].astype(np.int16))
    return legal, torch.from_numpy(games.legal_counts.copy())


@pytest.fixture(scope="module")
def games():
    return played_games(plies=60)


@pytest.fixture
def logits(games):
    generator = torch.Generator().manual_seed(1)
    return 3 * torch.randn(games.num_games, 2187, generator=generator)


def lists_of(games):
    return [row[:count] for row, count in zip(games.legal, games.legal_counts, strict=True)]


def test_probabilities_are_the_softmax_over_the_legal_moves(games, logits):
    policy = legal_policy(logits, *tensors_of(games))
    for row, legal in enumerate(lists_of(games)):
        probabilities = policy.log_probs[row].exp().numpy()
        expected = softmax_over_legal(logits[row].numpy(), legal)
        np.testing.assert_allclose(probabilities[: len(legal)], expected, rtol=1e-4, atol=1e-7)
        assert probabilities[: len(legal)].sum() == pytest.approx(1, abs=1e-5)
        assert not probabilities[len(legal) :].any()


def test_outputs_without_a_legal_move_change_nothing(games, logits):
    before = legal_policy(logits, *tensors_of(games))
    changed = logits.clone()
    for row, legal in enumerate(lists_of(games)):
        illegal = np.ones(2187, bool)
        illegal[PolicyOutputMapper.plane_indices[legal]] = False
        changed[row, torch.from_numpy(illegal)] = 1000.0
    after = legal_policy(changed, *tensors_of(games))
    assert torch.equal(after.log_probs, before.log_probs)


def test_what_stands_behind_the_last_legal_move_changes_nothing(games, logits):
    legal, counts = tensors_of(games)
    before = legal_policy(logits, legal, counts)
    for row, count in enumerate(counts.tolist()):
        legal[row, count:] = legal[row, 0]
    after = legal_policy(logits, legal, counts)
    assert torch.equal(after.log_probs, before.log_probs)
    assert torch.equal(entropy(after), entropy(before))


def test_the_log_probability_of_an_action_is_that_of_its_place_in_the_list(games, logits):
    legal, counts = tensors_of(games)
    policy = legal_policy(logits, legal, counts)
    for place in (0, 5):
        answer = log_prob_of(policy, logits, legal[:, place].long())
        assert torch.equal(answer, policy.log_probs[:, place])


def test_huge_logits_overflow_nowhere(games, logits):
    policy = legal_policy(1e4 * logits, *tensors_of(games))
    assert policy.log_probs.exp().sum(dim=1) == pytest.approx(1)
    assert torch.isfinite(entropy(policy)).all()


def test_the_entropy_is_that_of_the_probabilities(games, logits):
    policy = legal_policy(logits, *tensors_of(games))
    for row, legal in enumerate(lists_of(games)):
        p = softmax_over_legal(logits[row].numpy(), legal)
        assert float(entropy(policy)[row]) == pytest.approx(-(p * np.log(p)).sum(), abs=1e-4)


def test_equal_logits_have_the_entropy_log_n_and_a_single_move_has_none(games):
    legal, counts = tensors_of(games)
    logits = torch.full((len(counts), 2187), 2.5)
    expected = [math.log(count) for count in counts.tolist()]
    assert entropy(legal_policy(logits, legal, counts)).tolist() == pytest.approx(
        expected, abs=1e-5
    )
    alone = legal_policy(logits, legal, torch.ones_like(counts))
    assert entropy(alone).tolist() == [0.0] * len(counts)
    assert alone.log_probs[:, 0].tolist() == [0.0] * len(counts)


def repeated(policy, row, times):
    return type(policy)(*(part[row : row + 1].expand(times, *part.shape[1:]) for part in policy))


def test_sampling_picks_each_move_as_often_as_its_probability_says(games, logits):
    policy, times = legal_policy(logits, *tensors_of(games)), 20_000
    even = (torch.arange(times, dtype=torch.float64) + 0.5) / times
    for row in (0, 7):
        picked = sample(repeated(policy, row, times), even)
        shares = torch.bincount(picked, minlength=policy.log_probs.shape[1]) / times
        # Evenly spaced numbers hit an interval as often as its length, give or take one.
        assert torch.allclose(shares, policy.log_probs[row].exp(), atol=1.5 / times)


def test_random_fractions_give_the_frequencies_too(games, logits):
    policy, times = legal_policy(logits, *tensors_of(games)), 20_000
    fractions = torch.from_numpy(np.random.default_rng(2).random(times))
    picked = sample(repeated(policy, 3, times), fractions)
    shares = torch.bincount(picked, minlength=policy.log_probs.shape[1]) / times
    p = policy.log_probs[3].exp()
    assert ((shares - p).abs() <= 5 * (p * (1 - p) / times).sqrt() + 1e-9).all()


@pytest.mark.parametrize("fraction", [0.0, 1e-300, 0.5, JUST_BELOW_1])
@pytest.mark.parametrize("scale", [0.0, 1.0, 1e4])
def test_only_legal_moves_are_ever_picked(games, logits, fraction, scale):
    legal, counts = tensors_of(games)
    policy = legal_policy(scale * logits, legal, counts)
    fractions = torch.full((len(counts),), fraction, dtype=torch.float64)
    picked = sample(policy, fractions)
    assert (picked < counts).all()
    assert (policy.log_probs.gather(1, picked.unsqueeze(1)).double().exp() > 0).all()


def test_the_smallest_fraction_picks_the_first_move_and_the_largest_the_last(games):
    legal, counts = tensors_of(games)
    policy = legal_policy(torch.zeros(len(counts), 2187), legal, counts)
    zeros = torch.zeros(len(counts), dtype=torch.float64)
    assert (sample(policy, zeros) == 0).all()
    assert (sample(policy, zeros + JUST_BELOW_1) == counts - 1).all()


def test_what_is_picked_does_not_depend_on_the_rest_of_the_batch(games, logits):
    legal, counts = tensors_of(games)
    fractions = torch.from_numpy(np.random.default_rng(4).random(len(counts)))
    together = sample(legal_policy(logits, legal, counts), fractions)
    for row, count in enumerate(counts.tolist()):
        one = slice(row, row + 1)
        alone = legal_policy(logits[one], legal[one, :count], counts[one])
        assert int(sample(alone, fractions[one])) == int(together[row])


def test_gradients_equal_finite_differences():
    games = played_games(count=3, plies=4)
    legal, counts = tensors_of(games)
    counts[0] = 1  # a single legal move: no gradient, and no nan
    actions = legal[:, 0].long()
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(3, 2187, generator=generator, dtype=torch.float64)
    table = torch.from_numpy(PolicyOutputMapper.plane_indices.astype(np.int64))
    planes = table[legal.long()].unique()  # those that are legal in any of the positions

    def outputs(chosen):
        full = logits.index_copy(1, planes, chosen)
        policy = legal_policy(full, legal, counts)
        return log_prob_of(policy, full, actions), entropy(policy)

    chosen = logits[:, planes].clone().requires_grad_()
    assert torch.autograd.gradcheck(outputs, (chosen,))


def test_no_gradient_reaches_what_is_not_legal(games, logits):
    legal, counts = tensors_of(games)
    logits = logits.requires_grad_()
    policy = legal_policy(logits, legal, counts)
    loss = log_prob_of(policy, logits, legal[:, 0].long()).sum() + entropy(policy).sum()
    loss.backward()
    assert torch.isfinite(logits.grad).all()
    for row, moves in enumerate(lists_of(games)):
        planes = PolicyOutputMapper.plane_indices[moves]
        assert set(logits.grad[row].nonzero().flatten().tolist()) <= set(planes.tolist())
        assert logits.grad[row].abs().max() > 1e-3
