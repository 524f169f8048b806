"""`JointFractions`: random numbers for N models, each from its own generator, some turns ahead.

A call of torch takes 1 µs, for the numbers of many turns as for those of one. A generator gives the
same numbers either way; that it is ahead nobody sees, because a model is asked for it first.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_AHEAD = 32
"""Turns: with twice as many it is hardly faster."""


class Lender(Protocol):
    """A model that lends its generator."""

    def lend_generator(self, borrower: JointFractions) -> torch.Generator:
        """Its generator; before anybody else has it, `settle` is called."""


class JointFractions:
    """Numbers from 0 up to, not including, 1, for B copies of each model's world."""

    def __init__(self, lenders: Sequence[Lender]) -> None:
        self._lenders = list(lenders)
        self._ahead = torch.empty(len(lenders), _AHEAD, 0)
        self._turns: list[NDArray[np.float32]] = []
        self._before: list[tuple[torch.Generator, Tensor]] = []
        """Of each model, the generator and its state before the turns ahead; none if settled."""
        self._used = _AHEAD
        self._settling = Lock()

    def draw(self, copies: int) -> NDArray[np.float32]:
        """[N, B] for one turn of all models, each as `torch.rand(copies)` gives them."""
        if self._ahead.shape[2] != copies:
            self.settle()
            self._ahead = torch.empty(len(self._lenders), _AHEAD, copies)
        if self._used == _AHEAD:
            self._draw_ahead()
        self._used += 1
        return self._turns[self._used - 1]

    def _draw_ahead(self) -> None:
        generators = [lender.lend_generator(self) for lender in self._lenders]
        self._before = [(generator, generator.get_state()) for generator in generators]
        self._used = 0
        for generator, numbers in zip(generators, self._ahead, strict=True):
            numbers.uniform_(generator=generator)
        self._turns = list(np.ascontiguousarray(self._ahead.numpy().swapaxes(0, 1)))

    def settle(self) -> None:
        """Have each generator be where the numbers that were used leave it."""
        with self._settling:  # models may learn in several threads
            if self._used < _AHEAD:
                for (generator, state), numbers in zip(self._before, self._ahead, strict=True):
                    generator.set_state(state)
                    numbers[: self._used].uniform_(generator=generator)
            self._used, self._before = _AHEAD, []
