"""How long the engine may think."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keisei.play.time_control import thinking_time
from keisei.play.usi_protocol import Go

BLACK, WHITE = 0, 1


def test_byoyomi_alone_is_used_up_to_the_margin():
    time = thinking_time(Go(btime=0, wtime=0, byoyomi=2000), BLACK, 0.15)
    assert time.target == time.deadline == pytest.approx(1.85)


def test_each_player_has_a_clock():
    go = Go(btime=60_000, wtime=6_000)
    black, white = (thinking_time(go, mover, 0.1) for mover in (BLACK, WHITE))
    assert black.target == pytest.approx(10 * white.target)


def test_main_time_lasts_for_many_moves():
    left, moves = 300.0, 0
    while left > 10:
        left -= thinking_time(Go(btime=round(left * 1000)), BLACK, 0.1).target
        moves += 1
    assert moves > 80


def test_a_search_that_is_not_settled_gets_more_time():
    time = thinking_time(Go(btime=60_000), BLACK, 0.1)
    assert time.target < time.deadline <= 3 * time.target


def test_an_increment_is_spent_but_not_before_it_is_on_the_clock():
    rich = thinking_time(Go(btime=100_000, binc=5_000), BLACK, 0.1)
    assert rich.target == pytest.approx(100 / 30 + 5)
    on_the_clock_already = thinking_time(Go(btime=5_100, binc=5_000), BLACK, 0.1)
    assert on_the_clock_already.deadline == pytest.approx(5.0)
    still_to_come = thinking_time(Go(btime=0, binc=5_000), BLACK, 0.1)
    assert still_to_come.deadline == pytest.approx(4.9)


def test_a_time_for_the_move_comes_first():
    time = thinking_time(Go(movetime=700, btime=100_000, infinite=True), WHITE, 0.2)
    assert time.target == time.deadline == pytest.approx(0.5)


def test_a_time_shorter_than_the_margin_is_used_by_half():
    assert thinking_time(Go(byoyomi=100), BLACK, 0.15).deadline == pytest.approx(0.05)


def test_no_time_left_is_no_time_to_think():
    assert thinking_time(Go(btime=0, wtime=0), BLACK, 0.15).deadline == 0


@pytest.mark.parametrize("go", [Go(infinite=True), Go(nodes=10), Go(depth=3)])
def test_without_a_clock_something_else_ends_the_search(go):
    assert thinking_time(go, BLACK, 0.1) is None


def test_go_without_any_limit_gets_a_second():
    assert thinking_time(Go(), BLACK, 0.1).deadline == 1


CLOCK = st.integers(0, 10_000_000) | st.none()


@given(CLOCK, CLOCK, CLOCK, CLOCK, CLOCK, st.sampled_from([BLACK, WHITE]), st.floats(0, 10))
def test_no_clock_is_ever_overrun(btime, wtime, byoyomi, binc, winc, mover, margin):
    go = Go(btime, wtime, byoyomi, binc, winc)
    time = thinking_time(go, mover, margin)
    if go != Go():
        main, increment = (btime, binc) if mover == BLACK else (wtime, winc)
        on_the_clock = ((main or 0) + (byoyomi or 0) + (increment or 0)) / 1000
        assert 0 <= time.target <= time.deadline <= on_the_clock + 1e-9
