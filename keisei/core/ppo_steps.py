"""The gradient steps of a PPO lesson on a CPU, see `ppo_kernels`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from keisei.core.adam_memory import AdamMemory
from keisei.core.ppo_kernels import learn_turns
from keisei.core.ppo_lessons import Turns
from keisei.core.stacked_modules import NonFiniteGradientError

Minibatches = Sequence[NDArray[np.int64]]
"""Of each, the numbers of its turns among those that train."""
LOSSES = ("loss", "policy_loss", "value_loss", "entropy", "clip_share")


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
