"""`OrderBoard`: no order is lost, whoever sleeps when."""

import multiprocessing
import random
import threading
import time

import numpy as np
import pytest

from keisei.training.parallel.order_board import OrderBoard, order_board_layout
from keisei.training.parallel.shared_memory import SharedMemory, size_of

ORDER = 24
LAYOUT = order_board_layout(3, ORDER)


def new_board(patience=0.0, memory=None):
    memory = memory or SharedMemory(size_of(LAYOUT))
    return OrderBoard(memory.arrays(LAYOUT), ORDER, patience=patience)


def order_of(ticket):
    return np.array([ticket, -ticket, 7 * ticket], np.int64).tobytes()


def obey(memory, patience, pipe, report, orders):
    """A helper: carries out `orders` orders at uneven speed and sends them all home."""
    board, uneven = new_board(patience, memory), random.Random(1)
    ticket, seen = 0, []
    for _ in range(orders):
        ticket, order = board.next_order(1, ticket, pipe)
        seen.append((ticket, order))
        if uneven.random() < 0.2:
            time.sleep(uneven.random() * 2e-3)
        board.answer(1, ticket, pipe)
    report.send(seen)


@pytest.mark.parametrize(("main", "helper"), [(0.0, 0.0), (3e-4, 3e-4), (0.0, 1e-3), (1e-3, 0.0)])
def test_every_order_is_carried_out_once(main, helper):
    orders, uneven = 1500, random.Random(2)
    context = multiprocessing.get_context("forkserver")
    memory = SharedMemory(size_of(LAYOUT))
    board = new_board(main, memory)
    (pipe, theirs), (report, reporter) = context.Pipe(), context.Pipe()
    arguments = (memory, helper, theirs, reporter, orders)
    process = context.Process(target=obey, args=arguments, daemon=True)
    process.start()

    def wakes_us():
        if not pipe.poll(30):
            return False
        pipe.recv_bytes()
        return True

    for ticket in range(1, orders + 1):
        if uneven.random() < 0.2:
            time.sleep(uneven.random() * 2e-3)
        board.post(1, ticket, order_of(ticket), pipe)
        assert board.await_answer(1, ticket, wakes_us)
    assert report.recv() == [(ticket, order_of(ticket)) for ticket in range(1, orders + 1)]
    process.join(30)


def test_without_a_message_there_is_no_answer():
    board = new_board()
    pipe, theirs = multiprocessing.Pipe()
    board.post(2, 5, order_of(5), pipe)
    assert not board.await_answer(2, 5, lambda: False)
    assert not theirs.poll()  # nobody slept
    assert board.posted(2) == 5


def test_an_older_answer_is_not_taken_for_a_newer_one():
    board = new_board(1e-3)
    pipe, theirs = multiprocessing.Pipe()
    board.post(1, 5, order_of(5), pipe)
    board.answer(1, 4, theirs)
    assert not board.await_answer(1, 5, lambda: False)
    board.answer(1, 5, theirs)
    assert board.await_answer(1, 5, lambda: False)


def test_a_sleeper_ends_when_the_other_side_is_gone():
    board = new_board()
    pipe, theirs = multiprocessing.Pipe()
    ended = threading.Event()

    def sleep():
        with pytest.raises(EOFError):
            board.next_order(1, 0, theirs)
        ended.set()

    sleeper = threading.Thread(target=sleep, daemon=True)
    sleeper.start()
    time.sleep(0.05)
    pipe.close()
    assert ended.wait(10)
