"""Rows of a batch shared out to threads."""

from threading import Barrier, get_ident

import numpy as np
import pytest

from keisei.core.row_threads import in_threads, number_of_parts


@pytest.mark.parametrize(
    ("rows", "threads", "parts"),
    [(0, 4, 1), (1, 4, 1), (63, 4, 1), (64, 4, 2), (100, 4, 3), (128, 4, 4), (1000, 4, 4)],
)
def test_a_thread_has_at_least_32_rows_or_all(rows, threads, parts):
    assert number_of_parts(rows, threads) == parts
    assert number_of_parts(rows, 1) == 1


@pytest.mark.parametrize("rows", [0, 5, 64, 97, 1001])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_each_row_is_worked_on_once_by_the_part_it_belongs_to(rows, threads):
    worked, sizes = np.zeros(rows, int), {}

    def work(part, number):
        worked[part] += 1
        sizes[number] = part.stop - part.start

    in_threads(rows, threads, work)
    assert (worked == 1).all()
    assert sorted(sizes) == list(range(number_of_parts(rows, threads)))
    assert max(sizes.values()) - min(sizes.values()) <= 1


def test_the_parts_are_worked_on_at_the_same_time():
    together, workers = Barrier(3, timeout=60), set()

    def work(*_):
        together.wait()
        workers.add(get_ident())

    in_threads(96, 3, work)
    assert len(workers) == 3
    assert get_ident() not in workers


def test_a_single_part_stays_in_this_thread():
    workers = []
    in_threads(63, 3, lambda *_: workers.append(get_ident()))
    assert workers == [get_ident()]


@pytest.mark.parametrize("rows", [10, 96])
@pytest.mark.parametrize("failing", [0, -1])
def test_what_goes_wrong_in_a_part_is_told(rows, failing):
    numbers = range(number_of_parts(rows, 3))

    def work(_, number):
        if number == numbers[failing]:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        in_threads(rows, 3, work)
    done = []
    in_threads(rows, 3, lambda _, number: done.append(number))
    assert sorted(done) == list(numbers)
