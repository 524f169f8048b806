"""Checkpoints that survive a kill at any moment, a full disk and damaged files.

A checkpoint (see `checkpoint_format`) is written beside its place, synced to the disk and renamed,
so that a folder of its name is always whole.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch

from keisei.training.checkpoint_format import (
    STATE,
    TENSORS,
    Checkpoint,
    CheckpointError,
    encode_manifest,
    encode_tensors,
    load_checkpoint,
    reason_of,
    seems_whole,
)

_BEST = "best"
_NAME = re.compile(r"update-([0-9]{8}|[1-9][0-9]{8,})(\.replaced)?")
_PARTIAL = re.compile(r"\.partial-([1-9][0-9]*)-[0-9a-f]{8}")
_ABANDONED_S = 24 * 3600.0  # no save lasts a day: by then the number is another process's
_READ_ATTEMPTS = 10

# safetensors learnt the wide unsigned types late, so they travel as signed ones.
_being_written: set[str] = set()  # names of this process's partial folders


class CheckpointStore:
    """The checkpoints of one run: the last `keep` and the best.

    One process writes; any number may read at the same time.
    """

    def __init__(self, folder: Path, *, keep: int) -> None:
        if keep < 1:
            raise CheckpointError(f"At least one checkpoint must be kept, not {keep}.")
        self._folder = folder
        self._keep = keep

    def save(
        self,
        update: int,
        tensors: Mapping[str, torch.Tensor | np.ndarray[Any, Any]],
        state: Mapping[str, Any],
    ) -> Path:
        """Save, then remove the checkpoints that are no longer kept.

        `state` must be what JSON holds exactly: no NaN, no infinity, text as keys; tuples come back
        as lists. Tensors that share memory come back as separate copies. Saving an update again
        replaces it. When anything goes wrong the earlier checkpoints are as they were.
        """
        if update < 0:
            raise CheckpointError(f"An update is numbered from 0, not {update}.")
        data, dtypes = encode_tensors(tensors)
        manifest = encode_manifest(update, data, dtypes, state)
        target = self._folder / f"update-{update:08d}"
        try:
            self._make_ready()
            self._write(target, data, manifest)
        except OSError as error:
            raise CheckpointError(
                f"Update {update} was not saved ({reason_of(error)}); "
                f"the earlier checkpoints in {self._folder} are intact."
            ) from error
        self._clean_up(update)
        return target

    def mark_best(self, path: Path) -> None:
        """Keep that checkpoint until another one is marked."""
        known = [known.name for known in self.paths()]
        if path.name not in known or path.parent.resolve() != self._folder.resolve():
            raise CheckpointError(f"{path} is not one of the checkpoints in {self._folder}.")
        name = f"update-{_update_of(path):08d}\n"
        try:
            with _partial(self._folder) as partial:
                _write_synced(partial, name.encode())
                os.replace(partial, self._folder / _BEST)
                _sync_folder(self._folder)
        except OSError as error:
            raise CheckpointError(f"{path} was not marked best ({reason_of(error)}).") from error

    def best(self) -> Path | None:
        """Return the checkpoint that was marked best, if there is one."""
        file = self._folder / _BEST
        try:
            match = _NAME.fullmatch(file.read_text(errors="replace").strip())
        except FileNotFoundError:
            return None
        if match is None:
            raise CheckpointError(f"{file} does not name a checkpoint: mark the best one again.")
        return next((path for path in self.paths() if _update_of(path) == int(match[1])), None)

    def newest(self) -> tuple[Checkpoint | None, list[str]]:
        """Load the newest undamaged checkpoint; a sentence for each damaged one passed over."""
        for _ in range(_READ_ATTEMPTS):
            listed = self._listed()
            checkpoint, problems = _newest_of(list(listed))
            # What was replaced or removed by the writer while it was read is not damaged.
            if not problems or self._listed() == listed:
                break
        return checkpoint, problems

    def paths(self) -> list[Path]:
        """Return every checkpoint, damaged or not, oldest first."""
        return list(self._listed())

    def _listed(self) -> dict[Path, int]:
        """Paths, oldest first, and the inode of each, which tells a folder from its replacement."""
        try:
            with os.scandir(self._folder) as entries:
                inodes = {entry.name: entry.inode() for entry in entries}
        except FileNotFoundError:
            return {}
        of_update: dict[int, str] = {}
        for name in sorted(inodes):  # `update-N` comes before `update-N.replaced`
            if match := _NAME.fullmatch(name):
                of_update.setdefault(int(match[1]), name)
        return {self._folder / of_update[n]: inodes[of_update[n]] for n in sorted(of_update)}

    def _make_ready(self) -> None:
        if not self._folder.is_dir():
            self._folder.mkdir(parents=True)
            _sync_folder(self._folder.parent)
        self._settle_replacements()
        for path in self._folder.iterdir():
            if _is_leftover(path):
                _remove_or_warn(path)

    def _write(self, target: Path, data: bytes, manifest: bytes) -> None:
        replaced = target.with_name(f"{target.name}.replaced")
        with _partial(self._folder) as partial:
            partial.mkdir()
            _write_synced(partial / TENSORS, data)
            _write_synced(partial / STATE, manifest)
            _sync_folder(partial)
            try:
                if os.path.lexists(target):
                    os.rename(target, replaced)  # where `paths` still finds it
                os.rename(partial, target)
            except BaseException:
                if os.path.lexists(replaced) and not os.path.lexists(target):
                    os.rename(replaced, target)
                raise
            _sync_folder(self._folder)

    def _settle_replacements(self) -> None:
        """Finish what a process killed between two renames left: one folder for each update."""
        for replaced in self._folder.glob("update-*.replaced"):
            target = replaced.with_suffix("")
            if _NAME.fullmatch(target.name) is None:
                continue
            if os.path.lexists(target):
                self._discard(replaced)
            else:
                os.rename(replaced, target)

    def _clean_up(self, saved: int) -> None:
        """Remove what need not be kept; a failure here is no failure to save."""
        try:
            self._settle_replacements()
            self._prune(saved)
        except (OSError, CheckpointError) as error:
            warnings.warn(f"Old checkpoints were not removed: {error}", stacklevel=3)

    def _prune(self, saved: int) -> None:
        # Later ones are what a resumed run passed over or went back behind. They do not count, nor
        # do damaged ones: a bad disk must not push out the checkpoints that can still be loaded.
        paths = self.paths()
        sound = [path for path in paths if _update_of(path) <= saved and seems_whole(path)]
        oldest_kept = min((_update_of(path) for path in sound[-self._keep :]), default=saved)
        best = self.best()
        for path in paths:
            if _update_of(path) < oldest_kept and path != best:
                self._discard(path)

    def _discard(self, path: Path) -> None:
        """Remove a checkpoint; it loses its name first, so that no half of it is ever listed."""
        with _partial(self._folder) as partial:
            os.rename(path, partial)


def _newest_of(paths: list[Path]) -> tuple[Checkpoint | None, list[str]]:
    reasons = []
    checkpoint = None
    for path in reversed(paths):
        try:
            checkpoint = load_checkpoint(path)
            break
        except CheckpointError as error:
            reasons.append(str(error).removesuffix("."))
    used = "no other is left to use" if checkpoint is None else f"{checkpoint.path.name} is used"
    return checkpoint, [f"{reason}; {used} instead." for reason in reasons]


def _update_of(path: Path) -> int:
    return int(path.name.removesuffix(".replaced").removeprefix("update-"))


@contextmanager
def _partial(folder: Path) -> Iterator[Path]:
    """A name for what is not yet, or no longer, whole; what still has it at the end is removed."""
    path = folder / f".partial-{os.getpid()}-{secrets.token_hex(4)}"
    _being_written.add(path.name)
    try:
        yield path
    finally:
        _remove_or_warn(path)
        _being_written.discard(path.name)


def _is_leftover(path: Path) -> bool:
    """Whether this is the partial work of a process that is no more."""
    match = _PARTIAL.fullmatch(path.name)
    if match is None or path.name in _being_written:
        return False
    pid = int(match[1])
    if pid == os.getpid():  # not written by us: our number was another's, as happens in containers
        return True
    try:
        os.kill(pid, 0)  # signal 0 only asks whether the process exists
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        pass  # it does, and is someone else's
    with suppress(FileNotFoundError):
        return time.time() - path.lstat().st_mtime > _ABANDONED_S
    return False


def _remove_or_warn(path: Path) -> None:
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        warnings.warn(f"{path} could not be removed: {reason_of(error)}.", stacklevel=2)


def _write_synced(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power cut, as fsync of a file does for its bytes."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
