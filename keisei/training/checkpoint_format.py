"""What a checkpoint is on disk, and reading one with every byte checked.

It is a folder, `update-00000123/`, of two files: `tensors.safetensors`, and `state.json` with the
caller's state and the SHA-256 of both. Nothing that is loaded is a pickle.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from safetensors import SafetensorError

FORMAT = "keisei-checkpoint"
VERSION = 1

TENSORS = "tensors.safetensors"
STATE = "state.json"
_STORED_AS = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}
_DTYPES: dict[str, torch.dtype] = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
        *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
        *_STORED_AS,
    )
}


class CheckpointError(ValueError):
    """A checkpoint that cannot be written or read; one sentence says why."""


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """What was saved: `tensors` are torch tensors or NumPy arrays, as each was given."""

    path: Path
    update: int
    tensors: dict[str, Any]
    state: dict[str, Any]


def load_checkpoint(path: Path) -> Checkpoint:
    """Load one checkpoint, with every byte checked."""
    content = _read_manifest(path)
    data = _read(path / TENSORS)
    try:
        size, sha256 = content["tensors"]["bytes"], content["tensors"]["sha256"]
        if len(data) != size:
            length = f"{len(data)} bytes long where {size} were written"
            kind = "truncated" if len(data) < size else "too long"
            raise CheckpointError(f"{path} is damaged: {TENSORS} is {kind}, {length}.")
        if hashlib.sha256(data).hexdigest() != sha256:
            raise CheckpointError(f"{path} is damaged: {TENSORS} has the wrong SHA-256.")
        tensors = _decode_tensors(data, content["dtypes"])
        return Checkpoint(path, content["update"], tensors, content["state"])
    except (KeyError, TypeError, AttributeError, RuntimeError, SafetensorError) as error:
        raise CheckpointError(f"{path} is not a checkpoint of this kind: {error!r}.") from error


def encode_tensors(
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


def encode_manifest(
    update: int, data: bytes, dtypes: dict[str, str], state: Mapping[str, Any]
) -> bytes:
    """The bytes of `state.json`; whatever JSON cannot hold exactly is a `CheckpointError`."""
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
    raw = _read(path / STATE)
    try:
        manifest = json.loads(raw)
    except (ValueError, RecursionError):
        raise CheckpointError(f"{path} is damaged: {STATE} is not JSON.") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise CheckpointError(f"{path} is not a checkpoint: {STATE} does not say {FORMAT!r}.")
    if manifest.get("version") != VERSION:
        version = f"format version {manifest.get('version')!r}"
        raise CheckpointError(f"{path} has {version}, and this Keisei reads {VERSION}.")
    content = manifest.get("content")
    with suppress(ValueError, RecursionError):  # NaN is no content of ours
        if isinstance(content, dict) and _checksum(content) == manifest.get("sha256"):
            return content
    raise CheckpointError(f"{path} is damaged: {STATE} has the wrong SHA-256.")


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        raise CheckpointError(f"{file.parent} is damaged: {file.name} is missing.") from None
    except OSError as error:
        what = f"{file.name}: {reason_of(error)}"
        raise CheckpointError(f"{file.parent} cannot be read ({what}).") from error


def seems_whole(path: Path) -> bool:
    """Whether all but the bytes of the tensors, which take long to read, is as it was written."""
    try:
        return bool(_read_manifest(path)["tensors"]["bytes"] == (path / TENSORS).stat().st_size)
    except (CheckpointError, OSError, KeyError, TypeError):
        return False


def reason_of(error: OSError) -> str:
    """Why the operating system refused, in a few words."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full"
    return error.strerror or str(error)
