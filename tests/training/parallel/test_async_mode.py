"""Async mode: workers run ahead; nothing is lost, doubled, or learned from when it is too old.

Weights that stay the same under growing versions make every worker play what its group plays
serially: that tells the rollouts apart (`SerialRollouts`).
"""

import os
import sys
import time
from itertools import pairwise

import numpy as np
import pytest
import torch

from keisei.training.parallel.process_counts import usable_cores
from keisei.training.parallel.self_play import SelfPlay, rollouts_of_an_update
from keisei.training.parallel.worker_process import work
from keisei.training.trainer import Trainer
from tests.core.small import bits, one_thread, opinionated
from tests.training.parallel.collecting import (
    GAMES,
    STEPS,
    Learner,
    SerialRollouts,
    new_version,
    parallel_config,
    rollout_of,
)


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with one_thread():
        yield


def async_config(**settings):
    return parallel_config(mode="async", **{"games_per_worker": GAMES, **settings})


def work_slowly(setup, seconds=0.03):
    """A worker that sleeps before every ply."""
    play_one_step = SelfPlay._play_one_step

    def sleep_and_play(self, *arguments):
        time.sleep(seconds)
        play_one_step(self, *arguments)

    SelfPlay._play_one_step = sleep_and_play
    work(setup)


def work_slowly_as_worker_0(setup):
    work_slowly(setup, seconds=0.1 if setup.number == 0 else 0)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"num_workers": 3, "queue_maxsize": 1},
        {"use_shared_memory": False, "max_policy_lag": 5},
        {"games": {"opponent_share": 0.5}, "episodes_per_worker": 4},
    ],
    ids=str,
)
def test_every_rollout_of_a_worker_is_collected_once_and_in_order(settings):
    config = async_config(**settings)
    serial = SerialRollouts(config)
    with Learner(config).parallel() as learner:
        collected = [0] * len(learner.groups)
        collections = 0
        while collections < 8 or min(collected) < 3:  # until even the last has started
            assert collections < 100
            learner.collect()
            for block in range(len(learner.groups)):
                group, number = serial.number_of(rollout_of(learner.buffer, block))
                assert number == collected[group]
                collected[group] += 1
            new_version(learner)
            collections += 1
        assert sum(collected) == collections * len(learner.groups)
        if config.training.parallel.episodes_per_worker is None:
            steps = [worker.steps for worker in learner.collector.workers]
            assert steps == [number * STEPS * GAMES for number in collected]


@pytest.mark.parametrize(("workers", "lag", "rollouts"), [(2, 2, 1), (3, 2, 2), (3, 9, 1)])
def test_an_update_may_be_of_fewer_rollouts_than_there_are_workers(workers, lag, rollouts):
    config = async_config(num_workers=workers, max_policy_lag=lag)
    assert rollouts_of_an_update(config.training.parallel, workers) == rollouts
    serial = SerialRollouts(config)
    with Learner(config, rollouts=rollouts).parallel() as learner:
        collected = [0] * workers
        deadline = time.monotonic() + 60  # beside other tests a worker may wait for its core
        while min(collected) < 3:  # nobody is left out
            assert time.monotonic() < deadline
            statistics = learner.collect()
            assert statistics.steps == rollouts * GAMES * STEPS
            for block in range(rollouts):
                group, number = serial.number_of(rollout_of(learner.buffer, block))
                assert number == collected[group]
                collected[group] += 1
            assert learner.last_values.shape == (rollouts * GAMES,)
            figures = learner.collector.get_statistics()
            assert figures["rollouts_under_way"] + figures["queue_depth"] <= rollouts * lag
            new_version(learner)


