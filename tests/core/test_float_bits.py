"""bfloat16 in kernels is torch's, and sums in any order are sums."""

import numpy as np
import pytest
import torch

from keisei.compiled.kernels import kernel
from keisei.core.float_bits import (
    bits_of_float,
    float_of_bits,
    narrowed,
    sum_in_any_order,
    widened,
)


@kernel(entry=True)
def narrow(values, out):
    for k in range(len(values)):
        out[k] = narrowed(values[k], out[k])


@kernel(entry=True)
def widen(values, out):
    for k in range(len(values)):
        out[k] = widened(values[k])


@kernel(entry=True)
def total_of(values):
    total = np.float32(0)
    for k in range(len(values)):
        total = sum_in_any_order(total, values[k])
    return total


@kernel(entry=True)
def there_and_back(values):
    for k in range(len(values)):
        values[k] = float_of_bits(bits_of_float(values[k]))


def awkward_values():
    """Of all sizes, halfway between two bfloat16, and not finite."""
    random = np.random.default_rng(0)
    sizes = (random.normal(size=5000) * 10.0 ** random.integers(-30, 30, 5000)).astype(np.float32)
    ties = (sizes.view(np.uint32) & np.uint32(0xFFFF0000) | np.uint32(0x8000)).view(np.float32)
    return np.concatenate([sizes, ties, np.array([0, -0.0, np.inf, -np.inf, np.nan], np.float32)])


def test_narrowing_rounds_as_torch_does():
    values, out = awkward_values(), torch.empty(10_005, dtype=torch.bfloat16)
    narrow(values, out.view(torch.uint16).numpy())
    assert torch.equal(out.nan_to_num(), torch.from_numpy(values).bfloat16().nan_to_num())
    assert torch.isnan(out).tolist() == np.isnan(values).tolist()


def test_widening_gives_the_value_of_a_bfloat16_back():
    values, out = torch.from_numpy(awkward_values()).bfloat16(), np.empty(10_005, np.float32)
    widen(values.view(torch.uint16).numpy(), out)
    assert np.array_equal(out, values.float().numpy(), equal_nan=True)


def test_float32_stays_as_it_is():
    values = awkward_values()
    for copied in (narrow, widen):
        out = np.zeros_like(values)
        copied(values, out)
        assert out.tobytes() == values.tobytes()


def test_the_bits_of_a_float_are_that_float():
    values = awkward_values()
    before = values.tobytes()
    there_and_back(values)
    assert values.tobytes() == before


@pytest.mark.parametrize("count", [0, 1, 15, 16, 1000])
def test_a_sum_in_any_order_is_the_sum_and_always_the_same(count):
    values = np.random.default_rng(count).normal(size=count).astype(np.float32)
    total = total_of(values)
    assert total == pytest.approx(values.astype(np.float64).sum(), abs=1e-4)
    assert total_of(values.copy()) == total


def test_a_sum_with_something_that_is_not_a_number_is_none():
    values = np.ones(100, np.float32)
    values[37] = np.nan
    assert np.isnan(total_of(values))
