import gc
import itertools
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from keisei.training.parallel.double_buffer import double_buffer_layout
from keisei.training.parallel.model_sync import (
    NOTHING_PUBLISHED,
    ModelSynchronizer,
    VersionGoneError,
    WorkerModelReceiver,
    load_weights_bytes,
)
from keisei.training.parallel.shared_memory import SharedMemory, SharedMemoryError

SECONDS_AT_FULL_SPEED = 2.0
KILLS = 150


class Tower(nn.Module):
    """A small model with tensors of all shapes, or a large one that takes a while to copy."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3)
        self.body = nn.Linear(width, 64 * width)
        self.scale = nn.Parameter(torch.tensor(1.0))
        self.register_buffer("mean", torch.zeros(width))


def fill(model: nn.Module, value: float) -> None:
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.fill_(value)


def only_value(model: nn.Module) -> float:
    """The one value that all weights have."""
    values = torch.cat([tensor.flatten() for tensor in model.state_dict().values()])
    low, high = values.aminmax()
    assert low == high, "weights of two publications are mixed"
    return float(low)


def synchronizer_of(
    model: nn.Module, *, compressed: bool = False, **rest: Any
) -> ModelSynchronizer:
    rest = {"max_policy_lag": 8, **rest}
    return ModelSynchronizer(model, compression_enabled=compressed, **rest)


def connected(
    *, compressed: bool = False, width: int = 8
) -> tuple[ModelSynchronizer, nn.Module, WorkerModelReceiver, nn.Module]:
    """A writer with its model, and a reader with its own."""
    model, copy = Tower(width), Tower(width)
    synchronizer = synchronizer_of(model, compressed=compressed)
    receiver = WorkerModelReceiver(memory_of(synchronizer), copy, compression_enabled=compressed)
    return synchronizer, model, receiver, copy


def memory_of(synchronizer: ModelSynchronizer) -> SharedMemory:
    assert synchronizer.memory is not None
    return synchronizer.memory


def publish(synchronizer: ModelSynchronizer, model: nn.Module, *versions: int) -> None:
    for version in versions:
        fill(model, version % 2048)  # whole numbers that float16 has
        synchronizer.publish(version)


# What a worker fetches


@pytest.mark.parametrize("compressed", [False, True])
def test_a_worker_gets_the_newest_weights_once(compressed: bool) -> None:
    synchronizer, model, receiver, copy = connected(compressed=compressed)
    assert (receiver.newest_version(), receiver.fetch()) == (NOTHING_PUBLISHED, None)
    publish(synchronizer, model, 1, 2, 3)
    assert receiver.newest_version() == synchronizer.published_version == 3
    assert (receiver.fetch(), receiver.version, only_value(copy)) == (3, 3, 3)
    assert receiver.fetch() is None


def test_weights_arrive_exactly_and_in_the_tensors_that_the_model_has() -> None:
    synchronizer, model, receiver, copy = connected()
    tensors = [tensor.data_ptr() for tensor in copy.state_dict().values()]
    synchronizer.publish(0)
    assert receiver.fetch() == 0
    for name, tensor in copy.state_dict().items():
        assert torch.equal(tensor, model.state_dict()[name])
    assert [tensor.data_ptr() for tensor in copy.state_dict().values()] == tensors


def test_weights_that_the_model_was_given_later_are_published() -> None:
    synchronizer, model, receiver, copy = connected()
    model.to(torch.float64)  # every tensor is replaced
    publish(synchronizer, model, 5)
    assert (receiver.fetch(), only_value(copy)) == (5, 5)


def test_a_version_published_again_is_fetched_again() -> None:
    synchronizer, model, receiver, copy = connected()
    publish(synchronizer, model, 4)
    assert receiver.fetch() == 4
    fill(model, 40)
    synchronizer.publish(4)
    assert (receiver.fetch(), only_value(copy)) == (4, 40)


def test_a_wanted_version_is_loaded_while_it_is_one_of_the_last_two() -> None:
    synchronizer, model, receiver, copy = connected()
    publish(synchronizer, model, 6, 7, 8)
    assert (receiver.fetch(7), only_value(copy)) == (7, 7)
    assert (receiver.fetch(7), receiver.version) == (None, 7)
    assert (receiver.fetch(8), only_value(copy)) == (8, 8)
    assert (receiver.fetch(7), only_value(copy)) == (7, 7)


def test_a_wanted_version_that_is_not_published_yet_is_waited_for() -> None:
    synchronizer, model, receiver, copy = connected()
    assert receiver.fetch(0) is None
    publish(synchronizer, model, 1)
    fill(copy, 77)
    assert (receiver.fetch(2), receiver.version, only_value(copy)) == (None, NOTHING_PUBLISHED, 77)
    publish(synchronizer, model, 2)
    assert receiver.fetch(2) == 2


@pytest.mark.parametrize("wanted", [0, 5, 6])
def test_a_wanted_version_that_was_overwritten_is_an_error(wanted: int) -> None:
    synchronizer, model, receiver, _ = connected()
    publish(synchronizer, model, 5, 6, 7, 8)
    with pytest.raises(VersionGoneError, match=f"Version {wanted} .* newest is 8"):
        receiver.fetch(wanted)


def test_a_wanted_version_that_the_model_has_is_not_missed_when_it_is_overwritten() -> None:
    synchronizer, model, receiver, copy = connected()
    publish(synchronizer, model, 5)
    assert receiver.fetch(5) == 5
    publish(synchronizer, model, 6, 7)
    assert (receiver.fetch(5), only_value(copy)) == (None, 5)


@pytest.mark.parametrize("power", [31, 32, 53, 63])
def test_versions_have_64_bits(power: int) -> None:
    synchronizer, _, receiver, _ = connected()
    for version in range(2**power - 3, min(2**power + 3, 2**63)):
        synchronizer.publish(version)
        assert receiver.newest_version() == synchronizer.published_version == version
        assert receiver.fetch(version) == version == receiver.version


@pytest.mark.parametrize("version", [-1, 2**63])
def test_other_versions_are_refused(version: int) -> None:
    synchronizer, _, receiver, _ = connected()
    with pytest.raises(ValueError, match="from 0 to"):
        synchronizer.publish(version)
    assert (synchronizer.syncs, receiver.fetch()) == (0, None)


def test_a_model_of_another_size_is_refused() -> None:
    synchronizer = synchronizer_of(Tower(8))
    for model, compressed in ((Tower(9), False), (Tower(8), True)):
        with pytest.raises(ValueError, match="one configuration"):
            WorkerModelReceiver(memory_of(synchronizer), model, compression_enabled=compressed)


def test_a_model_with_whole_numbers_among_its_weights_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'num_batches_tracked' of this model is torch\.int64"):
        synchronizer_of(nn.BatchNorm2d(3))


def test_publications_are_counted() -> None:
    synchronizer, model, _, _ = connected(compressed=True)
    publish(synchronizer, model, 1, 2)
    assert (synchronizer.syncs, synchronizer.bytes) == (2, 2 * len(weights_as_bytes(model, True)))
    assert 0 < synchronizer.seconds < 1


def test_synchronizers_and_receivers_leave_nothing_open() -> None:
    publish(*connected()[:2], 1)
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(100):
        synchronizer, model, receiver, _ = connected()
        publish(synchronizer, model, 1)
        receiver.fetch()
    del synchronizer, receiver
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


# Half precision, and weights as bytes


def weights_as_bytes(model: nn.Module, compressed: bool) -> bytes:
    """All weights end to end, in the order of the `state_dict`."""
    kind = np.float16 if compressed else np.float32
    weights = [tensor.numpy().ravel().astype(kind) for tensor in model.state_dict().values()]
    return np.concatenate(weights).tobytes()


@settings(max_examples=50)
@given(st.integers(0, 2**32), st.floats(-4, 4))
def test_half_precision_rounds_by_one_part_in_2048(seed: int, magnitude: float) -> None:
    model, copy = Tower(), Tower()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.normal_(generator=generator).mul_(10**magnitude)
    load_weights_bytes(copy, weights_as_bytes(model, True), True)
    for name, tensor in model.state_dict().items():
        smallest_step = 2**-24
        error = (copy.state_dict()[name] - tensor).abs()
        assert (error <= torch.maximum(tensor.abs() / 2048, torch.tensor(smallest_step / 2))).all()


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_published_weights_can_travel_as_bytes(shared: bool, compressed: bool) -> None:
    model, copy = Tower(), Tower()
    synchronizer = synchronizer_of(model, shared=shared, compressed=compressed)
    assert (synchronizer.memory is not None) == shared
    with pytest.raises(ValueError, match="yet"):
        synchronizer.published_bytes()
    publish(synchronizer, model, 1, 2, 3)
    assert synchronizer.published_bytes() == weights_as_bytes(model, compressed)
    fill(model, 99)  # learning goes on
    load_weights_bytes(copy, synchronizer.published_bytes(), compressed)
    assert only_value(copy) == 3


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data + b"\0" * 4])
def test_weights_of_the_wrong_size_are_refused(
    compressed: bool, change: Callable[[bytes], bytes]
) -> None:
    model = Tower()
    fill(model, 1)
    data = change(weights_as_bytes(Tower(), compressed))
    with pytest.raises(ValueError, match=f"{len(data)} bytes where this model takes"):
        load_weights_bytes(model, data, compressed)
    assert only_value(model) == 1


# When to publish


def test_a_publication_is_due_every_interval() -> None:
    synchronizer = synchronizer_of(Tower(), interval=3)
    assert [synchronizer.should_sync(n, largest_lag=8) for n in (1, 2, 3, 4)] == [0, 0, 1, 1]


def updates_between_publications(synchronizer: ModelSynchronizer, *lags: int) -> list[int]:
    """How many updates each publication comes after, with the lags of one each."""
    counts = []
    for lag in lags:
        updates = 1
        while not synchronizer.should_sync(updates, lag):
            updates += 1
        counts.append(updates)
    return counts


def test_an_adaptive_interval_shrinks_at_once_and_grows_one_by_one() -> None:
    synchronizer = synchronizer_of(Tower(), interval=4, adaptive=True, max_policy_lag=8)
    assert updates_between_publications(synchronizer, 0, 4, 3) == [4, 4, 4]
    assert synchronizer.should_sync(2, largest_lag=5)
    assert updates_between_publications(synchronizer, 4, 3) == [2, 2]
    assert updates_between_publications(synchronizer, 8, 8, 8) == [1, 1, 1]
    assert updates_between_publications(synchronizer, 2, 2, 1, 0, 0, 3) == [1, 2, 3, 4, 4, 4]


# Processes


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
    """Fetch until told that it is enough; answer how many fetches brought something new."""
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
    answers.send(fetched)


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
    while time.monotonic() < end:
        publish(synchronizer, model, *itertools.islice(versions, 3))
        time.sleep(chance.uniform(0, 0.005))
        with stopped(worker):  # now and then in the middle of a fetch
            publish(synchronizer, model, *itertools.islice(versions, 2))
    ours.send("enough")
    assert ours.recv() > 20
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


def test_too_little_memory_says_so() -> None:
    with torch.device("meta"):
        model = nn.Linear(2**24, 2**24)
    with pytest.raises(SharedMemoryError, match="MB of memory to share"):
        synchronizer_of(model)
