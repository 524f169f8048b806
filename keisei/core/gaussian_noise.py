"""Gaussian noise in large amounts, for the weights of noisy layers.

A stream is one seed, drawn from a model's generator: whoever saves the generator can go on. Pairs of
numbers are made by Box and Muller's method with polynomials that the compiler turns into vector
instructions, which takes a quarter of the time of `Tensor.normal_`.
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

_LOW_HALF = np.uint64(0xFFFFFFFF)
_UPPER, _LOWER_24, _SIGN = np.uint64(32), np.uint64(8), np.uint64(1)
_TO_FRACTION_32, _TO_FRACTION_24 = np.float32(2.0**-32), np.float32(2.0**-24)
_HALF, _ONE, _TWO = np.float32(0.5), np.float32(1), np.float32(2)
_LOG_2, _ROOT_2 = np.float32(math.log(2)), np.float32(math.sqrt(2))
_MANTISSA, _EXPONENT_OF_ONE = np.int32(0x7FFFFF), np.int32(0x3F800000)
_EXPONENT, _BIAS = np.int32(23), np.int32(127)
_L3, _L5, _L7, _L9 = (np.float32(2 / power) for power in (3, 5, 7, 9))
_S1, _S3, _S5, _S7, _S9, _S11 = (
    np.float32((-1) ** (power // 2) * (math.pi / 2) ** power / math.factorial(power))
    for power in (1, 3, 5, 7, 9, 11)
)


def noise_seed(generator: torch.Generator) -> int:
    """The seed of the next stream."""
    return int(torch.empty((), dtype=torch.int64).random_(generator=generator))


def gaussian_noise(generator: torch.Generator, count: int) -> Tensor:
    """[count] independent normal numbers; the generator moves on by one seed."""
    noise: NDArray[np.float32] = np.empty(count, np.float32)
    fill_with_noise(noise_seed(generator), noise)
    return torch.from_numpy(noise)


@kernel(entry=True)
def fill_with_noise(seed, noise):
    """Fill `noise` [M] with the first M numbers of a seed's stream."""
    half = (len(noise) + 1) // 2
    first = mix(np.uint64(seed) + STEP)
    for pair in range(len(noise) - half):
        word = mix(first + np.uint64(pair) * STEP)
        noise[pair], noise[half + pair] = two_normals(word)
    if len(noise) % 2:
        noise[half - 1], _ = two_normals(mix(first + np.uint64(half - 1) * STEP))


@kernel
def two_normals(word):
    """Two normal numbers of a random word: a radius, an angle in one quadrant, and two signs."""
    fraction = (np.float32(word >> _UPPER) + _HALF) * _TO_FRACTION_32
    radius = np.float32(math.sqrt(-_TWO * natural_log(fraction)))
    low = np.int64(word & _LOW_HALF)
    angle = np.float32(low >> 8) * _TO_FRACTION_24
    one, other = radius * sine_of_quarters(angle), radius * sine_of_quarters(_ONE - angle)
    return (-one if low & 1 else one), (-other if low & 2 else other)


@kernel
def natural_log(value):
    """The logarithm of a positive float32, as 2 atanh of (m - 1) / (m + 1) for its mantissa m."""
    bits = bits_of_float(value)
    mantissa = float_of_bits((bits & _MANTISSA) | _EXPONENT_OF_ONE)
    exponent = np.float32((bits >> _EXPONENT) - _BIAS)
    large = mantissa > _ROOT_2
    mantissa = mantissa * _HALF if large else mantissa
    exponent = exponent + _ONE if large else exponent
    ratio = (mantissa - _ONE) / (mantissa + _ONE)
    square = ratio * ratio
    series = _TWO + square * (_L3 + square * (_L5 + square * (_L7 + square * _L9)))
    return exponent * _LOG_2 + ratio * series


@kernel
def sine_of_quarters(quarters):
    """The sine of an angle between 0 and 1 quarter turns."""
    square = quarters * quarters
    series = _S5 + square * (_S7 + square * (_S9 + square * _S11))
    return quarters * (_S1 + square * (_S3 + square * series))
