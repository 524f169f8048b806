"""The network: what it says of a position, and that nothing else in the batch matters."""

import numpy as np
import pytest
import torch

from keisei.config_schema import ModelConfig, PPOConfig
from keisei.core.ppo_agent import PPOAgent
from keisei.core.res_tower import model_factory
from keisei.shogi.features import feature_set
from tests.core.reference import softmax_over_legal
from tests.core.small import SMALL_MODEL, played_games

VARIANTS = [
    ModelConfig(depth=0, width=8),
    ModelConfig(depth=2, width=8, value_width=8),
    ModelConfig(depth=2, width=8, squeeze_excitation=True),
    ModelConfig(depth=1, width=12, features="attack"),
]


@pytest.fixture(scope="module")
def positions():
    return torch.from_numpy(played_games(count=64, plies=50).positions.copy())


def seasoned(config, seed=0):
    """A network whose every weight is random, as after training: also those that start at 0."""
    torch.manual_seed(seed)
    model = model_factory(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if not parameter.any():
                parameter.normal_(0, 0.1)
    return model


@pytest.mark.parametrize("config", VARIANTS, ids=str)
@torch.no_grad()
def test_every_variant_gives_logits_and_a_value_within_1(config, positions):
    model = seasoned(config)
    logits, values = model(positions)
    assert logits.shape == (64, 27 * 81)
    assert values.shape == (64,)
    assert logits.dtype == values.dtype == torch.float32
    assert values.unique().numel() > 32
    assert logits.std(dim=0).max() > 0
    model.value.weight.mul_(1000)
    assert 0.9 < model(positions)[1].abs().max() <= 1


@pytest.mark.parametrize("config", VARIANTS, ids=str)
@torch.no_grad()
def test_a_position_is_judged_alone_as_among_others(config, positions):
    model = seasoned(config)
    logits, values = model(positions)
    for row in (0, 17, 63):
        alone_logits, alone_value = model(positions[row : row + 1])
        assert torch.allclose(alone_logits[0], logits[row], atol=1e-5)
        assert torch.allclose(alone_value[0], values[row], atol=1e-5)


@torch.no_grad()
def test_training_mode_changes_nothing(positions):
    model = seasoned(VARIANTS[2])
    learning = model.train()(positions)
    playing = model.eval()(positions)
    assert all(torch.equal(one, other) for one, other in zip(learning, playing, strict=True))


@pytest.mark.parametrize("config", VARIANTS, ids=str)
@torch.no_grad()
def test_the_first_policy_is_uniform_and_the_first_value_a_draw(config, positions):
    games = played_games(count=64, plies=50)
    logits, values = model_factory(config)(positions)
    assert not values.any()
    for row, count in enumerate(games.legal_counts):
        probabilities = softmax_over_legal(logits[row].numpy(), games.legal[row, :count])
        assert np.allclose(probabilities, 1 / count)


@pytest.mark.parametrize("squeeze_excitation", [False, True])
@torch.no_grad()
def test_a_new_block_changes_nothing(squeeze_excitation):
    config = ModelConfig(depth=1, width=8, squeeze_excitation=squeeze_excitation)
    block = model_factory(config).blocks[0]
    before = torch.rand(4, 8, 9, 9)  # behind a ReLU nothing is negative
    assert torch.equal(block(before), before)


def test_every_parameter_learns(positions):
    model = seasoned(VARIANTS[2])
    logits, values = model(positions)
    (logits.square().mean() + values.square().mean()).backward()
    assert all(parameter.grad.any() for parameter in model.parameters())


def test_the_network_sees_what_its_features_show():
    for config in VARIANTS:
        assert model_factory(config).stem.in_channels == feature_set(config.features).num_planes


def test_depth_and_width_are_those_of_the_config():
    model = model_factory(ModelConfig(depth=3, width=20, value_width=7))
    assert len(model.blocks) == 3
    assert model.blocks[0].first.weight.shape == (20, 20, 3, 3)
    assert model.value.in_features == 7
    without = sum(p.numel() for p in model_factory(VARIANTS[1]).parameters())
    with_squeeze = sum(p.numel() for p in model_factory(VARIANTS[2]).parameters())
    assert with_squeeze > without


def test_the_first_weights_follow_the_seed():
    def first(seed):
        return PPOAgent(SMALL_MODEL, PPOConfig(), seed=seed).model.stem.weight

    assert torch.equal(first(1), first(1))
    assert not torch.equal(first(1), first(2))


def test_an_agent_leaves_the_random_numbers_of_its_caller_alone():
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    PPOAgent(SMALL_MODEL, PPOConfig(), seed=1)
    assert torch.equal(torch.rand(3), expected)


@torch.no_grad()
def test_compiling_keeps_the_names_of_the_weights(positions):
    agent = PPOAgent(SMALL_MODEL, PPOConfig(), compile=True)
    names = list(agent.model.state_dict())
    assert names == list(model_factory(SMALL_MODEL).state_dict())
    assert not any("_orig_mod" in name for name in names)
    # On a GPU the compiled wrapper plays: its names differ, its weights are these same ones.
    wrapper = torch.compile(agent.model)
    assert all("_orig_mod" in name for name in wrapper.state_dict())
    agent.model.value.bias.fill_(0.5)
    assert float(wrapper.state_dict()["_orig_mod.value.bias"]) == 0.5
    assert list(agent.model.state_dict()) == names


@torch.no_grad()
def test_bfloat16_stays_close_to_float32(positions):
    model = seasoned(VARIANTS[1])
    logits, values = model(positions)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough_logits, rough_values = model(positions)
    assert rough_logits.dtype == rough_values.dtype == torch.float32
    assert not torch.equal(rough_logits, logits)
    assert torch.allclose(rough_logits, logits, atol=0.05 * float(logits.abs().max()))
    assert torch.allclose(rough_values, values, atol=0.05)
