"""`SharedMemory`: memory that the main process and its workers see at once.

It has no name: nothing is left in /dev/shm however the processes die, and the size of /dev/shm
(64 MB in many containers) does not matter. The kernel frees it with the last process that maps it.
"""

from __future__ import annotations

import math
import mmap
import multiprocessing.context
import os
import tempfile
from collections.abc import Callable, Sequence
from multiprocessing import reduction
from typing import Any, NamedTuple

import numpy as np
import psutil
from numpy.typing import DTypeLike, NDArray

_ALIGNMENT = 64
"""Bytes of a cache line: no two arrays share one."""


class SharedMemoryError(RuntimeError):
    """The memory cannot be had; one sentence says how much was wanted, and why not."""


class ArraySpec(NamedTuple):
    """One array of a layout."""

    name: str
    dtype: DTypeLike
    shape: tuple[int, ...]

    @property
    def num_bytes(self) -> int:
        """What it takes, up to the start of the next array."""
        size = np.dtype(self.dtype).itemsize * math.prod(self.shape)
        return -(-size // _ALIGNMENT) * _ALIGNMENT


def size_of(layout: Sequence[ArraySpec]) -> int:
    """Bytes that the arrays of `layout` take together, a multiple of 64."""
    return sum(spec.num_bytes for spec in layout)


class SharedMemory:
    """`size` bytes of zeros, given to workers among the arguments of their `Process`.

    Works with the start methods spawn and forkserver; a worker maps the same memory.
    """

    _file = -1
    _map: mmap.mmap | None = None

    def __init__(self, size: int) -> None:
        if size < 1:
            raise ValueError(f"Shared memory has at least 1 byte, not {size}.")
        self._open(size, lambda: _create_file(size))

    def _open(self, size: int, get_file: Callable[[], int]) -> None:
        self.size = size
        try:
            self._file = get_file()
            self._map = mmap.mmap(self._file, size)
        except OSError as error:
            self.close()
            reason = error.strerror or error
            raise SharedMemoryError(
                f"{size / 1e6:,.1f} MB of memory to share with workers cannot be had ({reason}): "
                "use fewer workers or games, or free some memory."
            ) from error

    def arrays(self, layout: Sequence[ArraySpec], offset: int = 0) -> dict[str, NDArray[Any]]:
        """The arrays of `layout` by name, from byte `offset` on: views, each 64-byte aligned."""
        if self._map is None:
            raise ValueError("The shared memory is closed.")
        end = offset + size_of(layout)
        if offset < 0 or offset % _ALIGNMENT or end > self.size:
            raise ValueError(
                f"The arrays would take bytes {offset} to {end} of {self.size}; they have to fit, "
                f"and to start at a multiple of {_ALIGNMENT}."
            )
        views = {}
        for spec in layout:
            views[spec.name] = np.ndarray(spec.shape, spec.dtype, buffer=self._map, offset=offset)
            offset += spec.num_bytes
        return views

    def close(self) -> None:
        """Let go of the memory; arrays that are still used keep it until they are gone."""
        # `mmap.close` would raise while arrays use it; so it goes with the last reference to it.
        self._map = None
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __del__(self) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        # Through a queue it would need a thread that serves file descriptors: only at a start.
        multiprocessing.context.assert_spawning(self)
        if self._map is None:
            raise ValueError("The shared memory is closed.")
        return _map_in_worker, (reduction.DupFd(self._file), self.size)


def _map_in_worker(handle: Any, size: int) -> SharedMemory:
    def inherited_file() -> int:
        file: int = handle.detach()
        os.set_inheritable(file, False)  # both start methods leave it open to the next exec
        return file

    memory = SharedMemory.__new__(SharedMemory)
    memory._open(size, inherited_file)
    return memory


def _create_file(size: int) -> int:
    """A file without a name, its space reserved: writing to it later cannot fail (SIGBUS)."""
    # A memory file knows no bound but the memory: the kernel kills whoever asks for too much.
    free = psutil.virtual_memory().available
    if size > free:
        raise OSError(f"{free / 1e6:,.1f} MB are free")
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("keisei")
    else:
        file, path = tempfile.mkstemp(prefix="keisei-")
        os.unlink(path)
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file, 0, size)
        else:
            os.ftruncate(file, size)
    except BaseException:
        os.close(file)
        raise
    return file
