import gc
import multiprocessing
import os
import pickle
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keisei.training.parallel.shared_memory import (
    ArraySpec,
    SharedMemory,
    SharedMemoryError,
    size_of,
)

LAYOUT = [
    ArraySpec("stamp", np.int64, ()),
    ArraySpec("bytes", np.uint8, (3, 5)),
    ArraySpec("empty", np.float64, (0, 7)),
    ArraySpec("values", np.float32, (100,)),
]
START_METHODS = ["spawn", "forkserver"]


@pytest.fixture(autouse=True)
def _nothing_stays_in_dev_shm() -> Iterator[None]:
    before = names_in_dev_shm()
    yield
    assert names_in_dev_shm() <= before


@pytest.fixture(params=["memory file", "unlinked file"])
def _both_kinds_of_file(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[None]:
    if request.param == "unlinked file":
        monkeypatch.delattr(os, "memfd_create")
        monkeypatch.delattr(os, "posix_fallocate")
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield
    assert list(tmp_path.iterdir()) == []


def names_in_dev_shm() -> set[str]:
    """Without semaphores: other programs on this machine make them all the time."""
    return {name for name in os.listdir("/dev/shm") if not name.startswith("sem.")}


def open_files() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def count_our_files() -> int:
    files = [file for file in Path("/proc/self/fd").iterdir() if file.is_symlink()]
    return sum("memfd:keisei" in str(file.readlink()) for file in files)


def mapped_bytes() -> int:
    """Bytes that this process maps of our files."""
    gc.collect()
    size = 0
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "keisei" in line and "(deleted)" in line:
            start, end = (int(address, 16) for address in line.split()[0].split("-"))
            size += end - start
    return size


# What children do. Each takes what the test hands over and answers through a pipe.


def double_the_values(memory: SharedMemory, answers: Connection) -> None:
    arrays = memory.arrays(LAYOUT)
    arrays["values"] *= 2
    arrays["stamp"][...] = os.getpid()
    answers.send(memory.size)


def say_when_closed(memory: SharedMemory, answers: Connection) -> None:
    before = len(os.listdir("/proc/self/fd"))
    memory.close()
    answers.send(before - len(os.listdir("/proc/self/fd")))


def count_our_files_here_and_in_a_program(memory: SharedMemory, answers: Connection) -> None:
    count = (
        "import os; files = [f'/proc/self/fd/{n}' for n in os.listdir('/proc/self/fd')];"
        "print(sum('memfd:keisei' in os.readlink(file) for file in files if os.path.lexists(file)))"
    )
    output = subprocess.run([sys.executable, "-c", count], stdout=-1, check=True, close_fds=False)
    answers.send((count_our_files(), int(output.stdout)))


def ask_for_too_much(answers: Connection) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with pytest.raises(SharedMemoryError) as raised:
            SharedMemory(2_000_000)
    answers.send((str(raised.value), len(os.listdir("/proc/self/fd")) - before))


def hold_until_killed(memory: SharedMemory, answers: Connection) -> None:
    memory.arrays(LAYOUT)["values"][:] = 7
    answers.send("written")
    signal.pause()


def run_child(start_method: str, target: Callable[..., None], *arguments: Any) -> Any:
    """What a child process answers."""
    context = multiprocessing.get_context(start_method)
    ours, theirs = context.Pipe()
    child = context.Process(target=target, args=(*arguments, theirs))
    child.start()
    theirs.close()
    answer = ours.recv()
    child.join()
    assert child.exitcode == 0
    return answer


@pytest.mark.usefixtures("_both_kinds_of_file")
@pytest.mark.parametrize("start_method", START_METHODS)
def test_parent_and_child_see_the_same_memory(start_method: str) -> None:
    memory = SharedMemory(size_of(LAYOUT))
    arrays = memory.arrays(LAYOUT)
    arrays["values"][:] = np.arange(100)
    assert run_child(start_method, double_the_values, memory) == memory.size
    assert np.array_equal(arrays["values"], 2 * np.arange(100, dtype=np.float32))
    assert arrays["stamp"] > 0
    memory.close()


@pytest.mark.parametrize("start_method", START_METHODS)
def test_the_memory_can_be_given_to_one_worker_after_another(start_method: str) -> None:
    memory = SharedMemory(size_of(LAYOUT))
    arrays = memory.arrays(LAYOUT)
    arrays["values"][:] = 1
    before = open_files()
    for _ in range(3):
        run_child(start_method, double_the_values, memory)
    assert (arrays["values"] == 8).all()
    assert open_files() <= before + 3  # the start method's own, opened once


@pytest.mark.parametrize("start_method", START_METHODS)
def test_a_worker_can_close_its_side(start_method: str) -> None:
    memory = SharedMemory(size_of(LAYOUT))
    assert run_child(start_method, say_when_closed, memory) == 2
    memory.arrays(LAYOUT)["values"][:] = 1


@pytest.mark.parametrize("start_method", START_METHODS)
def test_programs_that_a_worker_runs_do_not_inherit_the_memory(start_method: str) -> None:
    memory = SharedMemory(size_of(LAYOUT))
    assert run_child(start_method, count_our_files_here_and_in_a_program, memory) == (2, 0)


def test_a_killed_worker_takes_nothing_with_it() -> None:
    context = multiprocessing.get_context("forkserver")
    memory = SharedMemory(size_of(LAYOUT))
    ours, theirs = context.Pipe()
    child = context.Process(target=hold_until_killed, args=(memory, theirs))
    child.start()
    theirs.close()
    assert ours.recv() == "written"
    child.kill()
    child.join()
    assert (memory.arrays(LAYOUT)["values"] == 7).all()


@pytest.mark.usefixtures("_both_kinds_of_file")
def test_no_name_leads_to_the_memory() -> None:
    memory = SharedMemory(123_457)
    files = [file.stat() for file in Path("/proc/self/fd").iterdir() if file.exists()]
    assert [file.st_nlink for file in files if file.st_size == memory.size] == [0, 0]


@pytest.mark.usefixtures("_both_kinds_of_file")
def test_memory_starts_as_zeros() -> None:
    arrays = SharedMemory(size_of(LAYOUT)).arrays(LAYOUT)
    assert not any(array.any() for array in arrays.values())


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["i1", "i2", "f4", "i8", "?"]),
            st.lists(st.integers(0, 9), max_size=3).map(tuple),
        ),
        min_size=1,
        max_size=8,
    ),
    st.integers(0, 3),
)
def test_arrays_are_aligned_and_never_overlap(
    shapes: list[tuple[str, tuple[int, ...]]], lines: int
) -> None:
    layout = [ArraySpec(str(n), dtype, shape) for n, (dtype, shape) in enumerate(shapes)]
    memory = SharedMemory(64 * lines + size_of(layout) + 1)
    arrays = memory.arrays(layout, 64 * lines)
    for number, array in enumerate(arrays.values()):
        array[...] = number % 2
    for number, (array, (dtype, shape)) in enumerate(zip(arrays.values(), shapes, strict=True)):
        assert (array.dtype, array.shape) == (np.dtype(dtype), shape)
        assert array.size == 0 or array.ctypes.data % 64 == 0
        assert (array == number % 2).all()


