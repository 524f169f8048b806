"""A kill at any moment leaves whole checkpoints, and what it leaves behind is cleared away."""

import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
import torch

from keisei.training.checkpoint_format import load_checkpoint
from keisei.training.checkpoints import CheckpointStore
from tests.training.checkpoint_samples import PROCESSES, contents, names, save


def save_in_a_loop(folder: Path, keep: int, first: int, reports: Connection) -> None:
    """Save each update twice, mark some best, and report each save that is complete."""
    torch.set_num_threads(1)
    store = CheckpointStore(folder, keep=keep)
    for update in itertools.count(first):
        for attempt in (0, 1):
            path = save(store, update, attempt=attempt, size=20_000)
            reports.send((update, attempt))
        if update % 3 == 0:
            store.mark_best(path)


@contextmanager
def saving(folder: Path, *, keep: int, first: int) -> Iterator[tuple[BaseProcess, Connection]]:
    """A child that saves until it is killed, at the latest here; its first save is complete."""
    reports, child_end = PROCESSES.Pipe(duplex=False)
    child = PROCESSES.Process(target=save_in_a_loop, args=(folder, keep, first, child_end))
    child.start()
    child_end.close()
    try:
        reports.poll(None)
        yield child, reports
    finally:
        child.kill()
        child.join()
        reports.close()


def everything_reported(reports: Connection) -> Iterator[tuple[int, int]]:
    """What a child that is no more has sent."""
    with suppress(EOFError):
        while True:
            yield reports.recv()


def test_after_kill_9_at_any_moment_the_last_reported_save_or_a_newer_one_is_there(
    folder: Path,
) -> None:
    moments = random.Random(20)
    store = CheckpointStore(folder, keep=2)
    first, interrupted = 1, 0
    for _ in range(40):
        with saving(folder, keep=2, first=first) as (child, reports):
            time.sleep(moments.uniform(0, 0.03))
            child.kill()
            reported = list(everything_reported(reports))
        interrupted += any(not name.startswith(("update-", "best")) for name in names(folder))
        checkpoint, problems = store.newest()
        assert problems == []
        assert contents(checkpoint) >= reported[-1]
        best = store.best()
        assert best is None or load_checkpoint(best).update % 3 == 0
        first = contents(checkpoint)[0] + 1
    assert interrupted > 0  # or the kills never met a save
    save(store, first)
    assert all(name.startswith(("update-", "best")) for name in names(folder))


FILE_EVENTS = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.scandir", "os.listdir")


def save_and_die(folder: Path, update: int, events_before_death: int) -> None:
    countdown = itertools.count(events_before_death, -1)

    def die_in_time(event: str, _: tuple[Any, ...]) -> None:
        if event in FILE_EVENTS and next(countdown) == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    store = CheckpointStore(folder, keep=1)
    sys.addaudithook(die_in_time)
    save(store, update, attempt=1)
    store.mark_best(folder / f"update-{update:08d}")


@pytest.mark.parametrize("update", [2, 3], ids=["replacing", "adding"])
def test_killed_before_any_one_file_operation_the_old_or_the_new_checkpoint_is_there(
    tmp_path: Path, update: int
) -> None:
    outcomes = []
    for events_before_death in itertools.count():
        folder = tmp_path / f"{events_before_death}"
        store = CheckpointStore(folder, keep=1)
        store.mark_best(save(store, 1))
        save(store, 2)
        args = (folder, update, events_before_death)
        child = PROCESSES.Process(target=save_and_die, args=args)
        child.start()
        child.join()
        checkpoint, problems = store.newest()
        assert problems == []
        outcomes.append(contents(checkpoint))
        assert all(contents(load_checkpoint(path)) for path in store.paths())
        assert store.best() in (folder / "update-00000001", store.paths()[-1])
        assert contents(load_checkpoint(save(store, update, attempt=2))) == (update, 2)
        assert {"update-00000001", "best", f"update-{update:08d}"} >= set(names(folder))
        if child.exitcode == 0:
            break
        assert child.exitcode == -signal.SIGKILL
    saved = outcomes.index((update, 1))
    assert 5 < saved < len(outcomes) - 5  # kills both before and after the rename
    assert outcomes == [(2, 0)] * saved + [(update, 1)] * (len(outcomes) - saved)


def test_a_reader_never_sees_what_the_writer_is_replacing_or_removing(folder: Path) -> None:
    reader = CheckpointStore(folder, keep=1)
    seen: list[tuple[int, int]] = []
    with saving(folder, keep=1, first=1):
        end = time.monotonic() + 10
        while len(set(seen)) < 50 and time.monotonic() < end:
            checkpoint, problems = reader.newest()
            assert problems == []
            seen.append(contents(checkpoint))
    assert seen == sorted(seen)
    assert len(set(seen)) > 2  # or they never met


# What killed processes leave behind.


def partial_folder(folder: Path, pid: int) -> Path:
    path = folder / f".partial-{pid}-0123abcd"
    path.mkdir(parents=True)
    (path / "tensors.safetensors").write_bytes(b"half")
    return path


@pytest.fixture
def living() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def test_the_leftovers_of_a_dead_process_go_at_the_next_save(
    folder: Path, living: subprocess.Popen[bytes]
) -> None:
    leftover = partial_folder(folder, living.pid)
    store = CheckpointStore(folder, keep=1)
    save(store, 1)
    assert leftover.exists()  # its process may still be writing
    living.kill()
    living.wait()
    save(store, 2)
    assert names(folder) == ["update-00000002"]


def test_leftovers_go_when_their_process_number_is_now_another_process(
    folder: Path, living: subprocess.Popen[bytes]
) -> None:
    partial_folder(folder, os.getpid())
    old = partial_folder(folder, living.pid)
    two_days_ago = time.time() - 2 * 24 * 3600
    os.utime(old, (two_days_ago, two_days_ago))
    partial_folder(folder, 10**30)
    save(CheckpointStore(folder, keep=1), 1)
    assert names(folder) == ["update-00000001"]


def test_a_checkpoint_whose_replacement_was_cut_short_is_still_there(folder: Path) -> None:
    store = CheckpointStore(folder, keep=1)
    path = save(store, 2)
    store.mark_best(path)
    aside = path.rename(folder / "update-00000002.replaced")
    assert store.paths() == [aside]
    assert store.best() == aside
    assert contents(store.newest()[0]) == (2, 0)
    save(store, 3)
    assert names(folder) == ["best", "update-00000002", "update-00000003"]
