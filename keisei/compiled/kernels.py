"""The `kernel` decorator: Numba compilation with a cache that is never stale.

Numba checks only the file a function is defined in, so a cached caller keeps running the old code
of a callee edited elsewhere. Our cache folder is therefore named after a hash of every file beside
this one, in `shogi/`, and beside the kernel itself (a kernel calls kernels and uses constants of
these folders alone, not of those below them): any edit starts an empty folder.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba import config

Function = TypeVar("Function", bound=Callable[..., Any])

_SHARED = (Path(__file__).parent, Path(__file__).parents[1] / "shogi")
_KEPT_FOLDERS = 16
_config_lock = threading.Lock()


def source_hash(*folders: Path) -> str:
    """Hash of the names and texts of the Python files in `folders`."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.glob("*.py")):
            digest.update(path.name.encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@cache
def cache_folder(sources: Path = _SHARED[0]) -> Path:
    """The folder of compiled code for the kernels in `sources` as they are now.

    It is created if need be, and folders of older sources are pruned.
    """
    parent = _writable_parent()
    folder = parent / source_hash(*_SHARED, sources)
    folder.mkdir(exist_ok=True)
    os.utime(folder)
    _prune(parent)
    return folder


def _writable_parent() -> Path:
    """`$KEISEI_CACHE`, else the user's cache folder, else a temporary one."""
    user_cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    chosen = Path(os.environ.get("KEISEI_CACHE") or user_cache / "keisei") / "compiled"
    try:
        chosen.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=chosen).close()
    except OSError:
        chosen = Path(tempfile.gettempdir()) / f"keisei-{os.getuid()}" / "compiled"
        chosen.mkdir(parents=True, exist_ok=True)
    return chosen


def _prune(parent: Path) -> None:
    """Delete all but the most recently used folders; another process may be doing the same."""
    folders = sorted(parent.iterdir(), key=lambda folder: folder.stat().st_mtime, reverse=True)
    for folder in folders[_KEPT_FOLDERS:]:
        shutil.rmtree(folder, ignore_errors=True)


def kernel(function: Function | None = None, *, entry: bool = False, parallel: bool = False) -> Any:
    """Compile `function` with Numba: no Python objects, GIL released, cached on disk.

    Only an `entry` can be called from Python, other kernels can call all of them: most kernels
    never leave compiled code, and the wrappers they would need take a fifth of the compile time.
    """
    if function is None:
        return lambda inner: kernel(inner, entry=entry, parallel=parallel)
    # Numba reads its cache folder when a function is decorated, so ours is set just for that
    # moment and the user's own Numba functions keep theirs.
    sources = Path(function.__code__.co_filename).parent
    with _config_lock:
        users_folder, config.CACHE_DIR = config.CACHE_DIR, str(cache_folder(sources))
        try:
            return numba.njit(
                cache=True,
                nogil=True,
                parallel=parallel,
                error_model="numpy",
                no_cpython_wrapper=not entry,
                no_cfunc_wrapper=True,
            )(function)
        finally:
            config.CACHE_DIR = users_folder
