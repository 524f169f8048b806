"""Epsilon falls as its schedule says, and never below its floor."""

import pytest

from keisei.core.exploration import SCHEDULES, GeometricDecay, LinearDecay


def test_geometric_decay_loses_a_share_every_epoch():
    epsilon = GeometricDecay(start=0.6, decay=0.1)
    assert epsilon(0) == 0.6
    assert epsilon(3) == pytest.approx(0.6 * 0.9**3)


def test_linear_decay_loses_the_same_every_epoch():
    epsilon = LinearDecay(start=0.6, decay=0.1)
    assert [epsilon(epoch) for epoch in (0, 2)] == pytest.approx([0.6, 0.4])


@pytest.mark.parametrize("schedule", SCHEDULES.values())
def test_epsilon_stays_at_its_floor(schedule):
    assert schedule(start=0.6, decay=0.1, floor=0.05)(1000) == 0.05
    assert schedule(start=0.6, decay=0.1)(10**6) == pytest.approx(0)
