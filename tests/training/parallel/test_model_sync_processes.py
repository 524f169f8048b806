"""Weights published to processes that are fast, stopped or killed: none are ever mixed."""

import itertools
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

import numpy as np
import pytest
import torch
from torch import nn

from keisei.training.parallel.double_buffer import double_buffer_layout
from keisei.training.parallel.model_sync import ModelSynchronizer, WorkerModelReceiver
from keisei.training.parallel.shared_memory import SharedMemory
from tests.training.parallel.synced_towers import (
    Tower,
    connected,
    memory_of,
    only_value,
    publish,
    synchronizer_of,
)

SECONDS_AT_FULL_SPEED = 2.0
KILLS = 150
ENOUGH_FETCHES = 20


def fetch_until_version(memory: SharedMemory, last: int, answers: Connection) -> None:
    model = Tower()
    receiver = WorkerModelReceiver(memory, model, compression_enabled=False)
    answers.send("ready")
    while receiver.version != last:
        receiver.fetch()
    answers.send(only_value(model))


def fetch_at_full_speed(
    memory: SharedMemory, width: int, compressed: bool, answers: Connection
) -> None:
    """Fetch until told that it is enough; say so when `ENOUGH_FETCHES` have brought something."""
    torch.set_num_threads(1)
    model = Tower(width)
    receiver = WorkerModelReceiver(memory, model, compression_enabled=compressed)
    answers.send("ready")
    fetched, version = 0, 0
    while not answers.poll():
        newest = receiver.newest_version()
        new = receiver.fetch()
        if new is None:
            continue
        assert new >= newest, "an older version than was there already"
        assert new > version, "versions went back"
        assert only_value(model) == new % 2048
        fetched, version = fetched + 1, new
        if fetched == ENOUGH_FETCHES:
            answers.send("fetched")


def publish_until_killed(synchronizer: ModelSynchronizer, model: nn.Module, version: int) -> None:
    torch.set_num_threads(1)  # a forked process has no threads but this one
    while True:
        publish(synchronizer, model, version)
        version += 1


@contextmanager
def stopped(process: BaseProcess) -> Iterator[None]:
    assert process.pid is not None
    os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process.pid, signal.SIGCONT)


@pytest.mark.parametrize("start_method", ["spawn", "forkserver"])
def test_a_worker_process_gets_the_weights(start_method: str) -> None:
    context = multiprocessing.get_context(start_method)
    model = Tower()
    synchronizer = synchronizer_of(model)
    ours, theirs = context.Pipe()
    arguments = (synchronizer.memory, 3, theirs)
    worker = context.Process(target=fetch_until_version, args=arguments)
    worker.start()
    theirs.close()
    assert ours.recv() == "ready"
    publish(synchronizer, model, 1, 2, 3)
    assert ours.recv() == 3
    worker.join()


@pytest.mark.parametrize("compressed", [False, True])
def test_no_fetch_mixes_two_publications_at_full_speed(compressed: bool) -> None:
    width = 300
    context = multiprocessing.get_context("forkserver")
    model = Tower(width)
    synchronizer = synchronizer_of(model, compressed=compressed)
    ours, theirs = context.Pipe()
    arguments = (synchronizer.memory, width, compressed, theirs)
    worker = context.Process(target=fetch_at_full_speed, args=arguments)
    worker.start()
    theirs.close()
    assert ours.recv() == "ready"
    chance = random.Random(1)
    versions = itertools.count(1)
    end = time.monotonic() + SECONDS_AT_FULL_SPEED
    while time.monotonic() < end or not ours.poll():
        publish(synchronizer, model, *itertools.islice(versions, 3))
        time.sleep(chance.uniform(0, 0.005))
        with stopped(worker):  # now and then in the middle of a fetch
            publish(synchronizer, model, *itertools.islice(versions, 2))
    assert ours.recv() == "fetched"
    ours.send("enough")
    worker.join()
    assert worker.exitcode == 0


def test_a_writer_killed_while_it_publishes_leaves_the_previous_version() -> None:
    width = 150
    context = multiprocessing.get_context("fork")  # inherits the synchronizer as it is
    synchronizer, model, receiver, copy = connected(width=width)
    publish(synchronizer, model, 0)
    receiver.fetch()
    layout = double_buffer_layout(
        sum(t.numel() for t in copy.state_dict().values()), np.dtype("f4")
    )
    stamps = memory_of(synchronizer).arrays(layout)
    chance = random.Random(1)
    interrupted = 0
    for _ in range(KILLS):
        arguments = (synchronizer, model, receiver.version + 1)
        writer = context.Process(target=publish_until_killed, args=arguments)
        writer.start()
        while synchronizer.published_version <= receiver.version:  # it may be one behind, see below
            time.sleep(0.0002)
        time.sleep(chance.uniform(0, 0.005))
        writer.kill()
        writer.join()
        interrupted += not np.array_equal(stamps["begun"], stamps["finished"])
        published = synchronizer.published_version
        assert receiver.fetch() in (published, published + 1)  # one may have been all but announced
        assert only_value(copy) == receiver.version % 2048
    assert interrupted > KILLS / 20, "hardly a kill came while weights were copied"
    publish(synchronizer, model, receiver.version + 1)
    assert receiver.fetch() == receiver.version
    assert only_value(copy) == receiver.version % 2048
