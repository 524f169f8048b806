"""Slots and pipes: nothing is written where another writes, and nothing is lost."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keisei.training.parallel.child_process import child_context
from keisei.training.parallel.communication import (
    Kind,
    MainProcessGoneError,
    Message,
    WorkerCommunicator,
)
from keisei.training.parallel.rollout import RolloutLayout, TornRolloutError
from keisei.training.parallel.rollout_statistics import RolloutStatistics
from tests.core.small import small_config

STEPS, GAMES = 2, 3
LAYOUT = RolloutLayout(
    small_config(games={"count": GAMES, "max_moves": 9}, training={"rollout_length": STEPS}), GAMES
)
number = st.integers(-(2**63), 2**63 - 1)


@pytest.fixture(params=[True, False], ids=["shared", "pipes"])
def communicator(request):
    """Two slots."""
    communicator = WorkerCommunicator(child_context(), LAYOUT, slots=2, shared=request.param)
    yield communicator
    communicator.close()


def order(number):
    return Message(Kind.PLAY, epoch=1, number=number)


def received(communicator, *, seconds=5):
    """The next thing that a worker says."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for said in communicator.receive(0.1):
            return said
    raise AssertionError("nobody said anything")


def play(link, value):
    """Take the next order and commit a rollout full of `value`."""
    message = link.receive(5)
    rollout = link.rollout(message.slot)
    rollout.begin(message.epoch, message.number)
    rollout.buffer.add_batch(
        positions=np.full((GAMES, 100), value),
        legal=np.full((GAMES, 593), value, np.uint16),
        legal_counts=np.full(GAMES, 2),
        **dict.fromkeys(
            ("actions", "log_probs", "values", "rewards", "cut_values", "versions"), value
        ),
        **dict.fromkeys(("ends", "truncations", "trains"), False),
    )
    rollout.finish(np.full(GAMES, value, np.float32), RolloutStatistics(steps=value), {})
    link.commit(message, b"prefix")
    return message


def collect(communicator):
    """(worker, value) of the next committed rollout, whose slot is given back."""
    worker, message = received(communicator)
    assert message.kind == Kind.COMMITTED
    assert message.payload.startswith(b"prefix")
    rollout = communicator.committed(worker, message, len(b"prefix"))
    value = int(rollout.last_values[0])
    assert (rollout.buffer.positions[0] == value).all()
    assert rollout.buffer.legal_pool[: rollout.buffer.legal_used].tolist() == [value] * 2 * GAMES
    assert rollout.statistics.steps == value
    communicator.release(message.slot)
    return worker, value


@given(
    kind=st.sampled_from(Kind),
    numbers=st.tuples(number, number, number, number, number),
    payload=st.binary(max_size=100),
)
def test_a_message_is_the_same_after_its_journey(kind, numbers, payload):
    message = Message(kind, *numbers, payload)
    assert Message.decode(message.encode()) == message


def test_rollouts_arrive_as_they_were_written(communicator):
    links = [communicator.connect(worker) for worker in (0, 1)]
    for first in range(1, 60, 2):
        communicator.grant(0, order(first))
        communicator.grant(1, order(first))
        for worker, link in enumerate(links):
            play(link, first + worker)
        collected = {collect(communicator) for _ in range(2)}
        assert collected == {(0, first), (1, first + 1)}


def test_a_full_ring_has_no_slot_to_grant_until_one_is_read(communicator):
    link = communicator.connect(0)
    communicator.grant(0, order(0))
    communicator.grant(0, order(1))
    assert communicator.free_slots == 0
    play(link, 5)
    play(link, 6)
    assert communicator.free_slots == 0  # committed, not read
    if communicator.shared:
        assert [collect(communicator) for _ in range(2)] == [(0, 5), (0, 6)]
    else:  # the second waits in the pipe
        assert collect(communicator) == (0, 5)
        assert communicator.free_slots == 1
        assert collect(communicator) == (0, 6)
    assert communicator.free_slots == 2


