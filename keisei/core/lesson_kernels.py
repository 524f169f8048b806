"""A lesson of PPO for the network of `tower_kernels`: what it says, the loss, and all gradients.

Some positions at a time, so that what their layers hold stays in the processor's own cache until
it is needed again: of a whole minibatch it is nine megabytes, for which learners and workers on
other cores have to share what lies between them and the memory.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keisei.compiled.kernels import kernel
from keisei.core.answer_kernels import ROWS_AT_ONCE, Floats, value_of
from keisei.core.convolution_code import BOARD_SQUARES
from keisei.core.legal_kernels import legal_gradient, measure_legal
from keisei.core.matrix_products import add_product
from keisei.core.tower_kernels import VALUE_CHANNELS, WIDTH, tower_backward, tower_forward
from keisei.shogi.plane_kernel import write_sparse_planes

FIGURES = 5
_ZERO = np.float32(0)


class Steps(NamedTuple):
    """What R steps were when they were played, and what came of them."""

    positions: NDArray[np.int8]
    """[R, 100]"""
    legal: NDArray[np.uint16]
    """[R, L]"""
    counts: NDArray[np.int64]
    """[R] of the legal moves, and so on: see `Minibatch`."""
    actions: NDArray[np.int64]
    log_probs: Floats
    advantages: Floats
    returns: Floats
    lags: Floats


class Gradients(NamedTuple):
    """Sums to add to."""

    stem: Floats
    """By plane: [C, 9 * 16]."""
    stem_bias: Floats
    tower: Floats
    """[L, 3, 3, 16, 16], inputs before outputs."""
    tower_biases: Floats
    heads: Floats
    """[16, 32]"""
    heads_bias: Floats
    hidden: Floats
    """[H, 4 * 81]"""
    hidden_bias: Floats
    last: Floats
    last_bias: Floats


class Objective(NamedTuple):
    """What `ppo_losses` is told."""

    clip: float
    value_coefficient: float
    entropy_weight: float
    most_weight: float
    share: float
    """Of a step in the mean over the minibatch."""


@kernel(entry=True)
def learn_from(steps, expansion, weights, places, objective, sums, figures):
    """Add the gradients of the loss of R steps to `sums`, and to figures [5] float64 its parts.

    Figures: loss of the policy and of the value, entropy, Kullback-Leibler divergence and the share
    of clipped steps, as `ppo_losses` defines them.
    """
    hidden_units = len(weights.last)
    sets = np.empty((ROWS_AT_ONCE, 81, expansion.words), np.int64)
    even = np.empty((ROWS_AT_ONCE, expansion.even_planes), np.float32)
    boards = np.zeros((ROWS_AT_ONCE, len(weights.tower) + 1, BOARD_SQUARES, WIDTH), np.uint16)
    logits = np.empty((ROWS_AT_ONCE, steps.legal.shape[1]), np.float32)
    by_logits = np.empty_like(logits)
    squares = np.empty((ROWS_AT_ONCE, VALUE_CHANNELS * 81), np.float32)
    by_squares = np.empty_like(squares)
    hidden = np.empty((ROWS_AT_ONCE, hidden_units), np.float32)
    by_hidden = np.empty_like(hidden)
    by_unit = np.empty((hidden_units, ROWS_AT_ONCE), np.float32)
    said = np.empty((5, ROWS_AT_ONCE), np.float32)  # of each row, see below
    for first in range(0, len(steps.counts), ROWS_AT_ONCE):
        behind = min(first + ROWS_AT_ONCE, len(steps.counts))
        rows = behind - first
        legal, counts = steps.legal[first:behind], steps.counts[first:behind]
        actions = steps.actions[first:behind]
        log_probs, entropies, normalisers, by_log_prob, by_entropy = (
            said[0, :rows],
            said[1, :rows],
            said[2, :rows],
            said[3, :rows],
            said[4, :rows],
        )
        write_sparse_planes(steps.positions[first:behind], expansion, sets[:rows], even[:rows])
        tower_forward(
            sets[:rows],
            even[:rows],
            legal,
            counts,
            places,
            weights.stem,
            weights.stem_bias,
            weights.tower,
            weights.tower_biases,
            weights.heads,
            weights.heads_bias,
            boards[:rows],
            logits[:rows],
            squares[:rows],
        )
        measure_legal(logits[:rows], legal, counts, actions, log_probs, entropies, normalisers)
        for row in range(rows):
            step = first + row
            by_log_prob[row] = _policy_slope(steps, step, log_probs[row], objective, figures)
            by_entropy[row] = -objective.entropy_weight * objective.share
            figures[2] += objective.share * entropies[row]
            for unit in range(hidden_units):
                hidden[row, unit] = weights.hidden_bias[unit]
        legal_gradient(
            logits[:rows],
            legal,
            counts,
            actions,
            normalisers,
            entropies,
            by_log_prob,
            by_entropy,
            by_logits[:rows],
        )
        add_product(squares[:rows], weights.hidden, hidden[:rows])
        for row in range(rows):
            _learn_value(
                hidden[row],
                steps.returns[first + row],
                weights,
                objective,
                by_hidden[row],
                sums,
                figures,
            )
            for unit in range(hidden_units):
                by_unit[unit, row] = by_hidden[row, unit]
        by_squares[:] = 0
        add_product(by_hidden[:rows], weights.hidden_back, by_squares[:rows])
        add_product(by_unit[:, :rows], squares[:rows], sums.hidden)
        tower_backward(
            sets[:rows],
            even[:rows],
            legal,
            counts,
            places,
            boards[:rows],
            squares[:rows],
            weights.tower_back,
            weights.heads_back,
            by_logits[:rows],
            by_squares[:rows],
            sums.stem,
            sums.stem_bias,
            sums.tower,
            sums.tower_biases,
            sums.heads,
            sums.heads_bias,
        )


@kernel
def _policy_slope(steps, step, log_prob, objective, figures):
    """The slope of the loss by a move's log-probability."""
    since_played = np.float64(log_prob) - steps.log_probs[step]
    lag = np.float64(steps.lags[step])
    before_update = since_played * (lag / (1 + lag))
    log_ratio = since_played - before_update
    ratio = np.exp(log_ratio)
    clipped = ratio
    if ratio > 1 + objective.clip:
        clipped = 1 + objective.clip
    elif ratio < 1 - objective.clip:
        clipped = 1 - objective.clip
    gain, clipped_gain = ratio * steps.advantages[step], clipped * steps.advantages[step]
    weight = min(np.exp(before_update), objective.most_weight)
    figures[0] -= objective.share * weight * (clipped_gain if clipped_gain < gain else gain)
    figures[3] += objective.share * (ratio - 1 - log_ratio)
    if abs(ratio - 1) > objective.clip:
        figures[4] += objective.share
    return 0.0 if clipped_gain < gain else -objective.share * weight * gain


@kernel
def _learn_value(hidden, wanted, weights, objective, by_hidden, sums, figures):
    """Add the gradients of the value's last layers, and set those by what goes into them [H]."""
    value = value_of(hidden, weights)
    wrong = value - wanted
    figures[1] += objective.share * wrong * wrong
    by_value = 2 * objective.share * objective.value_coefficient * wrong
    slope = np.float32(by_value * (1 - value * value))
    sums.last_bias[0] += slope
    for unit in range(len(hidden)):
        by_hidden[unit] = _ZERO
        if not hidden[unit] <= _ZERO:
            sums.last[unit] += slope * hidden[unit]
            by_hidden[unit] = slope * weights.last[unit]
            sums.hidden_bias[unit] += by_hidden[unit]
