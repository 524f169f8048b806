"""`RecordedCall`: work on a GPU that is recorded once and then started as a whole.

A pass through a small network is a hundred kernels. To start them one by one takes the host longer
than a GPU needs to run them; a recording is started at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import torch
from torch import Tensor

_Answers = TypeVar("_Answers")
_CALLS_BEFORE = 3
"""So often the work is done before it is recorded: by then everything is compiled and chosen."""


class RecordedCall(Generic[_Answers]):
    """A function of tensors, recorded with tensors like `examples`.

    What the function reads besides its arguments is read anew by every call, from where it was in
    memory then; what it gives stays in the same memory, until the next call.
    """

    def __init__(self, work: Callable[..., _Answers], *examples: Tensor) -> None:
        self._arguments = [example.clone() for example in examples]
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(_CALLS_BEFORE):
                work(*self._arguments)
        torch.cuda.current_stream().wait_stream(aside)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._answers = work(*self._arguments)

    def __call__(self, *arguments: Tensor) -> _Answers:
        """What the function gives for arguments of the examples' shapes."""
        for there, given in zip(self._arguments, arguments, strict=True):
            there.copy_(given, non_blocking=True)
        self._graph.replay()
        return self._answers
