"""`Cells`: some cells of the B copies of a world."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from keisei.gridworld.errors import WorldError

Numbers = NDArray[np.int64]


class Cells:
    """Cells in ascending order of copy, row, column, layer.

    `flat` [n] numbers them over the whole map [B, H, W, layers]. The other properties are arrays
    [n] too; together, as `index`, they pick the cells out of the map or an array shaped like it.
    """

    __slots__ = ("flat", "shape")

    def __init__(self, flat: Numbers, shape: tuple[int, int, int, int]) -> None:
        self.flat, self.shape = flat, shape

    def __len__(self) -> int:
        return len(self.flat)

    def __getitem__(self, chosen: NDArray[np.bool_] | NDArray[np.integer] | slice) -> Cells:
        """Some of the cells: by a mask, by their places in this list, or a slice of it."""
        flat = self.flat[chosen]
        ordered = isinstance(chosen, np.ndarray) and chosen.dtype == np.bool_
        return Cells(flat if ordered else np.sort(flat), self.shape)

    @property
    def index(self) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        """(copies, rows, columns, layers), to index the map with."""
        return self.copies, self.rows, self.columns, self.layers

    @property
    def copies(self) -> Numbers:
        """Which copy of the world each cell is in."""
        _, height, width, layers = self.shape
        return self.flat // (height * width * layers)

    @property
    def rows(self) -> Numbers:
        """Counted from the top, from 0."""
        _, height, width, layers = self.shape
        return self.flat // (width * layers) % height

    @property
    def columns(self) -> Numbers:
        """Counted from the left, from 0."""
        _, _, width, layers = self.shape
        return self.flat // layers % width

    @property
    def layers(self) -> Numbers:
        """Counted from the ground, from 0."""
        return self.flat % self.shape[3]

    def on_layer(self, layer: int) -> Cells:
        """The same rows and columns on another layer."""
        if not 0 <= layer < self.shape[3]:
            raise WorldError(f"There is no layer {layer}: this world has 0 to {self.shape[3] - 1}.")
        return Cells(self.flat + (layer - self.layers), self.shape)
