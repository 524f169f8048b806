"""In sync mode workers give the experience of the serial collector, bit for bit."""

import numpy as np
import pytest
import torch

from keisei.training.trainer import Trainer
from tests.core.reference import softmax_over_legal
from tests.core.small import bits, computes_as_said, networks, one_thread
from tests.training.parallel.collecting import (
    Learner,
    experience,
    parallel_config,
    without_seconds,
)


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with one_thread():
        yield


def config_with(network, **settings):
    """A config for one of `networks`."""
    exact = {"mixed_precision": network["mixed_precision"]}
    return parallel_config(model=network["model"], training=exact, **settings)


def assert_same_collections(config, collections=3):
    """Collect and learn in turn in both ways; the statistics of all collections."""
    happened = []
    with Learner(config).serial() as serial, Learner(config).parallel() as parallel:
        for _ in range(collections):
            expected, found = serial.collect(), parallel.collect()
            ours, theirs = experience(serial.buffer), experience(parallel.buffer)
            assert [name for name in ours if ours[name] != theirs[name]] == []
            assert parallel.last_values.tobytes() == serial.last_values.tobytes()
            assert without_seconds(found) == without_seconds(expected)
            assert bits(parallel.collector.state()) == bits(serial.collector.state())
            assert parallel.collector.board() == serial.collector.board()
            happened.append(found)
            for learner in (serial, parallel):
                learner.learn()
        assert bits(parallel.agent.model.state_dict()) == bits(serial.agent.model.state_dict())
        assert parallel.news == []
    assert sum(statistics.games for statistics in happened) > 0
    return happened


@pytest.mark.parametrize("network", networks(in_children=True))
def test_workers_play_what_one_process_plays(network):
    happened = assert_same_collections(config_with(network), collections=5)
    assert [statistics.trained_steps for statistics in happened] == [6 * 12] * 5


def test_workers_meet_the_same_past_selves():
    games = {"opponent_share": 0.5, "opponent_interval": 2, "opponent_ring": 2}
    happened = assert_same_collections(parallel_config(games=games), collections=7)
    assert all(0 < statistics.trained_steps < statistics.steps for statistics in happened)


def test_workers_that_differ_play_what_their_groups_play():
    profiles = [
        {"random_start_share": 0.0, "temperature": 3.0},
        {"opponent_share": 0.0, "temperature": 0.5},
        {"random_start_share": 1.0, "opponent_share": 1.0},
    ]
    config = parallel_config(
        num_workers=4, games={"opponent_share": 0.25}, worker_profiles=profiles
    )
    assert_same_collections(config)


def test_workers_that_report_by_episodes_play_what_their_groups_play():
    config = parallel_config(rollout_length=40, episodes_per_worker=5)
    with Learner(config).serial() as serial:
        serial.collect()
        assert len(set(serial.buffer.lengths.tolist())) == 2
        assert serial.buffer.lengths.max() < 40
    assert_same_collections(config)


@pytest.mark.parametrize("queue_maxsize", [1, 2])
def test_workers_that_share_few_slots_wait_and_lose_nothing(queue_maxsize):
    assert_same_collections(parallel_config(num_workers=3, queue_maxsize=queue_maxsize))


@pytest.mark.parametrize("episodes", [None, 4])
def test_experience_is_the_same_through_pipes(episodes):
    config = parallel_config(
        games={"opponent_share": 0.5, "opponent_interval": 1},
        use_shared_memory=False,
        episodes_per_worker=episodes,
    )
    assert_same_collections(config, collections=4)


def test_games_that_are_cut_are_worth_the_same():
    config = parallel_config(games={"max_moves": 8, "random_start_share": 0.0})
    happened = assert_same_collections(config)
    assert sum(statistics.cut for statistics in happened) == 12 * 2


def test_games_a_worker_and_their_rollouts_may_have_sizes_of_their_own():
    config = parallel_config(num_workers=3, games_per_worker=2, rollout_length=9, seed=8)
    happened = assert_same_collections(config)
    assert [statistics.steps for statistics in happened] == [3 * 2 * 9] * 3


def test_workers_have_a_seed_of_their_own_if_it_is_set():
    played = []
    for seed in (None, 1, 2):
        config = parallel_config(seed=seed)
        with Learner(config).serial() as learner:
            learner.collect()
            played.append(experience(learner.buffer)["positions"])
    assert len(set(played)) == 3


def test_half_precision_plays_and_tells_with_the_rounded_weights():
    full = {"mixed_precision": False}
    plain = parallel_config(training=full)
    compressed = parallel_config(training=full, compression_enabled=True)
    with (
        Learner(plain).serial() as exact,
        Learner(compressed).parallel() as rounded,
    ):
        exact.collect()
        rounded.collect()
        assert experience(rounded.buffer) != experience(exact.buffer)
        with torch.no_grad():
            for weights in rounded.agent.model.state_dict().values():
                weights.copy_(weights.half().float())
        buffer = rounded.buffer
        logits, values = rounded.agent.model(torch.from_numpy(buffer.positions.reshape(-1, 100)))
        assert buffer.values.ravel() == pytest.approx(values.detach().numpy(), abs=1e-5)
        assert legal_log_probs(buffer, logits.detach().numpy()) == pytest.approx(
            buffer.log_probs.ravel(), abs=1e-4
        )


def legal_log_probs(buffer, logits):
    """[T * B] log-probabilities of the actions of a full buffer, by given logits."""
    starts, counts = buffer.legal_starts.ravel(), buffer.legal_counts.ravel().astype(int)
    answers = []
    for step, action in enumerate(buffer.actions.ravel().tolist()):
        legal = buffer.legal_pool[starts[step] : starts[step] + counts[step]]
        probabilities = softmax_over_legal(logits[step], legal)
        answers.append(np.log(probabilities[legal.tolist().index(action)]))
    return np.array(answers)


def weights_after(trainer, updates):
    try:
        for _ in range(updates):
            trainer.collect()
            trainer.perform_ppo_update()
        tensors, state = trainer.state()
        return bits(tensors), state
    finally:
        trainer.close()


@pytest.mark.parametrize("network", networks(in_children=True))
@pytest.mark.parametrize("num_learners", [1, 2])
def test_a_parallel_run_learns_what_the_same_run_in_one_process_learns(num_learners, network):
    past_selves = {"opponent_share": 0.5, "opponent_interval": 2}
    config = config_with(network, games=past_selves, num_learners=num_learners)
    serial = Trainer(config, debug_serial=True)
    assert computes_as_said(serial.agent)
    expected, expected_state = weights_after(serial, 4)
    found, state = weights_after(Trainer(config), 4)
    assert [name for name in expected if expected[name] != found[name]] == []
    assert state == expected_state
    begun = bits(Trainer(config, debug_serial=True).state()[0])
    assert found["agent.model.stem.weight"] != begun["agent.model.stem.weight"]
