"""`IQNModel`: loss and targets as published, learning, independence, exact continuation."""

import numpy as np
import pytest
import torch

from keisei.core.iqn_model import SIZES_OF_PASSES, IQNConfig, IQNModel, rows_of_a_pass
from keisei.core.iqn_network import COSINES, IQNetwork, quantile_huber_loss
from keisei.core.replay_buffer import Batch
from tests.core.contextual import LIGHTS, Lights, learnt, storages
from tests.core.small import bits


def model(seed=0, **settings):
    small = {"layer_size": 16, "n_frames": 2, "batch_size": 32, "memory_turns": 40}
    config = IQNConfig(**{**small, "mixed_precision": False, **settings})
    return IQNModel((LIGHTS,), LIGHTS, copies=16, seed=seed, config=config)


def network(**options):
    generator = torch.Generator().manual_seed(0)
    return IQNetwork(3, 2, layer_size=8, generator=generator, **options).eval()


def test_the_loss_is_the_published_one_pair_by_pair():
    generator = torch.Generator().manual_seed(1)
    predicted, targets = (3 * torch.randn(5, q, generator=generator) for q in (4, 6))
    taus = torch.rand(5, 4, generator=generator)
    total = 0.0
    for row in range(5):
        for i in range(4):
            for j in range(6):
                error = float(targets[row, j] - predicted[row, i])
                huber = 0.5 * error**2 if abs(error) <= 1 else abs(error) - 0.5
                total += abs(float(taus[row, i]) - (error < 0)) * huber / 6 / 5
    assert float(quantile_huber_loss(predicted, taus, targets)) == pytest.approx(total, rel=1e-5)


def test_quantiles_that_are_right_on_average_have_no_gradient():
    """0 and 1 are equally likely: their 0.25 and 0.75 quantiles lie symmetrically around 0.5."""
    predicted = torch.tensor([[0.25, 0.75]], requires_grad=True)
    targets = torch.tensor([[0.0, 1.0]])
    quantile_huber_loss(predicted, torch.tensor([[0.25, 0.75]]), targets).backward()
    assert predicted.grad.tolist() == [[0.0, 0.0]]


def test_the_network_is_the_published_one():
    net, states, taus = network().requires_grad_(False), torch.rand(2, 3), torch.rand(2, 4)
    quantiles = net(states, taus)
    cosines = torch.cos(torch.pi * torch.arange(1, COSINES + 1) * taus[1, 2])
    mixed = torch.relu(net.seen(states[1])) * torch.relu(net.embedding(cosines))
    *advantages, value = net.heads(torch.relu(net.mixed(mixed)))
    mean = sum(advantages) / 2
    expected = [float(value + advantage - mean) for advantage in advantages]
    assert quantiles[1, 2].tolist() == pytest.approx(expected, abs=1e-5)


def test_one_set_of_taus_serves_all_states():
    net, states, taus = network(), torch.rand(5, 3), torch.rand(1, 4)
    assert torch.allclose(net(states, taus), net(states, taus.expand(5, 4)), atol=1e-6)


def test_mixed_precision_changes_little():
    states, taus = torch.rand(50, 3), torch.rand(50, 4)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        exact = network()
        torch.manual_seed(0)
        mixed = network(mixed_precision=True)
    exact, mixed = exact(states, taus), mixed(states, taus)
    assert mixed.dtype == torch.float32
    assert torch.allclose(exact, mixed, atol=0.05)


def batch_of(states, next_states):
    count = len(states)
    return Batch(
        states=states,
        actions=np.arange(count) % LIGHTS,
        returns=np.arange(count, dtype=np.float32),
        next_states=next_states,
        dones=(np.arange(count) % 3 == 0).astype(np.float32),
        discounts=np.full(count, 0.5, np.float32),
    )