def test_the_state_is_that_of_the_games_behind_what_was_collected():
    config = async_config()
    with Learner(config).parallel() as learner:
        for _ in range(3):
            learner.collect()
            new_version(learner)
        time.sleep(0.2)  # the workers have played on by now
        state = learner.collector.state()
        rollouts = [worker.steps // (STEPS * GAMES) for worker in learner.collector.workers]
    for group, count in enumerate(rollouts):
        with Learner(config).serial() as serial:
            for _ in range(count):
                serial.collect()
            expected = bits(serial.collector.groups[group].state())
        columns = slice(group * GAMES, (group + 1) * GAMES)
        assert bits({name: array[columns] for name, array in state.items()}) == expected


@pytest.mark.parametrize("max_policy_lag", [1, 3])
def test_steps_that_train_are_never_older_than_the_bound(max_policy_lag):
    config = async_config(max_policy_lag=max_policy_lag)
    with Learner(config).parallel(worker_main=work_slowly_as_worker_0) as learner:
        for _ in range(10):
            statistics = learner.collect()
            lags = learner.agent.version - learner.buffer.versions[learner.buffer.trains]
            assert ((lags >= 0) & (lags <= max_policy_lag)).all()
            assert statistics.trained_steps == lags.size
            figures = learner.collector.get_statistics()
            if lags.size:
                assert figures["lag_min"] == lags.min()
                assert figures["lag_mean"] == pytest.approx(lags.mean())
                assert figures["lag_max"] == lags.max()
            new_version(learner)


def test_steps_played_by_older_weights_are_left_out_and_counted():
    config = async_config(games={"opponent_share": 0.5}, max_policy_lag=3)
    with Learner(config).parallel() as learner, Learner(config).serial() as serial:
        own = [[] for _ in learner.groups]
        for _ in range(20):
            serial.collect()
            for group in range(len(own)):
                columns = slice(group * GAMES, (group + 1) * GAMES)
                own[group].append(int(serial.buffer.trains[:, columns].sum()))
        stale = before = 0
        for _ in range(6):
            statistics = learner.collect()
            lags = learner.agent.version - learner.buffer.versions
            assert not learner.buffer.trains[lags > 3].any()
            rollouts = [worker.steps // (STEPS * GAMES) for worker in learner.collector.workers]
            played = sum(sum(own[group][:count]) for group, count in enumerate(rollouts))
            assert statistics.trained_steps + statistics.stale_steps == played - before
            assert statistics.trained_steps == learner.buffer.trains.sum()
            before = played
            stale += statistics.stale_steps
            time.sleep(0.05)
            new_version(learner, versions=4)  # all that has been played by now is too old
        assert stale > 0
        assert learner.collector.get_statistics()["stale_steps"] == stale


def test_a_slow_worker_does_not_hold_up_the_others():
    config = async_config()
    with Learner(config).parallel(worker_main=work_slowly_as_worker_0) as learner:
        learner.collector.start_workers()
        while learner.collector.get_statistics()["workers_playing"] < 2:
            learner.collect()
        slow, fast = learner.collector.workers
        before = slow.steps, fast.steps
        for _ in range(12):
            learner.collect()
            new_version(learner)
        assert fast.steps - before[1] > 3 * (slow.steps - before[0])


def test_weights_are_refreshed_in_the_middle_of_a_rollout():
    config = async_config(num_workers=1, max_policy_lag=100, training={"mixed_precision": False})
    with Learner(config).parallel(worker_main=work_slowly) as learner:
        models, seen = {}, []
        for _ in range(5):
            learner.collect()
            versions = learner.buffer.versions
            assert (versions == versions[:, :1]).all()
            seen.extend(versions[:, 0].tolist())
            models[0] = models.get(0) or weights_of(learner.agent)
            assert_played_by_the_weights_it_names(learner, models)
            for _ in range(4):
                time.sleep(0.05)
                opinionated(learner.agent, seed=learner.agent.version)
                models[learner.agent.version + 1] = weights_of(learner.agent)
                new_version(learner)
        assert all(before <= after for before, after in pairwise(seen))
        within = [seen[start : start + STEPS] for start in range(0, len(seen), STEPS)]
        assert any(len(set(rollout)) > 1 for rollout in within)


def weights_of(agent):
    return {name: tensor.clone() for name, tensor in agent.model.state_dict().items()}


def assert_played_by_the_weights_it_names(learner, models):
    buffer = learner.buffer
    copy = learner.agent.copy_for_playing()
    for version in np.unique(buffer.versions).tolist():
        copy.model.load_state_dict(models[version])
        where = buffer.versions == version
        with torch.no_grad():
            values = copy.model(torch.from_numpy(buffer.positions[where]))[1].numpy()
        assert buffer.values[where] == pytest.approx(values, abs=1e-5)


def test_weights_are_published_at_their_interval():
    config = async_config(model_sync_interval=3, max_policy_lag=4)
    with Learner(config).parallel() as learner:
        versions = set()
        for _ in range(8):
            learner.collect()
            versions |= set(np.unique(learner.buffer.versions).tolist())
            new_version(learner)
        assert versions <= {0, 3, 6}
        assert learner.collector.get_statistics()["syncs"] == 3


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such priority")
@pytest.mark.parametrize(
    ("mode", "others", "leaves"), [("async", 0, True), ("async", -1, False), ("sync", 0, False)]
)
def test_workers_leave_their_cores_to_learners_at_once_where_they_share_them(mode, others, leaves):
    learners = max(usable_cores() + others, 1)  # beside one worker
    config = parallel_config(mode=mode, num_workers=1, num_learners=learners)
    if not leaves and mode == "async" and usable_cores() == 1:
        pytest.skip("one core is always shared")
    with Learner(config).parallel() as learner:
        learner.collect()
        [worker] = learner.collector.workers
        assert (os.sched_getscheduler(worker.pid) == os.SCHED_IDLE) == leaves


def test_a_trainer_learns_while_its_workers_play():
    trainer = Trainer(async_config(games={"opponent_share": 0.25}))
    begun = bits(trainer.agent.model.state_dict())
    try:
        trained = stale = 0
        for _ in range(6):
            statistics = trainer.collect()
            trained += statistics.trained_steps
            stale += statistics.stale_steps
            trainer.perform_ppo_update()
        assert (trainer.updates, trainer.steps) == (6, 6 * 2 * STEPS * GAMES)
        assert trainer.agent.version == 6
        assert 0 < trained <= trainer.steps - stale
        assert bits(trainer.agent.model.state_dict()) != begun
    finally:
        trainer.close()


def test_a_trainer_learns_from_as_many_games_whatever_the_lag_and_goes_on_alone():
    config = async_config(games_per_worker=None, max_policy_lag=2)
    trainer = Trainer(config)
    try:
        assert (trainer.buffer.games, len(trainer.collector.state()["ply"])) == (12, 2 * 12)
        for _ in range(4):
            assert trainer.collect().steps == 12 * STEPS
            trainer.perform_ppo_update()
        trainer.fall_back_to_serial()
        games = bits(trainer.collector.state())
        for _ in range(2):  # a group in each update
            assert trainer.collect().steps == 12 * STEPS
            trainer.perform_ppo_update()
            games, before = bits(trainer.collector.state()), games
            assert games != before
        assert trainer.steps == 6 * 12 * STEPS
    finally:
        trainer.close()


def test_one_process_plays_the_groups_in_turns_and_goes_on_where_it_was():
    config = async_config(num_workers=3, max_policy_lag=2)
    everyone = Learner(config).serial()
    everyone.collect()
    first = [rollout_of(everyone.buffer, group) for group in range(3)]
    everyone.collect()
    second = [rollout_of(everyone.buffer, group) for group in range(3)]
    learner, resumed = (Learner(config, rollouts=2).serial() for _ in range(2))
    for expected in ([first[0], first[1]], [first[2], second[0]], [second[1], second[2]]):
        resumed.collector.load_state(learner.collector.state())
        resumed.agent.version = learner.agent.version
        for one in (learner, resumed):
            one.collect()
            assert [rollout_of(one.buffer, block) for block in range(2)] == expected
        new_version(learner)
