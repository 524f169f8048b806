"""A small network by kernels of our own against the same network by torch, in float32."""

import numpy as np
import pytest
import torch

from keisei.config_schema import ModelConfig, PPOConfig
from keisei.core.fused_network import FusedNetwork, half_network
from keisei.core.half_copy import HalfCopy
from keisei.core.legal_policy import played_moves
from keisei.core.minibatch import Minibatch
from keisei.core.ppo_loss import LOSSES, ppo_losses
from keisei.core.res_tower import model_factory
from keisei.shogi.features import FEATURE_SETS
from tests.core.small import needs_pair_products, one_thread, played_games

# Of what is computed, as lengths of vectors: bfloat16 has eight binary digits, and a dozen layers
# round. The gradient of a policy is a small difference of what its moves say.
OF_ANSWERS, OF_GRADIENTS = 2e-2, 0.15


@pytest.fixture(autouse=True, scope="module")
def thread():
    with one_thread():
        yield


@pytest.fixture(scope="module")
def games():
    return played_games(count=67, plies=70)


@pytest.fixture(scope="module")
def positions(games):
    return torch.from_numpy(games.positions.copy())


@pytest.fixture(scope="module")
def moves(games):
    """[B, L] legal moves, [B] how many, [B] one of them each."""
    width = int(games.legal_counts.max())
    legal = torch.from_numpy(games.legal[:, :width].view(np.int16).copy())
    counts = torch.from_numpy(games.legal_counts.astype(np.int64))
    played = legal.gather(1, (counts // 2).unsqueeze(1)).squeeze(1).long()
    return legal, counts, played


def model_of(width=16, depth=2, features="attack", **settings):
    torch.manual_seed(4)
    config = ModelConfig(width=width, depth=depth, features=features, value_width=8, **settings)
    model = model_factory(config)
    with torch.no_grad():
        for parameter in model.parameters():  # none stays at zero, as some begin
            scale = 1.4 / parameter[0].numel() ** 0.5 if parameter.dim() > 1 else 0.2
            parameter.copy_(scale * torch.randn_like(parameter))
    return model


def distance(one, other):
    return float((one - other).norm() / other.norm())


CONFIG = PPOConfig(clip=0.2, value_coefficient=0.7)
ENTROPY_WEIGHT = 0.3


@pytest.fixture(scope="module")
def minibatch(positions, moves):
    """Steps of all kinds: gains and losses, clipped or not, of weights old and new."""
    legal, counts, played = moves
    rows, draw = len(counts), torch.Generator().manual_seed(3)

    def between(low, high):
        return low + (high - low) * torch.rand(rows, generator=draw)

    log_probs = -counts.float().log() + between(-0.6, 0.6)
    lags = torch.arange(rows).float() % 3
    return Minibatch(
        positions, legal, counts, played, log_probs, between(-2, 2), between(-1, 1), lags
    )


def some_of(minibatch, rows):
    return Minibatch(*(tensor[rows] for tensor in minibatch if tensor is not None))


def gradients_of(model):
    return [parameter.grad.clone() for parameter in model.parameters()]


def by_torch(model, minibatch, entropy_weight=ENTROPY_WEIGHT):
    """What is told of the losses, and the gradients."""
    logits, values = model.planes_and_values(minibatch.positions)
    played = played_moves(logits, minibatch.legal, minibatch.counts, minibatch.actions)
    losses = ppo_losses(played, values, minibatch, CONFIG, entropy_weight)
    model.zero_grad()
    losses["loss"].backward()
    return losses, gradients_of(model)


def by_kernels(network, model, minibatch, entropy_weight=ENTROPY_WEIGHT):
    model.zero_grad()
    losses = network.learn(minibatch, CONFIG, entropy_weight)
    return losses, gradients_of(model)


@needs_pair_products
@pytest.mark.parametrize("features", FEATURE_SETS)
@pytest.mark.parametrize("depth", [0, 1, 3])
def test_it_says_what_the_model_says(depth, features, positions):
    model = model_of(depth=depth, features=features)
    with torch.no_grad():
        logits, values = FusedNetwork(model)(positions)
        expected_logits, expected_values = model(positions)
    assert logits.dtype == values.dtype == torch.float32
    assert distance(logits, expected_logits) < OF_ANSWERS
    assert distance(values, expected_values) < OF_ANSWERS
    assert expected_values.std() > 0.01


@needs_pair_products
@pytest.mark.parametrize("features", FEATURE_SETS)
@pytest.mark.parametrize("depth", [0, 2])
def test_its_gradients_are_those_of_the_model(depth, features, minibatch):
    model = model_of(depth=depth, features=features)
    _, found = by_kernels(FusedNetwork(model), model, minibatch)
    _, expected = by_torch(model, minibatch)
    names = [name for name, _ in model.named_parameters()]
    for name, ours, theirs in zip(names, found, expected, strict=True):
        assert distance(ours, theirs) < OF_GRADIENTS, name


@needs_pair_products
def test_its_losses_are_those_of_ppo(minibatch):
    model = model_of()
    found, _ = by_kernels(FusedNetwork(model), model, minibatch)
    expected, _ = by_torch(model, minibatch)
    assert tuple(found) == LOSSES
    for name, value in expected.items():
        assert float(found[name]) == pytest.approx(value.item(), abs=2e-2), name
    assert 0.2 < float(found["clip_share"]) < 0.9


@needs_pair_products
def test_each_step_is_clipped_as_ppo_says(minibatch):
    """Without a bonus for entropy the policy's layer learns nothing of a step that is clipped."""
    model = model_of()
    network = FusedNetwork(model)
    with torch.no_grad():
        logits, _ = model.planes_and_values(minibatch.positions)
        now = played_moves(logits, minibatch.legal, minibatch.counts, minibatch.actions).log_probs
    # How much likelier a move has become since the update began: far from the borders, which are
    # at -0.22 and 0.18, so that rounding decides nothing. All kinds come with each lag.
    likelier = torch.tensor([-0.45, -0.16, 0.13, 0.4]).repeat(17)[: len(now)]
    gains = torch.tensor([1.0, 1.0, 1.0, 1.0, -1.0, -1.0, -1.0, -1.0]).repeat(9)[: len(now)]
    steps = minibatch._replace(
        log_probs=now - (1 + minibatch.lags) * likelier,
        advantages=gains * minibatch.advantages.abs().clamp(min=0.1),
    )
    teaches = []
    for row in range(len(now)):
        step = some_of(steps, slice(row, row + 1))
        losses, gradients = by_kernels(network, model, step, 0.0)
        expected_losses, expected = by_torch(model, step, 0.0)
        assert float(losses["clip_share"]) == float(expected_losses["clip_share"])
        names = [name for name, _ in model.named_parameters()]
        ours, theirs = (each[names.index("policy.weight")] for each in (gradients, expected))
        assert bool(ours.any()) == bool(theirs.any())
        assert not theirs.any() or distance(ours, theirs) < 2 * OF_GRADIENTS
        teaches.append(bool(ours.any()))
    too_far = ((likelier > 0.2) & (gains > 0)) | ((likelier < -0.2) & (gains < 0))
    assert teaches == (~too_far).tolist()


@needs_pair_products
@pytest.mark.parametrize("first_rows", [1, 2, 33])
def test_gradients_of_positions_add_up_however_many_come_together(first_rows, minibatch):
    model = model_of()
    network = FusedNetwork(model)

    def summed(rows):
        some = some_of(minibatch, rows)
        _, gradients = by_kernels(network, model, some)
        return [gradient * len(some.counts) for gradient in gradients]

    parts = summed(slice(first_rows)), summed(slice(first_rows, None))
    for whole, one, other in zip(summed(slice(None)), *parts, strict=True):
        # Slopes are rounded after they are shared out among so many steps.
        assert distance(one + other, whole) < 1e-2


@needs_pair_products
def test_gradients_go_where_some_are(minibatch):
    model = model_of()
    network = FusedNetwork(model)
    network.learn(minibatch, CONFIG, ENTROPY_WEIGHT)
    before = [parameter.grad for parameter in model.parameters()]
    network.learn(minibatch, CONFIG, 2 * ENTROPY_WEIGHT)
    assert all(p.grad is old for p, old in zip(model.parameters(), before, strict=True))


@needs_pair_products
def test_what_it_says_of_a_position_does_not_depend_on_the_others(positions, moves):
    network = FusedNetwork(model_of())
    legal, counts, _ = moves
    with torch.no_grad():
        logits, values = network.of_moves(positions, legal, counts)
        for first, count in ((0, 1), (5, 3), (30, 37)):
            rows = slice(first, first + count)
            some_logits, some_values = network.of_moves(positions[rows], legal[rows], counts[rows])
            assert torch.equal(some_values, values[rows])
            for row in range(count):
                seen = slice(int(counts[first + row]))
                assert torch.equal(some_logits[row, seen], logits[first + row, seen])


@needs_pair_products
def test_threads_change_no_answer_and_no_more_than_the_last_bits_of_gradients(moves, minibatch):
    model = model_of()
    network = FusedNetwork(model)

    def everything():
        values = network.of_moves(minibatch.positions, *moves[:2])[1]
        return values, *by_kernels(network, model, minibatch)

    values, losses, gradients = everything()
    network.threads = 2
    shared_values, shared_losses, shared_gradients = everything()
    assert torch.equal(values, shared_values)
    for name, loss in losses.items():
        assert float(loss) == pytest.approx(float(shared_losses[name]), rel=1e-5)
    for one, other in zip(gradients, shared_gradients, strict=True):
        assert distance(one, other) < 1e-5


@needs_pair_products
def test_moves_have_the_logits_that_all_of_them_have(positions, moves):
    network = FusedNetwork(model_of())
    legal, counts, _ = moves
    with torch.no_grad():
        few, values = network.of_moves(positions, legal, counts)
        every, same_values = network(positions)
    assert torch.equal(values, same_values)
    weights = [played_moves(logits, *moves) for logits in (few, every)]
    assert torch.equal(weights[0].log_probs, weights[1].log_probs)
    assert torch.equal(weights[0].entropies, weights[1].entropies)


@needs_pair_products
def test_it_sees_weights_that_have_changed(positions):
    model = model_of()
    network = FusedNetwork(model)
    with torch.no_grad():
        before = network(positions)[0]
        for parameter in model.parameters():
            parameter.mul_(1.5)
        assert distance(network(positions)[0], model(positions)[0]) < OF_ANSWERS
    assert not torch.equal(network(positions)[0].detach(), before)


@needs_pair_products
def test_a_weight_that_is_no_number_is_seen(positions):
    model = model_of()
    with torch.no_grad():
        model.blocks[0].second.weight[0, 0, 1, 1] = float("nan")
        logits, values = FusedNetwork(model)(positions)
    assert logits.isnan().any()
    assert values.isnan().any()


@needs_pair_products
def test_losses_tell_of_a_weight_that_is_no_number(minibatch):
    model = model_of()
    with torch.no_grad():
        model.blocks[0].second.weight[0, 0, 1, 1] = float("nan")
    losses = FusedNetwork(model).learn(minibatch, CONFIG, ENTROPY_WEIGHT)
    for name in ("policy_loss", "value_loss", "entropy"):
        assert losses[name].isnan()


@pytest.fixture
def able(monkeypatch, no_tiles):
    """A processor for these kernels, as far as can be seen: nothing is compiled."""
    monkeypatch.setattr("keisei.core.fused_network.has_pair_products", lambda: True)


@pytest.mark.usefixtures("able")
@pytest.mark.parametrize(
    "settings", [{"width": 24}, {"squeeze_excitation": True}], ids=["width", "squeeze excitation"]
)
def test_other_networks_are_left_to_torch(settings):
    assert isinstance(half_network(model_of(**settings)), HalfCopy)
    assert isinstance(half_network(model_of()), FusedNetwork)


@pytest.mark.usefixtures("able")
def test_a_processor_without_such_products_leaves_all_to_torch(monkeypatch):
    monkeypatch.setattr("keisei.core.fused_network.has_pair_products", lambda: False)
    assert isinstance(half_network(model_of()), HalfCopy)


@pytest.mark.usefixtures("able")
def test_a_processor_that_multiplies_tiles_leaves_all_to_torch(monkeypatch):
    monkeypatch.setattr("torch.cpu._is_amx_tile_supported", lambda: True)
    assert isinstance(half_network(model_of()), HalfCopy)


@pytest.mark.usefixtures("no_tiles")
def test_code_for_another_processor_leaves_all_to_torch(monkeypatch):
    monkeypatch.setattr("numba.config.CPU_NAME", "generic")
    assert isinstance(half_network(model_of()), HalfCopy)
