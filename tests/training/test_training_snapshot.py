"""How durations, figures and their course are written in a few characters."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keisei.training.training_snapshot import format_duration, format_figure, sparkline


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0:00"),
        (59.6, "1:00"),
        (245, "4:05"),
        (3845, "1:04:05"),
        (86_399, "23:59:59"),
        (2 * 86_400 + 3 * 3600 + 4 * 60, "2d 03:04"),
        (-5, "0:00"),
        (None, "unknown"),
        (math.nan, "unknown"),
        (math.inf, "unknown"),
    ],
)
def test_durations_read_as_a_clock(seconds, text):
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("value_loss", 0.5, "0.5000"),
        ("value_loss", 0.0, "0.0"),
        ("entropy", -2.5, "-2.500"),
        ("legal_moves", 81.25, "81.25"),
        ("game_length", 123.45, "123.5"),
        ("games", 12_345.6, "12,346"),
        ("games", 2_000_000, "2.00e+06"),
        ("learning_rate", 3e-4, "0.000300"),
        ("learning_rate", 1e-5, "1.00e-05"),
        ("cut_share", 0.123, "12.3%"),
        ("kl", math.nan, "nan"),
        ("kl", -math.inf, "-inf"),
    ],
)
def test_figures_keep_about_four_digits(name, value, text):
    assert format_figure(name, value) == text


@pytest.mark.parametrize(
    ("values", "width", "bars"),
    [
        ([], 5, ""),
        ([1, 2], 0, ""),
        ([1, 2], -1, ""),
        ([3, 3, 3], 5, "▄▄▄"),
        ([math.nan, math.inf], 5, "  "),
        ([0, math.nan, 7], 5, "▁ █"),
        ([0, 1, 2, 3, 4, 5, 6, 7], 8, "▁▂▃▄▅▆▇█"),
        ([100, 0, 7], 2, "▁█"),
    ],
)
def test_sparklines(values, width, bars):
    assert sparkline(values, width) == bars


@given(st.lists(st.floats()), st.integers(0, 50))
def test_a_sparkline_has_a_mark_for_every_value(values, width):
    assert re.fullmatch(rf"[ ▁▂▃▄▅▆▇█]{{{min(len(values), width)}}}", sparkline(values, width))
