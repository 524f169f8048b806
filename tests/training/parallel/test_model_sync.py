"""`ModelSynchronizer` and `WorkerModelReceiver`: which weights a worker fetches, and when."""

import gc
import os
import time
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from keisei.training.parallel.model_sync import (
    NOTHING_PUBLISHED,
    ModelSynchronizer,
    VersionGoneError,
    WorkerModelReceiver,
    load_weights_bytes,
)
from keisei.training.parallel.shared_memory import SharedMemoryError
from tests.training.parallel.synced_towers import (
    Tower,
    connected,
    fill,
    memory_of,
    only_value,
    publish,
    synchronizer_of,
)

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
    started = time.perf_counter()
    publish(synchronizer, model, 1, 2)
    elapsed = time.perf_counter() - started
    assert (synchronizer.syncs, synchronizer.bytes) == (2, 2 * len(weights_as_bytes(model, True)))
    assert 0 < synchronizer.seconds < elapsed


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


def test_too_little_memory_says_so() -> None:
    with torch.device("meta"):
        model = nn.Linear(2**24, 2**24)
    with pytest.raises(SharedMemoryError, match="MB of memory to share"):
        synchronizer_of(model)


# Half precision, and weights as bytes


def weights_as_bytes(model: nn.Module, compressed: bool) -> bytes:
    """All weights end to end, in the order of the `state_dict`."""
    kind = np.float16 if compressed else np.float32
    weights = [tensor.numpy().ravel().astype(kind) for tensor in model.state_dict().values()]
    return np.concatenate(weights).tobytes()


@settings(max_examples=50)
@given(st.integers(0, 2**32), st.floats(-4, 4))
def test_half_precision_rounds_by_one_part_in_2048(seed: int, magnitude: float) -> None:
    model, copy = Tower(), Tower().to(memory_format=torch.channels_last)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.normal_(generator=generator).mul_(10**magnitude)
    synchronizer = synchronizer_of(model, shared=False, compressed=True)
    synchronizer.publish(0)
    load_weights_bytes(copy, synchronizer.published_bytes(), True)
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
