"""The gradient steps of a PPO lesson on a CPU, see `ppo_kernels`."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keisei.core.adam_memory import AdamMemory
from keisei.core.ppo_kernels import ROWS_AT_ONCE, learn_turns
from keisei.core.ppo_lessons import Turns
from keisei.core.stacked_modules import NonFiniteGradientError

Minibatches = Sequence[NDArray[np.int64]]
"""Of each, the numbers of its turns among those that train."""
_SPARSE_SHARE = 0.3
"""Of numbers that are not 0, up to which states are taken as sparse."""
_LINE = 64
LOSSES = ("loss", "policy_loss", "value_loss", "entropy", "clip_share")


class LessonMemory(threading.local):
    """What a lesson works in, for every thread its own, kept for its next one.

    On cache lines: a lesson of 800 turns takes a tenth longer where its numbers lie across two.
    """

    def __init__(self) -> None:
        self._kept: dict[str, NDArray[Any]] = {}
        self._last: tuple[Any, tuple[Any, ...]] = (None, ())

    def for_lesson(
        self, sizes: NDArray[np.int64], turns: tuple[int, ...], minibatch: int
    ) -> tuple[Any, ...]:
        """For networks of these sizes, [T, B] turns, and minibatches of at most so many."""
        kind = (sizes.tobytes(), turns, minibatch)
        if self._last[0] != kind:  # most lessons of a run are alike
            self._last = kind, self._parts(sizes, turns, minibatch)
        return self._last[1]

    def _parts(
        self, sizes: NDArray[np.int64], turns: tuple[int, ...], minibatch: int
    ) -> tuple[Any, ...]:
        count = turns[0] * turns[1]
        numbers = int(_SPARSE_SHARE * count * sizes[0])
        rows = max(minibatch, min(count, int(ROWS_AT_ONCE))) * int(sizes.sum())
        network = int(((sizes[:-1] + 1) * sizes[1:]).sum())
        return (
            tuple(self._floats(f"network {n}", network) for n in range(5)),
            tuple(self._floats(f"of turns {n}", count).reshape(turns) for n in range(4)),
            self._floats("numbers", numbers),
            self._array("starts", count + 1, np.int64),
            self._array("places", numbers, np.int32),
            self._floats("through", rows),
            self._floats("slopes", rows),
        )

    def _floats(self, name: str, size: int) -> NDArray[np.float32]:
        return self._array(name, size, np.float32)

    def _array(self, name: str, size: int, kind: type[np.generic]) -> NDArray[Any]:
        if name not in self._kept or len(self._kept[name]) < size:
            self._kept[name] = _on_a_line(size, kind)
        return self._kept[name][:size]


def _on_a_line(size: int, kind: type[np.generic]) -> NDArray[Any]:
    """An array that begins a cache line."""
    size_in_bytes = size * np.dtype(kind).itemsize
    memory = np.empty(size_in_bytes + _LINE, np.uint8)
    first = -memory.ctypes.data % _LINE
    return memory[first : first + size_in_bytes].view(kind)


_MEMORY = LessonMemory()


def take_steps(
    memory: AdamMemory,
    turns: Turns,
    chosen: Minibatches,
    *,
    anew: bool,
    gamma: float,
    gae_lambda: float,
    clip: float,
    entropy: float,
    value_coefficient: float,
    max_norm: float,
) -> dict[str, float]:
    """Take a step of Adam by each minibatch of turns; the means of their losses.

    memory: of parameters that are the weight [outputs, inputs] and the bias [outputs] of each
    layer. anew: whether older weights than these played. NonFiniteGradientError if the norm of a
    gradient is not finite: nothing has changed then.
    """
    sizes = _sizes(memory.shapes)
    _check(turns.actions, int(sizes[-1]) - 1)
    losses = np.empty(len(LOSSES))
    rewards = turns.rewards / np.float32(turns.reward_divisor)
    what_happened = (turns.actions, turns.log_probs, turns.values, rewards, turns.dones)
    norm = learn_turns(
        memory.weights,
        *memory.moments,
        sizes,
        *map(np.ascontiguousarray, (turns.states, *what_happened, turns.trains)),
        anew,
        gamma,
        gae_lambda,
        np.concatenate(chosen),
        np.cumsum([len(part) for part in chosen]),
        clip,
        entropy,
        value_coefficient,
        max_norm,
        memory.count,
        *memory.settings,
        losses,
        *_MEMORY.for_lesson(sizes, turns.actions.shape, max(map(len, chosen))),
    )
    if not math.isfinite(norm):
        raise NonFiniteGradientError(f"the norm of the gradient is {norm}")
    memory.count_steps(len(chosen))
    return dict(zip(LOSSES, losses.tolist(), strict=True))


def _sizes(shapes: Sequence[tuple[int, ...]]) -> NDArray[np.int64]:
    """How many numbers go into the first layer and come out of each."""
    return np.array([shapes[0][1], *(shape[0] for shape in shapes[1::2])])


def _check(actions: NDArray[np.int64], count: int) -> None:
    """Kernels look at no bounds: an action that there is not would read what lies beside."""
    least, most = actions.min(), actions.max()
    if least < 0 or most >= count:
        raise IndexError(f"actions are from 0 to {count - 1}, and these from {least} to {most}")
