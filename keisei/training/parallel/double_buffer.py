"""`DoubleBuffer`: the newest two publications of the weights, written and read without waiting.

Each of the two buffers is under a seqlock. Publications are counted from 1, odd ones go to buffer
1. The writer stamps the buffer with the publication's number before the data (`begun`) and after
it (`finished`). A reader finds its number in `finished`, copies the data, and finds it still in
`begun`: then no other write had begun when the copy was made. The stamps count publications and
are not versions, because a version may be published again with other weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keisei.training.parallel.fence import Fence
from keisei.training.parallel.shared_memory import ArraySpec

NOTHING_PUBLISHED = -1
"""The version before there is one."""


def double_buffer_layout(count: int, dtype: np.dtype[Any]) -> list[ArraySpec]:
    """The arrays of a double buffer of `count` numbers."""
    return [
        ArraySpec("newest_version", np.int64, (1,)),
        ArraySpec("begun", np.int64, (2,)),
        ArraySpec("finished", np.int64, (2,)),
        ArraySpec("versions", np.int64, (2,)),
        ArraySpec("weights_0", dtype, (count,)),
        ArraySpec("weights_1", dtype, (count,)),
    ]


class DoubleBuffer:
    """One writer and any number of readers, each with their own object over the same arrays.

    All state is in the arrays: whoever writes next goes on where a killed writer stopped.
    """

    def __init__(self, arrays: dict[str, NDArray[Any]]) -> None:
        self._newest_version: NDArray[np.int64] = arrays["newest_version"]
        self._begun: NDArray[np.int64] = arrays["begun"]
        self._finished: NDArray[np.int64] = arrays["finished"]
        self._versions: NDArray[np.int64] = arrays["versions"]
        self.weights = arrays["weights_0"], arrays["weights_1"]
        self._fence = Fence()

    def clear(self) -> None:
        """Prepare new memory, which is zeros, for its first publication."""
        self._newest_version[0] = NOTHING_PUBLISHED
        self._versions[:] = NOTHING_PUBLISHED

    def newest(self) -> int:
        """The number of the newest publication, 0 before the first."""
        return max(int(self._finished[0]), int(self._finished[1]))

    def newest_version(self) -> int:
        """The version of the newest publication; reads one number."""
        version = int(self._newest_version[0])
        self._fence()
        return version

    def write(self, version: int, fill: Callable[[NDArray[Any]], None]) -> None:
        """Make what `fill` writes into the weights it is given the newest publication."""
        publication = self.newest() + 1
        buffer = publication % 2
        self._begun[buffer] = publication
        self._fence()
        self._versions[buffer] = version
        fill(self.weights[buffer])
        self._fence()
        self._finished[buffer] = publication
        self._fence()
        self._newest_version[0] = version

    def read(self, publication: int, into: NDArray[Any] | None = None) -> int | None:
        """Return the version of a publication and copy its weights.

        None if it is gone: what was copied is then no publication at all.
        """
        buffer = publication % 2
        if int(self._finished[buffer]) != publication:
            return None
        self._fence()
        version = int(self._versions[buffer])
        if into is not None:
            np.copyto(into, self.weights[buffer])
        self._fence()
        return version if int(self._begun[buffer]) == publication else None
