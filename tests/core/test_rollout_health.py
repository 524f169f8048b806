"""The figures that tell when self-play goes wrong."""

import pytest
import torch

from keisei.core.rollout_health import OPENING_PLY, rollout_health
from keisei.shogi.batch import PLY_HIGH, PLY_LOW


def positions(*plies, squares=None):
    rows = torch.zeros(len(plies), 100, dtype=torch.int8)
    for row, ply in zip(rows, plies, strict=True):
        row[PLY_LOW], row[PLY_HIGH] = (ply & 255) - 256 * (ply & 255 > 127), ply >> 8
    if squares is not None:
        rows[:, 0] = torch.tensor(squares)
    return rows


def health(values, returns, *plies, squares=None):
    plies = plies or (0,) * len(values)
    numbers = (torch.tensor(x, dtype=torch.float32) for x in (values, returns))
    return rollout_health(positions(*plies, squares=squares), *numbers)


def test_values_that_come_true_on_average_are_calibrated_though_they_explain_little():
    figures = health([0.5] * 4, [1, 1, 1, -1])
    assert figures["calibration_error"] == pytest.approx(0)
    assert figures["explained_variance"] == pytest.approx(0)


def test_values_that_are_too_sure_of_themselves_are_not_calibrated():
    figures = health([0.9, 0.9, -0.9, -0.9], [1, -1, 1, -1])
    assert figures["calibration_error"] == pytest.approx(0.9)


def test_a_prophet_explains_everything():
    figures = health([1, -1, 0.5], [1, -1, 0.5])
    assert figures["explained_variance"] == pytest.approx(1)
    assert figures["calibration_error"] == pytest.approx(0)


def test_openings_are_counted_where_games_are_at_their_ply():
    plies = (OPENING_PLY, OPENING_PLY, OPENING_PLY, OPENING_PLY, OPENING_PLY + 256, 3)
    figures = health([0] * 6, [0] * 6, *plies, squares=[1, 1, 1, 2, 3, 4])
    assert figures["opening_diversity"] == 0.5


def test_without_a_game_at_that_ply_nothing_is_said_of_openings():
    assert "opening_diversity" not in health([0, 0], [0, 1], 3, OPENING_PLY + 256)


def test_where_nothing_trains_there_is_nothing_to_tell():
    assert health([], []) == {"explained_variance": 0, "calibration_error": 0}
