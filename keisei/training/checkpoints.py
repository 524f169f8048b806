"""Checkpoints that survive a kill at any moment, a full disk and damaged files.

A checkpoint is a folder, `update-00000123/`, of two files: `tensors.safetensors`, and `state.json`
with the caller's state and the SHA-256 of both. It is written beside its place, synced to the disk
and renamed, so that a folder of that name is always whole. Nothing that is loaded is a pickle.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
import secrets
import shutil
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from safetensors import SafetensorError

FORMAT = "keisei-checkpoint"
VERSION = 1

_TENSORS = "tensors.safetensors"
_STATE = "state.json"
_BEST = "best"
_NAME = re.compile(r"update-([0-9]{8}|[1-9][0-9]{8,})(\.replaced)?")
_PARTIAL = re.compile(r"\.partial-([1-9][0-9]*)-[0-9a-f]{8}")
_ABANDONED_S = 24 * 3600.0  # no save lasts a day: by then the number is another process's
_READ_ATTEMPTS = 10

# safetensors learnt the wide unsigned types late, so they travel as signed ones.
_STORED_AS = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}
_DTYPES: dict[str, torch.dtype] = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
        *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
        *_STORED_AS,
    )
}

_being_written: set[str] = set()  # names of this process's partial folders


class CheckpointError(ValueError):
    """A checkpoint that cannot be written or read; one sentence says why."""


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """What was saved: `tensors` are torch tensors or NumPy arrays, as each was given."""

    path: Path
    update: int
    tensors: dict[str, Any]
    state: dict[str, Any]


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
        data, dtypes = _encode_tensors(tensors)
        manifest = _encode_manifest(update, data, dtypes, state)
        target = self._folder / f"update-{update:08d}"
        try:
            self._make_ready()
            self._write(target, data, manifest)
        except OSError as error:
            raise CheckpointError(
                f"Update {update} was not saved ({_reason(error)}); "
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
            raise CheckpointError(f"{path} was not marked best ({_reason(error)}).") from error

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
            _write_synced(partial / _TENSORS, data)
            _write_synced(partial / _STATE, manifest)
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
        sound = [path for path in paths if _update_of(path) <= saved and _seems_whole(path)]
        oldest_kept = min((_update_of(path) for path in sound[-self._keep :]), default=saved)
        best = self.best()
        for path in paths:
            if _update_of(path) < oldest_kept and path != best:
                self._discard(path)

    def _discard(self, path: Path) -> None:
        """Remove a checkpoint; it loses its name first, so that no half of it is ever listed."""
        with _partial(self._folder) as partial:
            os.rename(path, partial)


def load_checkpoint(path: Path) -> Checkpoint:
    """Load one checkpoint, with every byte checked."""
    content = _read_manifest(path)
    data = _read(path / _TENSORS)
    try:
        size, sha256 = content["tensors"]["bytes"], content["tensors"]["sha256"]
        if len(data) != size:
            length = f"{len(data)} bytes long where {size} were written"
            kind = "truncated" if len(data) < size else "too long"
            raise CheckpointError(f"{path} is damaged: {_TENSORS} is {kind}, {length}.")
        if hashlib.sha256(data).hexdigest() != sha256:
            raise CheckpointError(f"{path} is damaged: {_TENSORS} has the wrong SHA-256.")
        tensors = _decode_tensors(data, content["dtypes"])
        return Checkpoint(path, content["update"], tensors, content["state"])
    except (KeyError, TypeError, AttributeError, RuntimeError, SafetensorError) as error:
        raise CheckpointError(f"{path} is not a checkpoint of this kind: {error!r}.") from error


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


def _encode_tensors(
    tensors: Mapping[str, torch.Tensor | np.ndarray[Any, Any]],
) -> tuple[bytes, dict[str, str]]:
    """Return the safetensors file, and what each tensor was: `torch.uint64`, `numpy.float32`."""
    encoded: dict[str, torch.Tensor] = {}
    dtypes = {}
    storages = set()
    for name, value in tensors.items():
        tensor = _as_cpu_tensor(name, value)
        library = "numpy" if isinstance(value, np.ndarray) else "torch"
        dtypes[name] = str(tensor.dtype).replace("torch", library)
        tensor = tensor.view(_STORED_AS.get(tensor.dtype, tensor.dtype))
        storage = tensor.untyped_storage().data_ptr()
        encoded[name] = tensor.clone() if storage in storages else tensor
        storages.add(storage)
    try:
        return safetensors.torch.save(encoded), dtypes
    except (UnicodeEncodeError, SafetensorError) as error:
        raise CheckpointError(f"The tensors cannot be written: {error}.") from error


def _as_cpu_tensor(name: str, value: torch.Tensor | np.ndarray[Any, Any]) -> torch.Tensor:
    if not isinstance(name, str) or name == "__metadata__":
        raise CheckpointError(f"A tensor cannot be named {name!r} in a checkpoint.")
    if isinstance(value, np.ndarray):
        array = np.require(value, value.dtype.newbyteorder("="), ["C", "W"])
        with suppress(TypeError):  # a type that torch does not have
            value = torch.from_numpy(array)
    if not isinstance(value, torch.Tensor):
        what = getattr(value, "dtype", type(value).__name__)
        raise CheckpointError(f"Tensor {name!r} cannot be saved: it is of type {what}.")
    if value.dtype not in _DTYPES.values() or value.layout != torch.strided or value.is_meta:
        what = f"{value.dtype}, {value.layout}, on {value.device}"
        raise CheckpointError(f"Tensor {name!r} cannot be saved: it is {what}.")
    return value.detach().cpu().contiguous()


def _decode_tensors(data: bytes, dtypes: dict[str, str]) -> dict[str, Any]:
    encoded = safetensors.torch.load(data)
    tensors: dict[str, Any] = {}
    for name, full_type in dtypes.items():
        library, _, dtype = full_type.partition(".")
        tensor = encoded[name].view(_DTYPES[dtype])
        tensors[name] = tensor.numpy() if library == "numpy" else tensor
    return tensors


def _encode_manifest(
    update: int, data: bytes, dtypes: dict[str, str], state: Mapping[str, Any]
) -> bytes:
    content = {
        "update": int(update),
        "tensors": {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()},
        "dtypes": dtypes,
        "state": dict(state),
    }
    try:
        _check_json(content["state"], "state")
        manifest = {"format": FORMAT, "version": VERSION, "sha256": _checksum(content)}
        return (json.dumps(manifest | {"content": content}) + "\n").encode()
    except RecursionError:
        raise CheckpointError("The state is nested too deeply or contains itself.") from None
    except CheckpointError:
        raise
    except ValueError as error:  # an integer beyond Python's limit of 4,300 digits
        raise CheckpointError(f"The state cannot be written as JSON: {error}.") from error


def _check_json(value: object, where: str) -> None:
    """Refuse what JSON would change without a word, and say where it is."""
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise CheckpointError(f"{where} has the key {key!r}: JSON keys are text.")
            _check_json(item, f"{where}[{key!r}]")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _check_json(item, f"{where}[{index}]")
    elif isinstance(value, float) and not math.isfinite(value):
        raise CheckpointError(f"{where} is {value}: JSON has only finite numbers.")
    elif value is not None and not isinstance(value, bool | int | float | str):
        raise CheckpointError(f"{where} is a {type(value).__name__}, which JSON does not have.")


def _checksum(content: object) -> str:
    return hashlib.sha256(json.dumps(content, allow_nan=False).encode()).hexdigest()


def _read_manifest(path: Path) -> dict[str, Any]:
    """Return the content of `state.json`, its own checksum verified."""
    if not path.is_dir():
        what = "is not a checkpoint: it is not a folder" if path.exists() else "does not exist"
        raise CheckpointError(f"{path} {what}.")
    raw = _read(path / _STATE)
    try:
        manifest = json.loads(raw)
    except (ValueError, RecursionError):
        raise CheckpointError(f"{path} is damaged: {_STATE} is not JSON.") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise CheckpointError(f"{path} is not a checkpoint: {_STATE} does not say {FORMAT!r}.")
    if manifest.get("version") != VERSION:
        version = f"format version {manifest.get('version')!r}"
        raise CheckpointError(f"{path} has {version}, and this Keisei reads {VERSION}.")
    content = manifest.get("content")
    with suppress(ValueError, RecursionError):  # NaN is no content of ours
        if isinstance(content, dict) and _checksum(content) == manifest.get("sha256"):
            return content
    raise CheckpointError(f"{path} is damaged: {_STATE} has the wrong SHA-256.")


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        raise CheckpointError(f"{file.parent} is damaged: {file.name} is missing.") from None
    except OSError as error:
        what = f"{file.name}: {_reason(error)}"
        raise CheckpointError(f"{file.parent} cannot be read ({what}).") from error


def _seems_whole(path: Path) -> bool:
    """Whether all but the bytes of the tensors, which take long to read, is as it was written."""
    try:
        return bool(_read_manifest(path)["tensors"]["bytes"] == (path / _TENSORS).stat().st_size)
    except (CheckpointError, OSError, KeyError, TypeError):
        return False


def _update_of(path: Path) -> int:
    return int(path.name.removesuffix(".replaced").removeprefix("update-"))


def _reason(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full"
    return error.strerror or str(error)


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
        warnings.warn(f"{path} could not be removed: {_reason(error)}.", stacklevel=2)


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
