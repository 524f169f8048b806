"""How slowly epochs are played so that a learner beside the collection keeps up."""

import time

import pytest

from keisei.gridworld import parallel_pace
from keisei.gridworld.parallel_pace import FULL_SPEED, EpochPace, Pace
from tests.gridworld.learning_doubles import Classroom, Pupil
from tests.gridworld.parallel_games import TURNS, pupils_game

pytestmark = pytest.mark.timeout(240)


def test_turns_are_spread_over_the_seconds_of_an_epoch():
    pace = EpochPace(seconds=2.0, longest_wait=0.3)
    assert pace.wait_before(0.0, 0.0) == 0
    assert pace.wait_before(0.25, 0.4) == pytest.approx(0.1)
    assert pace.wait_before(0.25, 0.6) == 0  # it is late by itself
    assert pace.wait_before(0.5, 0.1) == 0.3
    assert FULL_SPEED.wait_before(0.9, 0.0) == 0


def test_a_pace_travels_as_bytes():
    pace = EpochPace(seconds=2.5, longest_wait=0.125)
    assert EpochPace.decode(pace.encode()) == pace
    assert EpochPace.decode(b"") == FULL_SPEED


class Clock:
    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(parallel_pace, "time", clock)
    return clock


def seconds_of(pace, owed, *, busy):
    return pace.of_epoch(owed, busy=busy).seconds


def test_an_epoch_lasts_a_little_longer_than_the_lesson_that_is_under_way(clock):
    pace = Pace(interval=1)
    pace.taught(epochs=1)
    pace.learned(10.0)
    pace.taught(epochs=1)
    assert seconds_of(pace, 0, busy=True) == pytest.approx(11)
    clock.now = 4.0
    assert seconds_of(pace, 0, busy=True) == pytest.approx(6.6)
    clock.now = 30.0  # it is late, and nobody knows how much longer it takes
    assert seconds_of(pace, 1, busy=True) == pytest.approx(5.5)
    pace.taught(epochs=2)
    assert seconds_of(pace, 0, busy=True) == pytest.approx(22)


def test_an_epoch_that_is_begun_before_its_lesson_lasts_as_long(clock):
    pace = Pace(interval=1)
    pace.learned(10.0)
    assert seconds_of(pace, 0, busy=False) == pytest.approx(11)
    assert seconds_of(pace, 1, busy=False) == pytest.approx(22)


def test_a_lesson_about_several_epochs_is_spread_over_as_many(clock):
    pace = Pace(interval=3)
    pace.taught(epochs=3)
    pace.learned(30.0)
    pace.taught(epochs=3)
    assert seconds_of(pace, 0, busy=True) == pytest.approx(11)
    clock.now = 20.0
    assert seconds_of(pace, 2, busy=True) == pytest.approx(11)
    assert seconds_of(pace, 2, busy=False) == pytest.approx(11)


def test_a_longer_lesson_counts_at_once_and_a_shorter_one_little_by_little(clock):
    pace = Pace(interval=1)
    for seconds in (10.0, 20.0, 10.0):
        pace.learned(seconds)
    assert seconds_of(pace, 0, busy=False) == pytest.approx(1.1 * 18)


def test_during_the_first_lesson_all_waits_are_as_long_as_they_may_be(clock):
    pace = Pace(interval=1)
    pace.longest_wait = 0.25
    pace.taught(epochs=1)
    assert pace.of_epoch(0, busy=True).wait_before(0.1, 100.0) == 0.25
    assert pace.of_epoch(0, busy=False).wait_before(0.1, 0.0) == 0


class Thorough(Pupil):
    """Takes its time to copy what it learns from, and more of it to learn."""

    def draw_lesson(self, train_steps):
        time.sleep(0.005)
        return super().draw_lesson(train_steps)

    def learn(self, lesson):
        time.sleep(0.02)
        return super().learn(lesson)


def paced_run(**settings):
    pupil = Thorough(Classroom())
    with pupils_game(pupil, async_learning=True, backlog=1, **settings) as game:
        results = game.run_experiment(20)
        game.finish_lessons()
    return game, results


def test_at_its_pace_all_that_is_collected_is_learned_from():
    game, results = paced_run()
    assert game.learned_steps / game.collected_steps > 0.8
    assert game.pauses.longest["pace"] > 0
    assert any(result.counts.get("pace_seconds", 0) > 0.01 for result in results)
    assert results[-1].turns == TURNS


@pytest.mark.parametrize("settings", [{"keep_pace": False}, {"deterministic": True}])
def test_no_turn_is_waited_with_at_full_speed_or_where_weights_are_waited_for(settings):
    game, _ = paced_run(**settings)
    assert "pace" not in game.pauses.longest
    learned_share = game.learned_steps / game.collected_steps
    assert learned_share == 1 if settings.get("deterministic") else learned_share < 0.7
