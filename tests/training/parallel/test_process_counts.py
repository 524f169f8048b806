"""How many processes play and learn: what is given is used, the rest is measured."""

import os
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from keisei.core.ppo_agent import PPOAgent
from keisei.training.parallel.process_counts import (
    Cost,
    ProcessCounts,
    _container_quota,
    expected_rate,
    measure_costs,
    minibatches_at_once,
    process_counts,
    usable_cores,
)
from tests.core.small import bits, small_agent, small_config

costs = st.builds(Cost, st.floats(0, 1e-2), st.floats(1e-7, 1e-3))
numbers = st.integers(1, 64)


def config_with(**parallel):
    return small_config(training={"parallel": {"enabled": True, **parallel}})


@given(workers=numbers, learners=numbers, cores=numbers, playing=costs, learning=costs)
def test_no_more_is_expected_than_the_cores_can_do(workers, learners, cores, playing, learning):
    config = config_with(games_per_worker=8)
    counts = ProcessCounts(workers, learners)
    rate = expected_rate(config, counts, cores, playing, learning)
    play = playing.of_batch(8) / 8
    part = min(minibatches_at_once(config.training.parallel), learners) * 32 / learners
    learn = learning.of_batch(part) / part * config.ppo.epochs
    assert rate > 0
    assert rate * (play + learn) <= cores * (1 + 1e-9)
    assert rate <= workers / play
    assert rate <= learners / learn
    assert rate <= expected_rate(config, counts, cores + 1, playing, learning) * (1 + 1e-9)


def test_processes_that_have_a_core_each_are_as_fast_as_the_slower_side():
    config = config_with(games_per_worker=4)
    counts = ProcessCounts(workers=6, learners=2)
    free, dear = Cost(0, 1e-9), Cost(0, 1e-1)
    played = expected_rate(config, counts, 8, dear, free)
    assert played == pytest.approx(6 / 1e-1)
    learned = expected_rate(config, counts, 8, free, dear)
    assert learned == pytest.approx(2 / (1e-1 * config.ppo.epochs), rel=0.01)


def test_a_batch_costs_something_fixed_and_something_for_each_row():
    cost = Cost(fixed=1.0, per_row=0.5)
    assert [cost.of_batch(rows) for rows in (1, 4)] == [1.5, 3.0]


def test_numbers_that_are_given_are_used_as_given():
    config = config_with(num_workers=37, num_learners=5)
    assert process_counts(config, small_agent()) == (37, 5)


@pytest.mark.parametrize("given_counts", [{}, {"num_workers": 3}, {"num_learners": 2}])
def test_numbers_that_are_left_open_fit_the_cores(given_counts):
    cores = usable_cores()
    counts = process_counts(config_with(**given_counts), small_agent())
    assert counts.workers == given_counts.get("num_workers", counts.workers)
    assert counts.learners == given_counts.get("num_learners", counts.learners)
    assert 1 <= counts.workers <= max(cores, given_counts.get("num_workers", 0))
    assert 1 <= counts.learners <= max(cores, given_counts.get("num_learners", 0))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"mode": "sync"}, 1),
        ({"mode": "async"}, 4),
        ({"mode": "sync", "minibatches_at_once": 3}, 3),
        ({"mode": "async", "minibatches_at_once": 1}, 1),
    ],
)
def test_several_minibatches_at_once_are_for_async_mode_or_who_asks(settings, expected):
    assert minibatches_at_once(config_with(**settings).training.parallel) == expected


def test_a_gpu_learns_alone_and_the_cores_play():
    agent = SimpleNamespace(device=torch.device("cuda"))  # there is none here
    assert process_counts(config_with(num_workers=3, num_learners=4), agent) == (3, 1)
    counts = process_counts(config_with(), agent)
    assert 1 <= counts.workers <= max(usable_cores() - 1, 1)
    assert counts.learners == 1


def test_measuring_leaves_the_agent_and_the_threads_as_they_were():
    config = config_with()
    agent = PPOAgent(config.model, config.ppo, seed=1)
    before, threads = bits(agent.state()[0]), torch.get_num_threads()
    playing, learning = measure_costs(config, agent)
    for cost in (playing, learning):
        assert cost.fixed >= 0
        assert 0 < cost.per_row < 1
    assert bits(agent.state()[0]) == before
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize(
    ("text", "cores"),
    [
        ("200000 100000", 2),
        ("150000 100000\n", 2),
        ("50000 100000", 1),
        ("max 100000", 10**6),
        ("", 10**6),
    ],
)
def test_the_quota_of_a_container_is_rounded_up_to_whole_cores(text, cores, tmp_path):
    path = tmp_path / "cpu.max"
    path.write_text(text)
    assert _container_quota(path) == cores


def test_without_a_quota_the_cores_of_this_process_count(tmp_path):
    assert _container_quota(tmp_path / "none") == 10**6
    assert 1 <= usable_cores() <= os.cpu_count()