def test_targets_are_the_target_s_quantiles_of_the_action_the_network_prefers():
    learner = model(seed=3)
    with torch.no_grad():  # two networks that disagree
        learner.target.heads.weight.neg_()
    learner.network.eval(), learner.target.eval()
    random = np.random.default_rng(0)
    states, following = random.random((2, 6, 2 * LIGHTS)).astype(np.float32)
    batch = batch_of(states, following)
    before = learner.generator.get_state()
    targets = learner.targets(batch)
    learner.generator.set_state(before)
    taus = [torch.rand(1, 12, generator=learner.generator) for _ in range(2)]
    for row in range(6):
        state = torch.from_numpy(following[row : row + 1])
        preferred = int(learner.network(state, taus[0])[0].mean(0).argmax())
        quantiles = learner.target(state, taus[1])[0, :, preferred]
        expected = row + (0.0 if row % 3 == 0 else 0.5) * quantiles
        assert torch.allclose(targets[row], expected, atol=1e-5)
    assert not targets.requires_grad


def test_it_learns_which_light_is_on():
    rates = {"learning_rate": 0.005, "tau": 0.1, "gamma": 0.5}
    learner = model(**rates, layer_size=64, epsilon=0.5, epsilon_decay=0.04)
    assert learnt(learner, epochs=60, train_steps=8) > 0.9


def test_random_actions_are_as_frequent_as_epsilon_says():
    learner = model(epsilon=1.0, epsilon_decay=0.5, epsilon_floor=0.0)
    states = np.eye(LIGHTS, dtype=np.float32)[np.zeros(16, int)]
    everything = np.concatenate([learner.take_action(states) for _ in range(100)])
    assert np.bincount(everything) == pytest.approx([400] * LIGHTS, abs=100)
    learner.start_epoch_action(60)
    assert learner.epsilon < 1e-9
    assert len(set(learner.take_action(states))) == 1


@pytest.mark.parametrize("copies", [1, 2, 3, 4, 5, 8, 30, 256])
def test_passes_have_few_sizes_whatever_number_of_copies_explores(copies):
    rows = [rows_of_a_pass(asked, copies) for asked in range(1, copies + 1)]
    assert all(asked <= count <= copies for asked, count in enumerate(rows, start=1))
    assert len(set(rows)) <= SIZES_OF_PASSES
    assert rows[-1] == copies


def test_idle_rows_of_a_pass_change_no_action():
    learner, other = model(epsilon=0.5, epsilon_decay=0.0), model(epsilon=0.0)
    states = np.eye(LIGHTS, dtype=np.float32)[np.arange(16) % LIGHTS]
    sizes = set()
    for _ in range(50):
        other.generator.set_state(learner.generator.get_state())
        numbers = learner._random.bit_generator.state
        _, greedy = learner.explore(16)
        sizes.add(len(greedy))
        learner._random.bit_generator.state = numbers
        actions, expected = learner.take_action(states), other.take_action(states)
        assert np.array_equal(actions[greedy], expected[greedy])
    assert len(sizes) > SIZES_OF_PASSES


def test_the_target_follows_slowly_and_is_synced_every_so_many_epochs():
    learner = model(tau=0.25, sync_interval=3, learning_rate=0.1)
    old = learner.target.mixed.weight.clone()
    Lights(16).epoch(learner, 0)
    learner.train_step()
    new = learner.network.mixed.weight
    assert torch.allclose(learner.target.mixed.weight, 0.75 * old + 0.25 * new, atol=1e-6)
    learner.start_epoch_action(2)
    assert not torch.equal(learner.target.mixed.weight, new)
    learner.start_epoch_action(3)
    assert torch.equal(learner.target.mixed.weight, new)


def test_there_is_nothing_to_learn_from_less_than_a_batch_or_from_unfinished_turns():
    learner = model(batch_size=16, n_step=3)
    assert learner.train_step() == {}
    Lights(16).epoch(learner, 0, turns=0)
    states = np.zeros((16, LIGHTS), np.float32)
    going_on = (np.zeros(16, bool), np.ones(16, bool))
    learner.memory.add(states, np.zeros(16, int), np.zeros(16), *going_on)
    assert learner.train_step() == {}


