"""The first layer on sets of bits against a convolution of dense planes."""

import pytest
import torch
from torch import nn

from keisei.core.sparse_stem import is_sparse_stem_for, sparse_stem
from keisei.shogi.features import FEATURE_SETS
from tests.core.small import played_games

ALL = pytest.mark.parametrize("features", FEATURE_SETS.values(), ids=FEATURE_SETS)
# A sum of some hundred rounded weights is rounded once here, in parts by a convolution.
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 4e-2}


@pytest.fixture(scope="module")
def positions():
    return torch.from_numpy(played_games(count=150, plies=90).positions.copy())


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def convolution(features, width=7, dtype=torch.float32):
    torch.manual_seed(1)
    return nn.Conv2d(features.num_planes, width, 3, padding=1).to(dtype)


def dense_stem(features, positions, stem):
    return torch.relu(stem(features.expand(positions, dtype=stem.weight.dtype)))


def same(one, other, tolerance):
    return torch.allclose(
        one.float(), other.float(), atol=tolerance * float(other.detach().abs().max())
    )


def gradients(answers, stem):
    """For a loss that has another slope at every number."""
    torch.manual_seed(2)
    return torch.autograd.grad(answers, list(stem.parameters()), torch.randn_like(answers))


@ALL
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("channels_last", [True, False])
def test_answers_and_gradients_are_those_of_the_convolution(
    features, dtype, channels_last, positions
):
    stem = convolution(features, dtype=dtype)
    if channels_last:
        stem = stem.to(memory_format=torch.channels_last)
    sparse = sparse_stem(features, positions, stem, dtype)
    dense = dense_stem(features, positions, stem)
    assert sparse.dtype == dtype
    assert sparse.is_contiguous(memory_format=torch.channels_last)
    assert same(sparse, dense, TOLERANCE[dtype])
    assert 0.2 < float((dense > 0).float().mean()) < 0.8
    for one, other in zip(gradients(sparse, stem), gradients(dense, stem), strict=True):
        assert one.shape == other.shape
        assert same(one, other, TOLERANCE[dtype])


@pytest.mark.uncompiled
@ALL
@pytest.mark.parametrize("count", [0, 1])
def test_few_positions_are_no_special_case(features, count):
    stem = convolution(features)
    positions = torch.from_numpy(played_games(count=1, plies=90).positions[:count].copy())
    sparse = sparse_stem(features, positions, stem, torch.float32)
    dense = dense_stem(features, positions, stem)
    assert sparse.shape == dense.shape
    for one, other in zip(gradients(sparse, stem), gradients(dense, stem), strict=True):
        assert torch.allclose(one, other, atol=1e-4)


@ALL
def test_a_position_has_the_same_bits_alone_and_among_others(features, positions):
    stem = convolution(features)
    together = sparse_stem(features, positions, stem, torch.float32)
    for row in (0, 77, 149):
        alone = sparse_stem(features, positions[row : row + 1], stem, torch.float32)
        assert torch.equal(alone[0], together[row])


@ALL
def test_threads_share_the_rows(features, positions, threads):
    stem = convolution(features)
    found = []
    for count in (1, 3):
        threads(count)
        answers = sparse_stem(features, positions, stem, torch.float32)
        found.append((answers, *gradients(answers, stem)))
    assert torch.equal(found[0][0], found[1][0])
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-4)


@ALL
def test_weights_are_rounded_to_the_arithmetic(features, positions):
    """As under `torch.autocast`: a network and its copy in bfloat16 have the same bits."""
    stem = convolution(features)
    sparse = sparse_stem(features, positions, stem, torch.bfloat16)
    cast = convolution(features).to(torch.bfloat16)
    assert torch.equal(sparse, sparse_stem(features, positions, cast, torch.bfloat16))
    weight, _ = gradients(sparse, stem)
    assert weight.dtype == torch.float32


@ALL
def test_what_is_no_number_is_not_hidden(features, positions):
    stem = convolution(features)
    with torch.no_grad():
        stem.weight[3, 0, 1, 1] = torch.nan  # own pawns
    answers = sparse_stem(features, positions, stem, torch.float32)
    assert answers[:, 3].isnan().any()
    assert not answers[:, :3].isnan().any()


def test_it_is_for_memory_and_two_types(positions):
    assert is_sparse_stem_for(positions, torch.float32)
    assert is_sparse_stem_for(positions, torch.bfloat16)
    assert not is_sparse_stem_for(positions, torch.float16)
    assert not is_sparse_stem_for(positions.to("meta"), torch.float32)
