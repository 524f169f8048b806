"""`ParallelSettings`: what is refused, and what the switches come to."""

import dataclasses
import os

import pytest

from keisei.gridworld.errors import WorldError
from keisei.gridworld.parallel_settings import ParallelSettings


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"train_interval": 0}, "train_interval is at least one epoch, not 0."),
        (
            {"train_interval": 5, "backlog": 4},
            "backlog is 4 epochs, and must be at least train_interval, 5.",
        ),
        ({"num_workers": 0}, "num_workers is at least one, not 0."),
        (
            {"async_learning": True, "lesson_timeout": 0.0},
            "lesson_timeout is more than 0 seconds, not 0.",
        ),
        (
            {"async_learning": True, "max_agents_per_lesson": 0},
            "max_agents_per_lesson is at least one, not 0.",
        ),
        (
            {"lesson_timeout": 5.0},
            "lesson_timeout is for a learner beside the collection: async_learning.",
        ),
        (
            {"max_agents_per_lesson": 2},
            "max_agents_per_lesson is for a learner beside the collection: async_learning.",
        ),
    ],
)
def test_settings_that_cannot_be_right_are_refused_with_a_sentence(settings, sentence):
    with pytest.raises(WorldError) as refused:
        ParallelSettings(**settings)
    assert str(refused.value) == sentence


def test_a_backlog_of_one_lesson_is_enough():
    assert ParallelSettings(train_interval=4, backlog=4).backlog == 4


def test_as_many_threads_train_as_there_are_processors_unless_told():
    assert ParallelSettings().threads == len(os.sched_getaffinity(0))
    paced = ParallelSettings(async_learning=True)
    assert paced.threads == max(len(os.sched_getaffinity(0)) - 1, 1)
    assert dataclasses.replace(paced, keep_pace=False).threads == ParallelSettings().threads
    assert ParallelSettings(num_workers=3).threads == 3
    assert ParallelSettings(num_workers=3, debug_serial=True).threads == 1


def test_a_run_is_repeatable_when_it_is_deterministic_or_serial():
    assert not ParallelSettings().repeatable
    assert ParallelSettings(deterministic=True).repeatable
    assert ParallelSettings(debug_serial=True).repeatable


def test_what_is_not_enabled_wants_nothing():
    switches = ("parallel_actions", "parallel_training", "async_learning")
    every = dict.fromkeys(switches, True)
    on, off = ParallelSettings(**every), ParallelSettings(enabled=False, **every)
    assert all(on.wants(name) for name in switches)
    assert not any(off.wants(name) for name in switches)
    assert not ParallelSettings(parallel_actions=False).wants("parallel_actions")


def test_settings_never_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ParallelSettings().backlog = 7