def test_it_goes_on_bit_for_bit_from_its_state():
    one, other = model(seed=1, mixed_precision=True), model(seed=2, mixed_precision=True)
    learnt(one, epochs=3, train_steps=2)
    other.load_state(*one.state())
    figures = []
    for learner in (one, other):
        Lights(16, seed=5).epoch(learner, 4)
        figures.append([learner.train_step() for _ in range(3)])
    assert figures[0] == figures[1]
    assert bits(one.state()[0]) == bits(other.state()[0])
    assert one.state()[1] == other.state()[1]


def test_agents_share_no_memory_and_no_random_stream():
    one, other = model(seed=1), model(seed=2)
    before = bits(other.state()[0])
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()
    learnt(one, epochs=2)
    assert bits(other.state()[0]) == before
    learnt(other, epochs=2)
    assert not storages(one) & storages(other)
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert np.array_equal(np.random.get_state()[1], numpy_state)


def test_the_seed_decides_everything():
    learners = [model(seed=seed) for seed in (3, 3, 4)]
    for learner in learners:
        learnt(learner, epochs=3)
    first, same, different = (bits(learner.state()[0]) for learner in learners)
    assert first == same
    assert first != different


def learned_from(learner):
    return bits({k: v for k, v in learner.state()[0].items() if not k.startswith("memory")})


def weights_and_moments(learner):
    return {name: value for name, value in learned_from(learner).items() if name != "generator"}


def test_a_lesson_is_what_so_many_train_steps_learn_from():
    one, other = model(seed=1), model(seed=1)
    for learner in (one, other):
        Lights(16).epoch(learner, 0)
    figures = [one.train_step() for _ in range(4)]
    lesson = other.draw_lesson(4)
    together = other.learn(lesson)
    assert len(lesson) == 4
    assert learned_from(one) == learned_from(other)
    for name, value in together.items():
        assert value == pytest.approx(np.mean([step[name] for step in figures]))


def test_a_lesson_does_not_change_with_the_memory():
    learner = model()
    Lights(16).epoch(learner, 0)
    assert learner.draw_lesson(0) is None
    [batch] = learner.draw_lesson(1)
    before = bits(batch._asdict())
    for number in range(10):
        Lights(16, seed=number).epoch(learner, number)
    assert bits(batch._asdict()) == before


@pytest.mark.parametrize("learned_before", [False, True])
@pytest.mark.parametrize("faulty", [[True], [False, False, True, False]])
def test_a_lesson_that_fails_leaves_the_learner_as_it_was(faulty, learned_before):
    learner = model(learning_rate=0.01, tau=0.5)
    Lights(16).epoch(learner, 0)
    if learned_before:
        learner.train_step()
    lesson = learner.draw_lesson(len(faulty))
    faults = [np.float32(np.nan if fails else 0) for fails in faulty]
    wrong = [b._replace(returns=b.returns + f) for b, f in zip(lesson, faults, strict=True)]
    before = weights_and_moments(learner)
    with pytest.raises(RuntimeError, match="the norm of the gradient is nan"):
        learner.learn(wrong)
    assert weights_and_moments(learner) == before
    assert "loss" in learner.learn(lesson)
    assert weights_and_moments(learner) != before


def test_a_twin_learns_the_same_and_is_adopted():
    one, other = model(seed=1), model(seed=1)
    for learner in (one, other):
        learnt(learner, epochs=2)
    twin, before = one.twin(), learned_from(one)
    twin.learn(one.draw_lesson(3))
    other.learn(other.draw_lesson(3))
    assert learned_from(twin) == learned_from(other)
    assert learned_from(one) == before
    assert not storages(one) & storages(twin)
    assert len(twin.memory) == 0
    one.adopt(twin)
    assert bits(one.network.state_dict()) == bits(twin.network.state_dict())
    assert bits(one.target.state_dict()) == bits(twin.target.state_dict())
