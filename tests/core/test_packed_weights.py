"""Weights as the kernels of a small network read them, and gradients on their way back."""

import numpy as np
import pytest
import torch

from keisei.core.packed_weights import PackedWeights, summed
from keisei.core.res_tower import model_factory
from tests.core.small import FUSED_MODEL


@pytest.fixture
def model():
    torch.manual_seed(6)
    model = model_factory(FUSED_MODEL.model_copy(update={"depth": 2}))
    with torch.no_grad():
        for parameter in model.parameters():  # none stays at zero, as some begin
            parameter.copy_(torch.randn_like(parameter))
    return model


@pytest.fixture
def packed(model):
    packed = PackedWeights(model)
    packed.read()
    return packed


def convolutions(model):
    return [layer for block in model.blocks for layer in (block.first, block.second)]


def array(parameter):
    return parameter.detach().numpy()


def unpacked(pairs):
    """[O / 16, K, I / 2, 16, 2] bits of bfloat16 as [O, K, I] float32."""
    numbers = torch.from_numpy(pairs).view(torch.bfloat16).float()
    groups, taps, halves, lanes, _ = pairs.shape
    return numbers.permute(0, 3, 1, 2, 4).reshape(groups * lanes, taps, 2 * halves)


def test_convolutions_are_packed_for_both_ways_rounded_to_bfloat16(model, packed):
    for number, layer in enumerate(convolutions(model)):
        forth, back = packed.weights.tower[number], packed.weights.tower_back[number]
        rounded = layer.weight.detach().bfloat16().float().flatten(2)  # [O, I, 9]
        assert torch.equal(unpacked(forth), rounded.permute(0, 2, 1))
        assert torch.equal(unpacked(back), rounded.flip(2).permute(1, 2, 0))
        assert np.array_equal(packed.weights.tower_biases[number], array(layer.bias))


def test_the_heads_are_one_layer_with_a_channel_to_spare(model, packed):
    heads = torch.cat([model.policy.weight, model.value_squares.weight]).detach().flatten(1)
    rounded = torch.cat([heads, torch.zeros(1, 16)]).bfloat16().float()
    assert torch.equal(unpacked(packed.weights.heads)[:, 0], rounded)
    assert torch.equal(unpacked(packed.weights.heads_back)[:, 0], rounded.t())
    biases = torch.cat([model.policy.bias, model.value_squares.bias, torch.zeros(1)])
    assert np.array_equal(packed.weights.heads_bias, array(biases))


def test_layers_of_the_value_and_the_stem_stay_in_float32(model, packed):
    weights = packed.weights
    assert np.array_equal(weights.hidden, array(model.value_hidden.weight).T)
    assert np.array_equal(weights.hidden_back, array(model.value_hidden.weight))
    assert np.array_equal(weights.hidden_bias, array(model.value_hidden.bias))
    assert np.array_equal(weights.last, array(model.value.weight)[0])
    assert np.array_equal(weights.last_bias, array(model.value.bias))
    features = model.features
    planes = np.concatenate([features.square_planes, features.even_planes])
    by_plane = array(model.stem.weight).transpose(1, 2, 3, 0)[planes]  # [C, 3, 3, 16]
    assert np.array_equal(weights.stem, by_plane[:, :, ::-1].reshape(len(planes), -1))
    assert np.array_equal(weights.stem_bias, array(model.stem.bias))


def test_weights_that_have_changed_are_read(model, packed):
    before = [array.copy() for array in packed.weights]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(-1)
    packed.read()
    for old, new in zip(before, packed.weights, strict=True):
        assert not np.array_equal(old, new)


@pytest.mark.parametrize("there", [False, True], ids=["new", "in place"])
def test_gradients_go_to_the_weights_they_are_of(there, model, packed):
    """The weights themselves, given as gradients, come back as what they are."""
    if there:
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, 7)
    old = [parameter.grad for parameter in model.parameters()]
    weights, gradients = packed.weights, packed.gradients()
    assert not any(sums.any() for sums in gradients)
    gradients.stem[:], gradients.stem_bias[:] = weights.stem, weights.stem_bias
    for number, layer in enumerate(convolutions(model)):
        gradients.tower[number] = array(layer.weight).transpose(2, 3, 1, 0)
        gradients.tower_biases[number] = array(layer.bias)
    heads = torch.cat([model.policy.weight, model.value_squares.weight])
    gradients.heads[:, :31] = array(heads)[:, :, 0, 0].T
    gradients.heads_bias[:] = weights.heads_bias
    gradients.hidden[:], gradients.hidden_bias[:] = weights.hidden_back, weights.hidden_bias
    gradients.last[:], gradients.last_bias[:] = weights.last, weights.last_bias
    packed.give_back(gradients)
    for (name, parameter), gradient in zip(model.named_parameters(), old, strict=True):
        assert torch.equal(parameter.grad, parameter.detach()), name
        assert not there or parameter.grad is gradient, name


def test_gradients_of_several_threads_are_added_up(packed):
    parts = [packed.gradients() for _ in range(3)]
    for number, part in enumerate(parts):
        for sums in part:
            sums[:] = 10**number
    assert all((sums == 111).all() for sums in summed(parts))
    alone = packed.gradients()
    assert summed([alone]) is alone
