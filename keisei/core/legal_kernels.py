"""The policy over the legal moves on a CPU: one pass over each row's own moves.

With tensors every row is as long as the longest, and a dozen passes go over all of it. Forward and
backward of the loss take 4.3 ms that way for 512 positions, of 38 ms for the whole gradient.
"""

from __future__ import annotations

import numpy as np

from keisei.compiled.kernels import kernel


@kernel
def _normaliser(logits, row, legal, count, planes):
    """The logarithm of the sum of exp(logit) over a row's legal moves."""
    highest = -np.inf
    for index in range(count):
        highest = max(highest, logits[row, planes[legal[row, index]]])
    total = 0.0
    for index in range(count):
        total += np.exp(np.float64(logits[row, planes[legal[row, index]]]) - highest)
    return highest + np.log(total)


@kernel(entry=True)
def measure_legal(logits, legal, counts, actions, planes, log_probs, entropies, normalisers):
    """Fill [B] log_probs of `actions`, entropies and normalisers.

    logits [B, 2187], legal [B, L] uint16 with counts [B], planes [13527]: of every action.
    """
    for row in range(len(counts)):
        normaliser = _normaliser(logits, row, legal, counts[row], planes)
        entropy = 0.0
        for index in range(counts[row]):
            log_prob = logits[row, planes[legal[row, index]]] - normaliser
            entropy -= np.exp(log_prob) * log_prob
        log_probs[row] = logits[row, planes[actions[row]]] - normaliser
        entropies[row] = entropy
        normalisers[row] = normaliser


@kernel(entry=True)
def legal_gradient(
    logits,
    legal,
    counts,
    actions,
    planes,
    normalisers,
    entropies,
    by_log_prob,
    by_entropy,
    gradient,
):
    """Add to gradient [B, 2187] what follows from the gradients [B] of `measure_legal`'s results.

    d log p(a) / d logit(j) = [a = j] - p(j), and d H / d logit(j) = -p(j) (log p(j) + H).
    """
    for row in range(len(counts)):
        for index in range(counts[row]):
            plane = planes[legal[row, index]]
            log_prob = logits[row, plane] - normalisers[row]
            factor = by_log_prob[row] + by_entropy[row] * (log_prob + entropies[row])
            gradient[row, plane] -= np.exp(log_prob) * factor
        gradient[row, planes[actions[row]]] += by_log_prob[row]


@kernel(entry=True)
def choose_legal(logits, legal, counts, fractions, temperature, planes, actions, log_probs):
    """Choose a legal action for each row, by inversion of fractions [B] in [0, 1).

    Without fractions ([0]) the most probable one. log_probs are those of temperature 1.
    """
    for row in range(len(counts)):
        normaliser = _normaliser(logits, row, legal, counts[row], planes)
        chosen = np.int64(0)
        if len(fractions) == 0:
            for index in range(counts[row]):
                here, best = planes[legal[row, index]], planes[legal[row, chosen]]
                if logits[row, here] > logits[row, best]:
                    chosen = index
        else:
            chosen = _sample(
                logits, row, legal, counts[row], fractions[row], temperature, normaliser, planes
            )
        actions[row] = legal[row, chosen]
        log_probs[row] = logits[row, planes[legal[row, chosen]]] - normaliser


@kernel
def _sample(logits, row, legal, count, fraction, temperature, normaliser, planes):
    """The index of the move in whose share of all probability `fraction` falls."""
    total = 0.0
    for index in range(count):
        total += np.exp((logits[row, planes[legal[row, index]]] - normaliser) / temperature)
    wanted = fraction * total
    reached = 0.0
    for index in range(count):
        reached += np.exp((logits[row, planes[legal[row, index]]] - normaliser) / temperature)
        if reached > wanted:
            return np.int64(index)
    return np.int64(count - 1)
