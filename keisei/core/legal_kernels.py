"""The policy over the legal moves on a CPU: one pass over each row's own moves.

With tensors every row is as long as the longest, and a dozen passes go over all of it. Forward and
backward of the loss take 4.3 ms that way for 512 positions, of 38 ms for the whole gradient.

Logits [B, L] are those of the legal moves, in their order. Where all moves have one, `gather_legal`
finds them.
"""

from __future__ import annotations

import numpy as np

from keisei.compiled.kernels import kernel
from keisei.core.float_bits import narrowed, widened


@kernel(entry=True)
def gather_legal(logits, legal, counts, places, gathered):
    """Set gathered [B, L] to the logits of the first counts [B] of legal [B, L].

    logits [B, P] are floats or the bits of bfloat16; places [13527] says where each action's is.
    """
    for row in range(len(counts)):
        for index in range(counts[row]):
            gathered[row, index] = widened(logits[row, places[legal[row, index]]])


@kernel(entry=True)
def scatter_legal(gathered, legal, counts, places, logits):
    """The way back."""
    for row in range(len(counts)):
        for index in range(counts[row]):
            place = places[legal[row, index]]
            logits[row, place] = narrowed(gathered[row, index], logits[0, 0])


@kernel
def _normaliser(logits, row, count):
    """The logarithm of the sum of exp(logit) over a row's legal moves."""
    highest = -np.inf
    for index in range(count):
        highest = max(highest, logits[row, index])
    total = 0.0
    for index in range(count):
        total += np.exp(np.float64(logits[row, index]) - highest)
    return highest + np.log(total)


@kernel(entry=True)
def measure_legal(logits, legal, counts, actions, log_probs, entropies, normalisers):
    """Fill [B] log_probs of `actions`, entropies and normalisers; legal [B, L] with counts [B]."""
    for row in range(len(counts)):
        normaliser = _normaliser(logits, row, counts[row])
        entropy = 0.0
        for index in range(counts[row]):
            log_prob = logits[row, index] - normaliser
            entropy -= np.exp(log_prob) * log_prob
            if legal[row, index] == actions[row]:
                log_probs[row] = log_prob
        entropies[row] = entropy
        normalisers[row] = normaliser


@kernel(entry=True)
def legal_gradient(
    logits, legal, counts, actions, normalisers, entropies, by_log_prob, by_entropy, gradient
):
    """Set in gradient [B, L] what follows from the gradients [B] of `measure_legal`'s results.

    d log p(a) / d logit(j) = [a = j] - p(j), and d H / d logit(j) = -p(j) (log p(j) + H).
    """
    for row in range(len(counts)):
        for index in range(counts[row]):
            log_prob = logits[row, index] - normalisers[row]
            factor = by_log_prob[row] + by_entropy[row] * (log_prob + entropies[row])
            value = -np.exp(log_prob) * factor
            if legal[row, index] == actions[row]:
                value += by_log_prob[row]
            gradient[row, index] = value


@kernel(entry=True)
def choose_legal(logits, legal, counts, fractions, temperature, actions, log_probs):
    """Choose a legal action for each row, by inversion of fractions [B] in [0, 1).

    Without fractions ([0]) the most probable one. log_probs are those of temperature 1.
    """
    for row in range(len(counts)):
        normaliser = _normaliser(logits, row, counts[row])
        chosen = np.int64(0)
        if len(fractions) == 0:
            for index in range(counts[row]):
                if logits[row, index] > logits[row, chosen]:
                    chosen = index
        else:
            chosen = _sample(logits, row, counts[row], fractions[row], temperature, normaliser)
        actions[row] = legal[row, chosen]
        log_probs[row] = logits[row, chosen] - normaliser


@kernel
def _sample(logits, row, count, fraction, temperature, normaliser):
    """The index of the move in whose share of all probability `fraction` falls."""
    total = 0.0
    for index in range(count):
        total += np.exp((logits[row, index] - normaliser) / temperature)
    wanted = fraction * total
    reached = 0.0
    for index in range(count):
        reached += np.exp((logits[row, index] - normaliser) / temperature)
        if reached > wanted:
            return np.int64(index)
    return np.int64(count - 1)
