"""Weights that come through a worker's pipe, where memory cannot be shared."""

from __future__ import annotations

from torch import nn

from keisei.training.parallel.double_buffer import NOTHING_PUBLISHED
from keisei.training.parallel.model_sync import load_weights_bytes


class PipedModelReceiver:
    """`WorkerModelReceiver` for weights that are handed to it."""

    def __init__(self, model: nn.Module, *, compression_enabled: bool) -> None:
        self._model, self._compression_enabled = model, compression_enabled
        self._offered: tuple[int, bytes] | None = None
        self.version = NOTHING_PUBLISHED
        """Of the weights that the model has now."""

    def offer(self, version: int, data: bytes) -> None:
        """These are the newest weights; what was offered before is forgotten."""
        self._offered = version, data

    def fetch(self, wanted: int | None = None) -> int | None:
        """Load the newest weights, or those of version `wanted`; None if there is nothing new."""
        if self._offered is None or wanted not in (None, self._offered[0]):
            return None
        self.version, data = self._offered
        self._offered = None
        load_weights_bytes(self._model, data, self._compression_enabled)
        return self.version
