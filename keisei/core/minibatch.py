"""Minibatches: which steps of a rollout, and what the learner needs of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from keisei.core.experience_buffer import ExperienceBuffer
from keisei.core.legal_pool import padded_legal, padded_width
from keisei.shogi.features import FeatureSet


class Lesson(NamedTuple):
    """What all minibatches of one update have in common."""

    buffer: ExperienceBuffer
    advantage_mean: float
    advantage_scale: float
    """Advantages are normalised to (advantage - mean) / scale."""
    entropy_weight: float
    version: int
    """Of the weights that the update begins with."""


class Minibatch(NamedTuple):
    """Some steps of a rollout, on the learner's device."""

    positions: Tensor
    legal: Tensor
    counts: Tensor
    actions: Tensor
    log_probs: Tensor
    advantages: Tensor
    returns: Tensor
    lags: Tensor
    """How many versions older the weights were that played."""
    sets: Tensor | None = None
    """What `FeatureSet.expand` has to know of the positions, where that is not in this memory."""


def lesson_of(
    buffer: ExperienceBuffer, *, advantage_floor: float, entropy_weight: float, version: int
) -> Lesson:
    """The lesson of a rollout whose advantages are computed: normalised over its own steps."""
    own = buffer.advantages[: buffer.filled][buffer.trains[: buffer.filled]]
    if len(own) == 0:  # a past self moved everywhere
        return Lesson(buffer, 0.0, 1.0, entropy_weight, version)
    scale = max(float(own.std()), advantage_floor, 1e-8)
    return Lesson(buffer, float(own.mean()), scale, entropy_weight, version)


def own_steps(buffer: ExperienceBuffer) -> NDArray[np.int64]:
    """The numbers (t * B + game) of the steps that train."""
    return np.flatnonzero(buffer.trains[: buffer.filled])


def shuffled_minibatches(
    steps: NDArray[np.int64], *, size: int, epochs: int, generator: torch.Generator
) -> Iterator[NDArray[np.int64]]:
    """Minibatches [size] of all steps, in another order for each of `epochs`.

    All have one size, and the last of a pass is filled up with its first steps: convolutions are
    compiled and memory is taken for every size of batch anew.
    """
    if len(steps) == 0:
        return
    size = min(size, len(steps))
    parts = -(-len(steps) // size)
    for _ in range(epochs):
        order = steps[torch.randperm(len(steps), generator=generator).numpy()]
        yield from np.resize(order, (parts, size))


def minibatch_of(
    lesson: Lesson, chosen: NDArray[np.int64], device: torch.device, features: FeatureSet
) -> Minibatch:
    """The steps numbered `chosen` [N], in that order, for a network with these features."""
    buffer = lesson.buffer
    counts = buffer.legal_counts.reshape(-1)[chosen].astype(np.int64)
    starts = buffer.legal_starts.reshape(-1)[chosen]
    legal = np.zeros((len(chosen), padded_width(counts)), np.int16)
    padded_legal(buffer.legal_pool, starts, counts, legal)
    advantages = buffer.advantages.reshape(-1)[chosen]
    positions = buffer.positions.reshape(-1, buffer.positions.shape[-1])[chosen]
    sets = None if device.type == "cpu" else features.sets_of(positions).to(device)
    arrays = (
        positions,
        legal,
        counts,
        buffer.actions.reshape(-1)[chosen].astype(np.int64),
        buffer.log_probs.reshape(-1)[chosen],
        (advantages - np.float32(lesson.advantage_mean)) / np.float32(lesson.advantage_scale),
        buffer.returns.reshape(-1)[chosen],
        (lesson.version - buffer.versions.reshape(-1)[chosen]).astype(np.float32),
    )
    return Minibatch(*(torch.from_numpy(array).to(device) for array in arrays))._replace(sets=sets)
