"""When a `go` has to end."""

import time

from keisei.play.engine_thought import Thought
from keisei.play.searching import Line, SearchReport
from keisei.play.time_control import ThinkingTime
from keisei.play.usi_options import Options
from keisei.play.usi_protocol import Go, Position


def thought_of(go, *, ago=0.0, options=None, target=None, deadline=None):
    """A thought whose `go` was read some seconds ago."""
    thought = Thought(go, Position(), options or Options(), read_at=time.monotonic() - ago)
    if target is not None:
        thought.begin(ThinkingTime(target, deadline))
    return thought


def report_of(move):
    return SearchReport((Line((move,), 0.0, 1),), 1, 0.1, 1, 1, 0)


def test_it_ends_at_the_target_counted_from_when_go_was_read():
    assert not thought_of(Go(byoyomi=1), ago=5, target=60, deadline=60).is_over()
    assert thought_of(Go(byoyomi=1), ago=61, target=60, deadline=60).is_over()


def test_a_search_that_changes_its_mind_goes_on_to_the_deadline():
    thought = thought_of(Go(byoyomi=1), ago=61, target=60, deadline=120)
    thought.note(report_of("7g7f"))
    assert thought.is_over()
    thought.note(report_of("2g2f"))
    assert not thought.is_over()
    thought.note(report_of("2g2f"))
    assert thought.is_over()
    late = thought_of(Go(byoyomi=1), ago=121, target=60, deadline=120)
    late.note(report_of("7g7f"))
    late.note(report_of("2g2f"))
    assert late.is_over()


def test_it_ends_before_a_step_that_would_not_fit():
    thought = thought_of(Go(byoyomi=1), target=0.3, deadline=0.3)
    assert not thought.is_over()
    time.sleep(0.2)
    assert thought.is_over()


def test_stop_ends_any():
    for go in (Go(), Go(infinite=True), Go(ponder=True), Go(ponder=True, infinite=True)):
        thought = thought_of(go)
        assert not thought.is_over()
        thought.stop()
        assert thought.is_over()
        thought.wait_until_answer_is_wanted()


def test_the_clock_of_a_ponder_runs_from_ponderhit():
    thought = thought_of(Go(ponder=True), ago=1000, target=60, deadline=60)
    assert not thought.is_over()
    assert thought.limits().seconds is None
    thought.ponder_hit(time.monotonic())
    assert not thought.is_over()
    assert 50 < thought.limits().seconds <= 60
    thought = thought_of(Go(ponder=True), ago=1000, target=60, deadline=60)
    thought.ponder_hit(time.monotonic() - 61)
    assert thought.is_over()


def test_ponderhit_says_nothing_to_a_search_that_does_not_ponder():
    thought = thought_of(Go(byoyomi=1), ago=61, target=60, deadline=60)
    thought.ponder_hit(time.monotonic())
    assert thought.is_over()


def test_the_fewer_nodes_count():
    assert thought_of(Go(nodes=50), options=Options(nodes=10)).limits().nodes == 10
    assert thought_of(Go(nodes=5), options=Options(nodes=10)).limits().nodes == 5
    assert thought_of(Go(nodes=0)).limits().nodes == 1


def test_a_search_for_mate_has_its_own_time():
    assert thought_of(Go(is_for_mate=True)).seconds_for_mate() is None
    in_time = thought_of(Go(is_for_mate=True, mate_time=60_000), ago=10)
    assert 40 < in_time.seconds_for_mate() < 50
    assert thought_of(Go(is_for_mate=True, mate_time=1000), ago=10).seconds_for_mate() == 0
