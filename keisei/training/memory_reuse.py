"""What the libraries below do with memory: keep freed tensors', bound caches of code."""

from __future__ import annotations

import ctypes
import os
import sys

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # numbers of malloc.h
_KEPT = 1 << 30
_PAD = 1 << 26


def keep_freed_memory() -> None:
    """Do not give memory back to the kernel after each gradient step.

    glibc returns what is free at the top of its heap, and the kernel hands it out again a page at a
    time, zeroed: 70,000 page faults in an update of the laptop config, a fifth of its time.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # not every C library has it
        if mallopt is not None:
            mallopt(_MMAP_THRESHOLD, _KEPT)
            mallopt(_TRIM_THRESHOLD, _KEPT)
            mallopt(_TOP_PAD, _PAD)


def bound_primitive_caches() -> None:
    """Have oneDNN keep the code of a few hundred shapes of batches, not of a thousand.

    It compiles each convolution for each size of batch: when minibatches had many, the main process
    grew by 70 MB in eight minutes. To be called before the first convolution.
    """
    for variable in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(variable, "256")
