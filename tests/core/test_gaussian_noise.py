"""The noise is normal, independent, and decided by the generator alone."""

from math import erf

import numpy as np
import pytest
import torch

from keisei.core.gaussian_noise import fill_with_noise, gaussian_noise, noise_seeds

MANY = 1_000_000


def noise(seed=1, count=MANY):
    return gaussian_noise(torch.Generator().manual_seed(seed), count).double().numpy()


def test_its_moments_are_those_of_the_normal_distribution():
    numbers = noise()
    for power, moment in enumerate([0, 1, 0, 3, 0, 15], start=1):
        deviation = (numbers**power).std() / MANY**0.5
        assert (numbers**power).mean() == pytest.approx(moment, abs=5 * deviation)


@pytest.mark.parametrize("limit", [-4, -2.5, -1, -0.1, 0, 0.4, 1.5, 3])
def test_as_many_numbers_lie_below_a_limit_as_the_normal_distribution_says(limit):
    share = (1 + erf(limit / 2**0.5)) / 2
    deviation = (share * (1 - share) / MANY) ** 0.5
    assert (noise() < limit).mean() == pytest.approx(share, abs=5 * deviation)


@pytest.mark.parametrize("distance", [1, 2, MANY // 2, 997])
def test_numbers_do_not_depend_on_each_other(distance):
    numbers = noise()
    for power in (1, 2):
        one, other = numbers[distance:] ** power, numbers[:-distance] ** power
        correlation = np.corrcoef(one, other)[0, 1]
        assert abs(correlation) < 5 / len(one) ** 0.5


def test_streams_of_neighbouring_seeds_do_not_depend_on_each_other():
    streams = np.empty((2, MANY), np.float32)
    for seed in range(2):
        fill_with_noise(seed, streams[seed])
    assert abs(np.corrcoef(streams)[0, 1]) < 5 / MANY**0.5


def test_the_generator_decides_and_moves_on():
    generator = torch.Generator().manual_seed(5)
    first, second = (gaussian_noise(generator, 99) for _ in range(2))
    generator.manual_seed(5)
    assert torch.equal(gaussian_noise(generator, 99), first)
    assert torch.equal(gaussian_noise(generator, 99), second)
    assert not torch.equal(first, second)


def test_seeds_drawn_at_once_are_those_drawn_one_by_one():
    generator = torch.Generator().manual_seed(5)
    at_once = noise_seeds(generator, 6)
    next_number = torch.rand(1, generator=generator)
    generator.manual_seed(5)
    assert [seed for _ in range(6) for seed in noise_seeds(generator, 1)] == at_once
    assert torch.equal(torch.rand(1, generator=generator), next_number)
    assert len(set(at_once)) == 6


@pytest.mark.parametrize("count", [0, 1, 2, 3, 16, 33])
def test_there_may_be_any_count_of_numbers(count):
    numbers = noise(count=count)
    assert len(numbers) == count
    assert np.isfinite(numbers).all()
    assert len(set(numbers)) == count
