"""A disk that is full, or forgets what was not synced."""

import errno
import itertools
import os
import resource
import signal
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from keisei.training.checkpoint_format import CheckpointError, load_checkpoint
from keisei.training.checkpoints import CheckpointStore
from tests.training.checkpoint_samples import PROCESSES, contents, names, save
from tests.training.small_disk import call_on_a_small_disk


def save_with_a_limit_on_file_size(folder: Path, reports: Connection) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # the write then fails with an OSError
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    store = CheckpointStore(folder, keep=2)
    for update in (2, 3):
        try:
            save(store, update, attempt=1, size=10_000)
        except CheckpointError as error:
            reports.send(str(error))


def test_a_write_that_the_kernel_refuses_leaves_the_earlier_checkpoints(
    pair: CheckpointStore, folder: Path
) -> None:
    reports, child_end = PROCESSES.Pipe(duplex=False)
    child = PROCESSES.Process(target=save_with_a_limit_on_file_size, args=(folder, child_end))
    child.start()
    for update in (2, 3):
        assert reports.recv() == (
            f"Update {update} was not saved (File too large); "
            f"the earlier checkpoints in {folder} are intact."
        )
    child.join()
    assert names(folder) == ["update-00000001", "update-00000002"]
    assert [contents(load_checkpoint(path)) for path in pair.paths()] == [(1, 0), (2, 0)]


def fill_the_disk(disk: Path) -> None:
    """Runs on a small filesystem: let saves fail for want of each page in turn, then of a name."""
    folder = disk / "checkpoints"
    store = CheckpointStore(folder, keep=2)
    save(store, 1)
    save(store, 2)
    for pages_left in range(5):  # four of tensors and one of state are needed
        free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
        (disk / "filler").write_bytes(bytes(free - 4096 * pages_left))
        with pytest.raises(CheckpointError, match=r"Update 2 was not saved \(the disk is full\)"):
            save(store, 2, attempt=1, size=2_000)
        assert names(folder) == ["update-00000001", "update-00000002"]
        assert [contents(load_checkpoint(path)) for path in store.paths()] == [(1, 0), (2, 0)]
        (disk / "filler").unlink()
    (disk / "filler").write_bytes(bytes(free - 4096 * 5))
    save(store, 2, attempt=1, size=2_000)
    assert contents(store.newest()[0]) == (2, 1)

    (disk / "filler").unlink()
    try:
        for number in itertools.count():
            (disk / f"name{number}").touch()
    except OSError:
        pass
    with pytest.raises(CheckpointError, match=r"Update 3 was not saved \(the disk is full\)"):
        save(store, 3)
    with pytest.raises(CheckpointError, match=r"was not marked best \(the disk is full\)"):
        store.mark_best(folder / "update-00000001")
    assert contents(store.newest()[0]) == (2, 1)


def test_a_full_disk_leaves_the_earlier_checkpoints_and_nothing_else(tmp_path: Path) -> None:
    call_on_a_small_disk(fill_the_disk, tmp_path)


def test_when_a_replacement_cannot_be_put_in_place_the_old_checkpoint_is_put_back(
    pair: CheckpointStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = os.rename

    def full_after_one(source: Path, target: Path) -> None:
        if source.name.startswith(".partial"):
            raise OSError(errno.ENOSPC, "No space left on device")
        rename(source, target)

    monkeypatch.setattr(os, "rename", full_after_one)
    with pytest.raises(CheckpointError, match=r"Update 2 was not saved \(the disk is full\)"):
        save(pair, 2, attempt=1)
    assert names(folder) == ["update-00000001", "update-00000002"]
    assert contents(pair.newest()[0]) == (2, 0)


def test_all_is_synced_before_the_rename_and_the_folder_after_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = CheckpointStore(folder, keep=2)
    save(store, 1)
    calls: list[object] = []
    sync, rename = os.fsync, os.rename

    def recorded_sync(descriptor: int) -> None:
        calls.append(os.fstat(descriptor).st_ino)
        sync(descriptor)

    def recorded_rename(source: Path, target: Path) -> None:
        calls.append(target.name)
        rename(source, target)

    monkeypatch.setattr(os, "fsync", recorded_sync)
    monkeypatch.setattr(os, "rename", recorded_rename)
    path = save(store, 2)
    parts = (path / "tensors.safetensors", path / "state.json", path)
    assert calls == [*(part.stat().st_ino for part in parts), path.name, folder.stat().st_ino]
