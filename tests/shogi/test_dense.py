"""Dense masks and planes agree with the sparse lists and with the torch features."""

import numpy as np
import pytest
import torch

from keisei.shogi.dense import DenseView
from keisei.shogi.features import FEATURE_SETS
from keisei.shogi.vector_shogi import VectorShogi


@pytest.mark.parametrize(
    ("threads", "games", "steps"),
    [(1, 40, 400), (2, 40, 400), pytest.param(2, 3, 12, marks=pytest.mark.uncompiled)],
)
def test_after_every_step_the_view_shows_exactly_the_games(threads, games, steps):
    games = VectorShogi(games, threads=threads, seed=2, max_moves=300, random_start_share=0.5)
    view = DenseView(games)
    for _ in range(steps):
        expected = np.zeros_like(view.mask)
        for row, count in enumerate(games.legal_counts):
            expected[row, games.legal[row, :count]] = True
        assert np.array_equal(view.mask, expected)
        planes = FEATURE_SETS["core46"].expand(torch.from_numpy(games.positions))
        assert np.array_equal(view.planes, planes.numpy())
        games.step(games.random_actions())
        view.update()
