"""Figures of rollouts add up, and survive being sent as numbers."""

from collections import Counter
from dataclasses import fields

from hypothesis import given
from hypothesis import strategies as st

from keisei.shogi.judging import Reason
from keisei.training.parallel.rollout_statistics import SIZE, RolloutStatistics

COUNTS = [
    field.name
    for field in fields(RolloutStatistics)
    if field.name != "reasons" and not field.name.endswith("_seconds")
]
count = st.integers(0, 2**50)
seconds = st.floats(0, 1e9)
statistics_of_rollouts = st.builds(
    RolloutStatistics,
    **dict.fromkeys(COUNTS, count),
    games_seconds=seconds,
    inference_seconds=seconds,
    reasons=st.dictionaries(
        st.sampled_from([reason.name.lower() for reason in Reason]), st.integers(1, 2**50)
    ).map(Counter),
)


@given(statistics_of_rollouts)
def test_numbers_give_the_statistics_back(statistics):
    array = statistics.as_array()
    assert array.shape == (SIZE,)
    back = RolloutStatistics.from_array(array)
    assert back == statistics
    assert all(type(getattr(back, name)) is int for name in COUNTS)
    assert type(back.games_seconds) is float


@given(statistics_of_rollouts, statistics_of_rollouts)
def test_what_is_added_is_counted_as_well(one, other):
    total = RolloutStatistics()
    total.add(one)
    assert total == one
    total.add(other)
    for name in [*COUNTS, "games_seconds", "inference_seconds"]:
        assert getattr(total, name) == getattr(one, name) + getattr(other, name)
    assert total.reasons == one.reasons + other.reasons


def test_reasons_that_did_not_occur_are_not_mentioned():
    array = RolloutStatistics(reasons=Counter(checkmate=2)).as_array()
    assert dict(RolloutStatistics.from_array(array).reasons) == {"checkmate": 2}
