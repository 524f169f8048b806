"""The policy over packed masks: the same as over lists of legal moves."""

import numpy as np
import pytest
import torch

from keisei.core.legal_policy import played_moves
from keisei.core.masked_policy import (
    PLANE_WORDS,
    between_0_and_1,
    choose_planes,
    gumbel_noise,
    legal_planes,
    masked_log_probs,
    measure_planes,
)
from keisei.core.packed_masks import MASK_BYTES, OUTPUTS, actions_of_planes, pack_masks
from keisei.shogi.policy_output_mapper import PolicyOutputMapper
from tests.core.small import one_thread, played_games


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with one_thread():
        yield


@pytest.fixture(scope="module")
def games():
    return played_games(64, 60)


@pytest.fixture(scope="module")
def masks(games):
    masks = np.full((games.num_games, MASK_BYTES), 255, np.uint8)  # what was there does not count
    pack_masks(games.legal, games.legal_counts, masks)
    return torch.from_numpy(masks)


@pytest.fixture(scope="module")
def logits(games):
    return torch.randn(games.num_games, OUTPUTS, generator=torch.Generator().manual_seed(1)) * 3


def planes_of(games, row):
    return PolicyOutputMapper.plane_indices[games.legal[row, : games.legal_counts[row]]]


@pytest.mark.uncompiled
def test_a_mask_has_exactly_the_planes_of_the_legal_moves(games, masks):
    for row, legal in enumerate(legal_planes(masks).numpy()):
        assert np.array_equal(np.flatnonzero(legal), np.sort(planes_of(games, row)))


@pytest.mark.uncompiled
def test_a_plane_and_the_position_say_the_move(games):
    for index in (0, -1):
        wanted = np.array(
            [games.legal[row, :count][index] for row, count in enumerate(games.legal_counts)]
        )
        planes, actions = PolicyOutputMapper.plane_indices[wanted], np.zeros(64, np.int64)
        actions_of_planes(games.legal, games.legal_counts, planes, actions)
        assert np.array_equal(actions, wanted)


def test_a_plane_that_no_legal_move_has_gives_no_action(games, masks):
    illegal = legal_planes(masks).int().argmin(dim=1)
    actions = np.zeros(64, np.int64)
    actions_of_planes(games.legal, games.legal_counts, illegal.numpy(), actions)
    assert (actions == -1).all()


def test_what_was_played_is_measured_as_over_lists_of_moves_and_so_are_gradients(
    games, masks, logits
):
    actions = torch.from_numpy(games.legal[:, 0].astype(np.int64))
    planes = torch.from_numpy(PolicyOutputMapper.plane_indices[actions.numpy()].astype(np.int64))
    answers = []
    for measure in (
        lambda free: played_moves(
            free,
            torch.from_numpy(games.legal.view(np.int16)),
            torch.from_numpy(games.legal_counts),
            actions,
        ),
        lambda free: measure_planes(free, masks, planes),
    ):
        free = logits.clone().requires_grad_()
        played = measure(free)
        (played.log_probs.sum() + 0.3 * played.entropies.sum()).backward()
        answers.append([played.log_probs.detach(), played.entropies.detach(), free.grad])
    for lists, masked in zip(*answers, strict=True):
        assert torch.allclose(lists, masked, atol=1e-5)


def test_moves_are_drawn_as_often_as_the_policy_says(masks, logits):
    draws = 40_000
    one = logits[:1].expand(draws, -1)
    words = torch.randint(2**32, (draws,), generator=torch.Generator().manual_seed(5))
    planes, log_probs = choose_planes(
        one, masks[:1].expand(draws, -1), gumbel_noise(words, PLANE_WORDS)
    )
    shares = torch.bincount(planes, minlength=OUTPUTS) / draws
    expected = masked_log_probs(logits[:1], masks[:1]).exp()[0]
    assert (shares - expected).abs().max() < 4 * (0.25 / draws) ** 0.5
    assert torch.allclose(log_probs.exp(), expected[planes])


def test_consecutive_words_draw_independent_moves(masks):
    """A stream's words may be alike in most bits; the planes they draw must not be."""
    words = torch.arange(20_000)
    flat = torch.zeros(1, OUTPUTS).expand(20_000, -1)
    planes, _ = choose_planes(flat, masks[:1].expand(20_000, -1), gumbel_noise(words, PLANE_WORDS))
    counts = torch.bincount(planes)[legal_planes(masks[:1])[0].nonzero().squeeze(1)].double()
    mean = counts.mean()
    chi_square = float(((counts - mean) ** 2 / mean).sum())
    assert chi_square < len(counts) + 5 * (2 * len(counts)) ** 0.5


def test_only_legal_planes_are_drawn_even_when_others_look_best(masks, logits):
    pushed = torch.where(legal_planes(masks), logits, 1e4)
    for noise in (None, gumbel_noise(torch.arange(64), PLANE_WORDS)):
        planes, _ = choose_planes(pushed, masks, noise, 5.0)
        assert legal_planes(masks).gather(1, planes.unsqueeze(1)).all()


def test_without_words_the_most_probable_plane_is_taken(masks, logits):
    planes, log_probs = choose_planes(logits, masks, None)
    best = masked_log_probs(logits, masks).max(dim=1)
    assert torch.equal(planes, best.indices)
    assert torch.equal(log_probs, best.values)


def test_a_low_temperature_draws_the_best_and_tells_the_probability_at_one(masks, logits):
    noise = gumbel_noise(torch.arange(64), PLANE_WORDS)
    planes, log_probs = choose_planes(logits, masks, noise, 1e-4)
    assert torch.equal(planes, masked_log_probs(logits, masks).argmax(dim=1))
    assert torch.equal(log_probs, masked_log_probs(logits, masks).max(dim=1).values)


def test_no_word_gives_infinite_noise():
    lowest, highest = between_0_and_1(torch.tensor([0, 2**32 - 1])).tolist()
    assert 0 < lowest < 1e-7
    assert 1 - 1e-6 < highest < 1