@pytest.mark.parametrize("offset", [-64, 1, 32, 64])
def test_arrays_that_do_not_fit_are_refused(offset: int) -> None:
    memory = SharedMemory(size_of(LAYOUT))
    with pytest.raises(ValueError, match="have to fit"):
        memory.arrays(LAYOUT, offset)


@pytest.mark.parametrize("size", [0, -1])
def test_there_is_no_memory_of_no_size(size: int) -> None:
    with pytest.raises(ValueError, match="at least 1 byte"):
        SharedMemory(size)


def test_too_little_space_is_one_sentence_and_leaves_no_file_open() -> None:
    message, left_open = run_child("forkserver", ask_for_too_much)
    assert message.startswith(
        "2.0 MB of memory to share with workers cannot be had (File too large"
    )
    assert left_open == 0


def test_more_memory_than_there_is_is_refused_before_the_kernel_kills_us() -> None:
    before = open_files()
    with pytest.raises(SharedMemoryError, match=r"1,125,899,906\.8 MB .* MB are free"):
        SharedMemory(2**50)
    assert open_files() == before


@pytest.mark.usefixtures("_both_kinds_of_file")
def test_a_thousand_memories_leave_no_file_and_no_mapping() -> None:
    before = open_files(), mapped_bytes()
    for _ in range(1000):
        memory = SharedMemory(100_000)
        memory.arrays(LAYOUT)["values"][:] = 1
        memory.close()
    assert (open_files(), mapped_bytes()) == before


def test_memory_that_is_forgotten_closes_itself() -> None:
    before = open_files(), mapped_bytes()
    for _ in range(10):
        SharedMemory(100_000).arrays(LAYOUT)
    assert (open_files(), mapped_bytes()) == before


def test_arrays_outlive_the_closing_of_their_memory() -> None:
    before = open_files(), mapped_bytes()
    memory = SharedMemory(size_of(LAYOUT))
    values = memory.arrays(LAYOUT)["values"]
    memory.close()
    memory.close()
    values[:] = 3
    assert values.sum() == 300
    assert mapped_bytes() > before[1]
    del values
    assert (open_files(), mapped_bytes()) == before


def test_closed_memory_gives_no_arrays() -> None:
    memory = SharedMemory(size_of(LAYOUT))
    memory.close()
    with pytest.raises(ValueError, match="closed"):
        memory.arrays(LAYOUT)


def test_memory_is_not_sent_to_a_process_that_runs_already() -> None:
    with pytest.raises(RuntimeError, match="inheritance"):
        pickle.dumps(SharedMemory(1))