def test_the_slots_of_a_dead_worker_are_granted_again(communicator):
    communicator.connect(0)
    communicator.grant(0, order(0))
    communicator.grant(0, order(1))
    communicator.disconnect(0, dead=True)
    assert communicator.free_slots == 2


def test_the_slots_of_a_worker_that_may_live_are_never_granted_again(communicator):
    zombie = communicator.connect(0)
    communicator.grant(0, order(0))
    taken = zombie.receive(5).slot
    communicator.disconnect(0, dead=False)
    assert communicator.free_slots == 1
    link = communicator.connect(1)
    for value in range(1, 6):
        communicator.grant(1, order(value))
        rollout = zombie.rollout(taken)
        rollout.begin(1, value)  # it wakes up and writes
        assert play(link, value).slot != taken
        assert collect(communicator) == (1, value)


def test_a_rollout_that_was_not_ordered_is_refused(communicator):
    links = [communicator.connect(worker) for worker in (0, 1)]
    communicator.grant(0, order(7))
    play(links[0], 1)
    worker, message = received(communicator)
    for wrong_worker, wrong in (
        (1, message),
        (worker, message._replace(number=8)),
        (worker, message._replace(slot=1 - message.slot)),
        (worker, message._replace(epoch=2)),
    ):
        with pytest.raises(TornRolloutError):
            communicator.committed(wrong_worker, wrong, len(b"prefix"))
        assert communicator.free_slots == 1
    assert communicator.committed(worker, message, len(b"prefix")).last_values.tolist() == [1] * 3


def test_a_worker_that_is_gone_is_noticed_after_its_last_words(communicator):
    link = communicator.connect(0)
    link.send(Message(Kind.READY, 1))
    link.send(Message(Kind.FAILED, 1, payload=b"why"))
    link.close()
    said = list(communicator.receive(5))
    assert [(w, m and m.kind) for w, m in said] == [(0, Kind.READY), (0, Kind.FAILED), (0, None)]
    assert said[1][1].payload == b"why"
    communicator.send(0, Message(Kind.PAUSE, 1))  # nobody hears it, and nothing happens
    communicator.disconnect(0, dead=True)
    communicator.send(0, Message(Kind.RESUME, 1))
    assert list(communicator.receive(0)) == []


def test_a_worker_notices_that_the_main_process_is_gone(communicator):
    link = communicator.connect(0)
    assert link.receive(0) is None
    communicator.disconnect(0, dead=True)
    with pytest.raises(MainProcessGoneError):
        link.receive(5)
    with pytest.raises(MainProcessGoneError):
        link.send(Message(Kind.ALIVE, 1))


def test_of_weights_that_wait_in_front_of_a_slow_worker_only_the_newest_arrive():
    communicator = WorkerCommunicator(child_context(), LAYOUT, slots=1, shared=False)
    try:
        link = communicator.connect(0)
        weights = bytes(3_000_000)  # more than a pipe holds
        for version in range(10):
            communicator.send(0, Message(Kind.OPPONENT, 1, version=version, payload=b"small"))
            communicator.send(0, Message(Kind.PLAY, 1, number=version))
            communicator.send(0, Message(Kind.WEIGHTS, 1, version=version, payload=weights))
        heard = []
        while (message := link.receive(1)) is not None:
            heard.append(message)
        of_kind = {kind: [message for message in heard if message.kind == kind] for kind in Kind}
        assert [message.number for message in of_kind[Kind.PLAY]] == list(range(10))
        versions = [message.version for message in of_kind[Kind.WEIGHTS]]
        assert versions[-1] == 9
        assert len(versions) <= 3  # perhaps one under way, and one that was just taken
        assert versions == sorted(versions)
        assert all(len(message.payload) == len(weights) for message in of_kind[Kind.WEIGHTS])
        assert of_kind[Kind.OPPONENT][-1].version == 9
    finally:
        communicator.close()
