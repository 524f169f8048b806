"""Weights from the learner to its workers: a versioned double buffer in shared memory.

`ModelSynchronizer` writes in the main process, one `WorkerModelReceiver` reads in each worker.
Each publication goes to the buffer that does not hold the newest one, so the writer never waits
and a writer killed at any moment leaves the previous weights readable.

The weights are the tensors of the `state_dict`, end to end in its order: names do not travel, so
it does not matter that `torch.compile` changes them. Those of convolutions travel channels last, as
they lie in memory.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from keisei.core.threads import one_thread
from keisei.training.parallel.double_buffer import (
    NOTHING_PUBLISHED,
    DoubleBuffer,
    double_buffer_layout,
)
from keisei.training.parallel.shared_memory import SharedMemory, size_of


class VersionGoneError(LookupError):
    """The wanted weights were published, and newer ones have taken their place."""


class ModelSynchronizer:
    """Publishes the weights of `model`; one thread of one process does so.

    A publication is due every `interval` updates. With `adaptive` that is the longest interval:
    it halves when the policy lag passes half of `max_policy_lag`, and with each publication at a
    lag of a quarter or less it grows by one.

    Without `shared` nothing is shared: `published_bytes` is for a transport of another kind.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        compression_enabled: bool,
        max_policy_lag: int,
        interval: int = 1,
        adaptive: bool = False,
        shared: bool = True,
    ) -> None:
        layout = double_buffer_layout(_count(model), _dtype(compression_enabled))
        self.memory = SharedMemory(size_of(layout)) if shared else None
        """What workers need to build their receivers; None if not shared."""
        if self.memory is not None:
            arrays = self.memory.arrays(layout)
        else:
            arrays = {spec.name: np.zeros(spec.shape, spec.dtype) for spec in layout}
        self._model = model
        self._buffers = DoubleBuffer(arrays)
        self._buffers.clear()
        self._adaptive, self._max_policy_lag = adaptive, max_policy_lag
        self._longest_interval = self._interval = interval
        self.syncs, self.seconds, self.bytes = 0, 0.0, 0

    @property
    def published_version(self) -> int:
        """The newest version that workers can have, or NOTHING_PUBLISHED."""
        return self._buffers.newest_version()

    def publish(self, version: int) -> None:
        """Make the weights that the model has now the newest ones, as `version` (0 to 2**63-1)."""
        if not 0 <= version < 2**63:
            raise ValueError(f"A version is a number from 0 to 2**63-1, not {version}.")
        started = time.perf_counter()
        self._buffers.write(version, lambda weights: _pack(self._model, weights))
        self.seconds += time.perf_counter() - started
        self.bytes += self._buffers.weights[0].nbytes
        self.syncs += 1

    def should_sync(self, updates_since_publication: int, largest_lag: int) -> bool:
        """Whether to publish now, after an update on data of this largest policy lag."""
        if self._adaptive and 2 * largest_lag > self._max_policy_lag:
            self._interval = max(1, self._interval // 2)
        due = updates_since_publication >= self._interval
        if self._adaptive and due and 4 * largest_lag <= self._max_policy_lag:
            self._interval = min(self._interval + 1, self._longest_interval)
        return due

    def published_bytes(self) -> bytes:
        """The newest published weights, for `load_weights_bytes`."""
        publication = self._buffers.newest()
        if publication == 0:
            raise ValueError("No weights have been published yet.")
        return self._buffers.weights[publication % 2].tobytes()


class WorkerModelReceiver:
    """Loads published weights into the `model` of a worker, in place."""

    def __init__(
        self, memory: SharedMemory, model: nn.Module, *, compression_enabled: bool
    ) -> None:
        layout = double_buffer_layout(_count(model), _dtype(compression_enabled))
        if memory.size != size_of(layout):
            raise ValueError(
                f"The shared weights take {memory.size} bytes, those of this model "
                f"{size_of(layout)}: build both from one configuration."
            )
        self._model = model
        self._buffers = DoubleBuffer(memory.arrays(layout))
        self._private = np.empty_like(self._buffers.weights[0])
        self._publication = 0
        self.version = NOTHING_PUBLISHED
        """Of the weights that the model has now."""

    def newest_version(self) -> int:
        """The newest version to be had, or NOTHING_PUBLISHED; reads one number."""
        return self._buffers.newest_version()

    def fetch(self, wanted: int | None = None) -> int | None:
        """Load the newest weights, or those of version `wanted`, and return their version.

        Returns None if the model has them already, or if they are not published yet. Raises
        `VersionGoneError` if newer ones have taken the place of the wanted ones.
        """
        while True:
            publication = self._find(wanted)
            if publication in (0, self._publication):
                return None
            version = self._buffers.read(publication, self._private)
            if version is not None and wanted in (None, version):
                _unpack(self._private, self._model)
                self._publication, self.version = publication, version
                return version

    def _find(self, wanted: int | None) -> int:
        """The publication to load; 0 if there is none, or none is needed."""
        # Read first: what it counts as published is then among the publications looked at, or gone.
        newest_version = self.newest_version()
        newest = self._buffers.newest()
        if wanted is None:
            return newest
        for publication in (newest, newest - 1):
            if self._buffers.read(publication) == wanted:
                return publication
        if wanted == self.version or wanted > newest_version:
            return 0
        raise VersionGoneError(
            f"Version {wanted} of the weights is gone: only the last two are kept, and the newest "
            f"is {newest_version}."
        )


def load_weights_bytes(model: nn.Module, data: bytes, compression_enabled: bool) -> None:
    """Load what `published_bytes` gave elsewhere into `model`, in place."""
    expected = _count(model) * _dtype(compression_enabled).itemsize
    if len(data) != expected:
        raise ValueError(
            f"The weights are {len(data)} bytes where this model takes {expected}: sender and "
            "receiver need the same model and the same compression."
        )
    flat = np.frombuffer(data, _dtype(compression_enabled)).copy()  # torch wants it writable
    _unpack(flat, model)


def _dtype(compression_enabled: bool) -> np.dtype[Any]:
    """Half precision is float16, not bfloat16: weights lie well inside its range (6e-8 to 65504).

    There it rounds by 1/2048 at most where bfloat16 rounds by 1/256.
    """
    return np.dtype(np.float16 if compression_enabled else np.float32)


def _count(model: nn.Module) -> int:
    """How many numbers the weights are."""
    count = 0
    for name, tensor in model.state_dict().items():
        if not tensor.is_floating_point():
            raise ValueError(
                f"Only floating-point weights can be sent to workers, and {name!r} of this model "
                f"is {tensor.dtype}."
            )
        count += tensor.numel()
    return count


# Both make the `state_dict` anew (0.1 ms), because `model.to(device)` replaces its tensors.


def _pack(model: nn.Module, flat: NDArray[Any]) -> None:
    """Copy the weights into `flat` [P]; from a GPU in one transfer."""
    tensors, target = _weights(model), torch.from_numpy(flat)
    if not tensors:  # who decides at random has none
        return
    with one_thread(), torch.no_grad():
        if tensors[0].device == target.device:
            torch._foreach_copy_(_parts(target, tensors), tensors)
        else:
            target.copy_(torch.cat([tensor.flatten().to(target.dtype) for tensor in tensors]))


def _unpack(flat: NDArray[Any], model: nn.Module) -> None:
    """Copy `flat` [P] into the weights, in place; to a GPU in one transfer."""
    tensors = _weights(model)
    if not tensors:
        return
    source = torch.from_numpy(flat).to(tensors[0].device)
    with one_thread(), torch.no_grad():
        torch._foreach_copy_(tensors, _parts(source, tensors))


def _weights(model: nn.Module) -> list[Tensor]:
    """The tensors in the order in which they travel, and each as it lies in memory.

    To put the channels of five million weights into another order takes as long as all the rest.
    """
    tensors = model.state_dict().values()
    return [tensor.permute(0, 2, 3, 1) if tensor.dim() == 4 else tensor for tensor in tensors]


def _parts(flat: Tensor, tensors: list[Tensor]) -> list[Tensor]:
    """`flat` as tensors of the shapes of `tensors`."""
    parts = flat.split_with_sizes([tensor.numel() for tensor in tensors])
    return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]
