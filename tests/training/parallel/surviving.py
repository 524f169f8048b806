"""Runs whose workers meet faults, next to runs that do not: nothing may be lost or doubled.

In sync mode a run with faults plays and learns what the serial collector does, bit for bit. In
async mode the weights stay the same, so that each worker plays what its group plays serially: every
rollout must be there once, in order.
"""

import time

from tests.core.small import bits
from tests.training.parallel.collecting import (
    Learner,
    SerialRollouts,
    experience,
    new_version,
    parallel_config,
    rollout_of,
    without_seconds,
)

PAST_SELVES = {"opponent_share": 0.5, "opponent_interval": 2}


def collect_in_both_ways(serial, parallel, collections):
    """Collect and learn in turn; both must come to the same."""
    for _ in range(collections):
        expected, found = serial.collect(), parallel.collect()
        assert without_seconds(found) == without_seconds(expected)
        ours, theirs = experience(serial.buffer), experience(parallel.buffer)
        assert [name for name in ours if ours[name] != theirs[name]] == []
        assert parallel.last_values.tobytes() == serial.last_values.tobytes()
        assert bits(parallel.collector.state()) == bits(serial.collector.state())
        serial.learn()
        parallel.learn()
    assert bits(parallel.agent.model.state_dict()) == bits(serial.agent.model.state_dict())


def assert_all_accounted_for(learner, collections):
    """Every step that was committed was collected; every slot is free or somewhere."""
    figures = learner.collector.get_statistics()
    steps = collections * learner.buffer.steps * learner.buffer.games
    assert sum(worker["steps"] for worker in figures["workers"]) == steps
    communicator = learner.collector._running.communicator
    in_use = figures["queue_depth"] + figures["rollouts_under_way"]
    assert communicator.free_slots + in_use == len(communicator._rollouts)
    assert learner.config.training.parallel.mode == "async" or in_use == 0


def survive_in_sync_mode(worker_main, *, restarts=1, collections=4, **settings):
    """Collect with faults and without, and learn; the news."""
    config = parallel_config(games=PAST_SELVES, **settings)
    with (
        Learner(config).serial() as serial,
        Learner(config).parallel(worker_main=worker_main) as parallel,
    ):
        collect_in_both_ways(serial, parallel, collections)
        assert parallel.collector.get_statistics()["restarts"] == restarts
        assert_all_accounted_for(parallel, collections)
        return parallel.news


def survive_in_async_mode(worker_main, *, seconds_to_learn=0.0, **settings):
    """Collect until the replacement of worker 0 has played a rollout; the news."""
    config = parallel_config(mode="async", **settings)
    serial = SerialRollouts(config)
    with Learner(config).parallel(worker_main=worker_main) as learner:
        faulty = learner.collector.workers[0]
        collected = [0] * len(learner.groups)
        before_the_fault = 0
        while not faulty.restarts or collected[0] == before_the_fault:
            if not faulty.restarts:
                before_the_fault = collected[0]
            learner.collect()
            for block in range(len(learner.groups)):
                group, number = serial.number_of(rollout_of(learner.buffer, block))
                assert number == collected[group]
                collected[group] += 1
            new_version(learner)
            time.sleep(seconds_to_learn)
        assert faulty.restarts == 1
        assert_all_accounted_for(learner, sum(collected) // len(collected))
        return learner.news
