"""Gaussian noise in large amounts, for the weights of noisy layers.

A stream is one seed, drawn from a model's generator: whoever saves the generator can go on. Pairs
of numbers are made by Box and Muller's method with polynomials that the compiler turns into vector
instructions, which takes a fifth of the time of `Tensor.normal_`.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from keisei.compiled.kernels import kernel
from keisei.compiled.splitmix import STEP, mix
from keisei.core.float_bits import bits_of_float, float_of_bits

_HALF, _ONE, _TWO = np.float32(0.5), np.float32(1), np.float32(2)
_LOWER_31, _LOWER_24 = np.int32(0x7FFFFFFF), np.int32(0xFFFFFF)
_TO_FRACTION_31, _TO_FRACTION_24 = np.float32(2.0**-31), np.float32(2.0**-24)
_BIT_0, _BIT_1 = np.int32(1), np.int32(2)
_LOG_2, _ROOT_2 = np.float32(math.log(2)), np.float32(math.sqrt(2))
_MANTISSA, _EXPONENT_OF_ONE = np.int32(0x7FFFFF), np.int32(0x3F800000)
_L3, _L5, _L7, _L9 = (np.float32(2 / power) for power in (3, 5, 7, 9))
_S1, _S3, _S5, _S7, _S9, _S11 = (
    np.float32((-1) ** (power // 2) * (math.pi / 2) ** power / math.factorial(power))
    for power in (1, 3, 5, 7, 9, 11)
)


def noise_seeds(generator: torch.Generator, count: int) -> list[int]:
    """The seeds of the next streams, the same whether they are drawn at once or one by one."""
    seeds: list[int] = torch.empty(count, dtype=torch.int64).random_(generator=generator).tolist()
    return seeds


def gaussian_noise(generator: torch.Generator, count: int) -> Tensor:
    """[count] independent normal numbers; the generator moves on by one seed."""
    noise: NDArray[np.float32] = np.empty(count, np.float32)
    fill_with_noise(*noise_seeds(generator, 1), noise)
    return torch.from_numpy(noise)


@kernel(entry=True)
def fill_with_noise(seed, noise):
    """Fill `noise` [M] with the numbers of a seed's stream."""
    half = (len(noise) + 1) // 2
    words = np.empty(half, np.uint64)
    fill_with_words(mix(np.uint64(seed) + STEP), words)
    normals, others = noise[:half], np.empty(half, np.float32)
    words_to_normals(words.view(np.int32), normals, others)
    noise[half:] = others[: len(noise) - half]


@kernel
def fill_with_words(first, words):
    """Random words; a loop of its own, as one with numbers of two sizes is not made of vectors."""
    for pair in range(len(words)):
        words[pair] = mix(first + np.uint64(pair) * STEP)


@kernel
def words_to_normals(halves, normals, others):
    """Two normal numbers of each word: a radius, an angle in one quadrant, and two signs.

    halves: [2 M] int32, of which two make a word; normals and others: [M].
    """
    for pair in range(len(normals)):
        one, other = halves[2 * pair], halves[2 * pair + 1]
        fraction = (np.float32(one & _LOWER_31) + _HALF) * _TO_FRACTION_31
        radius = math.sqrt(max(-_TWO * natural_log(fraction), np.float32(0)))
        angle = np.float32((other >> np.int32(8)) & _LOWER_24) * _TO_FRACTION_24
        normals[pair] = with_sign(radius * sine_of_quarters(angle), other & _BIT_0)
        others[pair] = with_sign(radius * sine_of_quarters(_ONE - angle), (other & _BIT_1) >> 1)


@kernel
def with_sign(value, negative):
    """A positive float32, or its negative where `negative` (int32) is 1."""
    return float_of_bits(bits_of_float(value) | (np.int32(negative) << np.int32(31)))


@kernel
def natural_log(value):
    """The logarithm of a positive float32; that of its mantissa m is 2 atanh((m - 1) / (m + 1)).

    The series is taken around the root of 2, in the middle of all mantissas.
    """
    bits = bits_of_float(value)
    mantissa = float_of_bits((bits & _MANTISSA) | _EXPONENT_OF_ONE)
    exponent = np.float32((bits >> np.int32(23)) - np.int32(127))
    ratio = (mantissa - _ROOT_2) / (mantissa + _ROOT_2)
    square = ratio * ratio
    series = _TWO + square * (_L3 + square * (_L5 + square * (_L7 + square * _L9)))
    return (exponent + _HALF) * _LOG_2 + ratio * series


@kernel
def sine_of_quarters(quarters):
    """The sine of an angle between 0 and 1 quarter turns."""
    square = quarters * quarters
    series = _S5 + square * (_S7 + square * (_S9 + square * _S11))
    return quarters * (_S1 + square * (_S3 + square * series))
