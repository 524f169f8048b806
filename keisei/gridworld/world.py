"""`World`: B copies of a grid, each cell of each layer holding one kind of thing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keisei.gridworld.agent_places import AgentPlaces
from keisei.gridworld.cells import Cells
from keisei.gridworld.entity import Entity
from keisei.gridworld.errors import WorldError
from keisei.gridworld.map_kernels import count_kind, list_kind
from keisei.gridworld.random_streams import draw_fractions, pick_distinct, seed_streams, toss

Kind = type[Entity]
MOST_KINDS = 256


class World:
    """The map of all copies, who stands where, and the random stream of each copy.

    kinds: what can be on the map; the first is what a cell holds when nothing was put there.
    rules: anything that a game's transitions want to read. The copies are numbered from
    `first_copy` on: what happens in a copy depends on its number and the seed, not on the others.
    """

    def __init__(
        self,
        height: int,
        width: int,
        kinds: Sequence[Kind],
        *,
        layers: int = 1,
        copies: int = 1,
        seed: int = 0,
        first_copy: int = 0,
        rules: Any = None,
    ) -> None:
        if min(height, width, layers, copies) < 1:
            raise WorldError(
                f"A world has at least one row, column, layer and copy; not {height} x {width} "
                f"with {layers} layers, {copies} times."
            )
        if not 1 <= len(kinds) <= MOST_KINDS or len(set(kinds)) != len(kinds):
            raise WorldError(
                f"A world has 1 to {MOST_KINDS} kinds, each of them once; not these {len(kinds)}."
            )
        if not all(isinstance(kind, type) and issubclass(kind, Entity) for kind in kinds):
            raise WorldError("The kinds of a world are subclasses of Entity.")
        if seed < 0:
            raise WorldError(f"A seed is not negative, as {seed} is.")
        self.height, self.width, self.layers, self.copies = height, width, layers, copies
        self.rules = rules
        self.map: NDArray[np.uint8] = np.zeros((copies, height, width, layers), np.uint8)
        """[B, H, W, layers] the number of the kind in each cell."""
        self.kinds = list(kinds)
        self.values = np.array([kind.value for kind in kinds], np.float32)
        self.passable = np.array([kind.passable for kind in kinds], np.bool_)
        self.agents = AgentPlaces(0, copies)
        self.turn = 0
        self.total_reward = np.zeros(copies)
        """[B] what all agents together got in this epoch."""
        self.random_state: NDArray[np.uint64] = np.zeros(copies, np.uint64)
        seed_streams(np.uint64(seed), first_copy, self.random_state)
        self._numbers = {kind: number for number, kind in enumerate(kinds)}
        self._scratch = np.empty(self.map.size, np.int64)

    def clear(self) -> None:
        """Empty every cell and start at turn 0; random streams go on."""
        self.map[...] = 0
        self.turn = 0
        self.total_reward[...] = 0.0
        self.agents.clear()

    def number_of(self, kind: Kind) -> int:
        """The number that stands for a kind on the map."""
        try:
            return self._numbers[kind]
        except (KeyError, TypeError):
            known = ", ".join(known.__name__ for known in self.kinds)
            name = getattr(kind, "__name__", repr(kind))
            raise WorldError(f"{name} is not a kind of this world, which has {known}.") from None

    def numbers_of(self, kinds: Sequence[Kind]) -> NDArray[np.uint8]:
        """[len(kinds)] their numbers."""
        return np.array([self.number_of(kind) for kind in kinds], np.uint8)

    # Where is what

    def cells(self, kind: Kind | None = None, *, layer: int | None = None) -> Cells:
        """All cells, of a kind and on a layer if these are given, in all copies."""
        if kind is None:
            found = np.arange(self.map.size)
        else:
            count = list_kind(self.map.reshape(-1), self.number_of(kind), self._scratch)
            found = self._scratch[:count].copy()
        cells = Cells(found, self.map.shape)
        return cells if layer is None else cells[cells.layers == self._checked_layer(layer)]

    def border(self, *, layer: int = 0) -> Cells:
        """The outermost rows and columns of a layer."""
        edge = np.zeros((self.height, self.width), np.bool_)
        edge[[0, -1]] = True
        edge[:, [0, -1]] = True
        return self._where(edge, layer)

    def inside(self, *, layer: int = 0) -> Cells:
        """All of a layer but its border."""
        inner = np.zeros((self.height, self.width), np.bool_)
        inner[1:-1, 1:-1] = True
        return self._where(inner, layer)

    def _where(self, chosen: NDArray[np.bool_], layer: int) -> Cells:
        mask = np.zeros(self.map.shape, np.bool_)
        mask[..., self._checked_layer(layer)] = chosen
        return Cells(np.flatnonzero(mask), self.map.shape)

    def cells_at(self, rows: Any, columns: Any, *, layer: int = 0, copies: Any = None) -> Cells:
        """The cells at these places, in every copy or in `copies`; arguments broadcast.

        Places beyond the map are left out.
        """
        if copies is None:
            dimensions = max(np.ndim(rows), np.ndim(columns))
            copies = np.arange(self.copies).reshape(-1, *([1] * dimensions))
        copies, rows, columns = (np.ravel(a) for a in np.broadcast_arrays(copies, rows, columns))
        known = (rows >= 0) & (rows < self.height) & (columns >= 0) & (columns < self.width)
        index = (copies[known], rows[known], columns[known], self._checked_layer(layer))
        flat = np.ravel_multi_index(index, self.map.shape)
        return Cells(np.unique(flat), self.map.shape)

    def _checked_layer(self, layer: int) -> int:
        if not 0 <= layer < self.layers:
            raise WorldError(f"There is no layer {layer}: this world has 0 to {self.layers - 1}.")
        return layer

    def look(self, where: Cells) -> NDArray[np.uint8]:
        """[n] the numbers of the kinds in these cells."""
        return self.map.reshape(-1)[where.flat]

    def holds(self, where: Cells, kind: Kind) -> NDArray[np.bool_]:
        """[n] whether these cells hold this kind."""
        return np.asarray(self.look(where) == self.number_of(kind))

    def count(self, kind: Kind, *, layer: int | None = None) -> NDArray[np.int64]:
        """[B] how many cells of each copy hold a kind."""
        chosen = slice(None) if layer is None else slice(self._checked_layer(layer), layer + 1)
        counts = np.empty(self.copies, np.int64)
        count_kind(self.map[..., chosen], self.number_of(kind), counts)
        return counts

    # Changing it

    def place(self, kind: Kind | NDArray[np.uint8], where: Cells) -> None:
        """Put a kind into these cells, or of an array [n] of numbers each into its own."""
        number = kind if isinstance(kind, np.ndarray) else self.number_of(kind)
        if isinstance(kind, np.ndarray) and (kind >= len(self.kinds)).any():
            raise WorldError(f"There is no kind {kind.max()}: they are 0 to {len(self.kinds) - 1}.")
        self.map.reshape(-1)[where.flat] = number

    def remove(self, where: Cells) -> None:
        """Leave nothing in these cells."""
        self.map.reshape(-1)[where.flat] = 0

    # Chance, from each copy's own stream

    def chance(self, where: Cells, probability: float) -> Cells:
        """Those of the cells that come up, each with this probability by itself."""
        chosen = np.empty(len(where), np.int64)
        count = toss(self.random_state, where.flat, self._cells_a_copy, probability, chosen)
        return Cells(chosen[:count], self.map.shape)

    def draw(self, where: Cells) -> NDArray[np.float64]:
        """[n] a random number for each cell, from 0 up to, not including, 1."""
        return self.draw_for(where.copies)

    def draw_for(self, copies: NDArray[np.int64]) -> NDArray[np.float64]:
        """[n] a random number for each of these copies, which may come more than once."""
        drawn = np.empty(len(copies))
        draw_fractions(self.random_state, copies, drawn)
        return drawn

    def any_of(self, kinds: Sequence[Kind], where: Cells) -> NDArray[np.uint8]:
        """[n] the number of one of the kinds, at random, for each cell."""
        return self.numbers_of(kinds)[(self.draw(where) * len(kinds)).astype(np.int64)]

    def pick(self, where: Cells, number: int) -> list[Cells]:
        """So many different cells of every copy, at random: a list of one cell a copy."""
        picked = np.empty((number, self.copies), np.int64)
        flat = where.flat.copy()
        short = pick_distinct(self.random_state, flat, self._cells_a_copy, picked)
        if short >= 0:
            has = int(np.count_nonzero(where.copies == short))
            raise WorldError(f"{number} different cells are wanted where a copy has only {has}.")
        return [Cells(row, self.map.shape) for row in picked]

    @property
    def _cells_a_copy(self) -> int:
        return self.height * self.width * self.layers
