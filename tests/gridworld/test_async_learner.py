"""`AsyncLearner`: a lesson at a time beside the collection, and what becomes of it."""

import threading
from contextlib import contextmanager

import pytest

from keisei.gridworld.async_learner import AsyncLearner
from keisei.gridworld.stack import Failure
from tests.gridworld.learning_doubles import (
    PATIENCE,
    Classroom,
    Pupil,
    threads_called,
    wait_for,
)

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def room():
    return Classroom()


@contextmanager
def learner_of(*pupils, **others):
    learner = AsyncLearner(dict(enumerate(pupils)), stacked=False, **others)
    try:
        yield learner
    finally:
        for pupil in pupils:
            pupil.room.open.set()
        learner.close()


def test_what_was_learned_is_given_to_the_agents_when_it_is_delivered_and_not_before(room):
    pupils = [Pupil(room), Pupil(room)]
    with learner_of(*pupils) as learner:
        learner.teach({0: (1, 5), 1: (1, 7)}, 0)
        assert learner.wait() == {0: {"known": 1.0}, 1: {"known": 1.0}}
        assert [pupil.known for pupil in pupils] == [0, 0]
        assert learner.deliver() == {0: {"known": 1.0}, 1: {"known": 1.0}}
        assert [pupil.known for pupil in pupils] == [1, 1]
    assert room.lessons == [(1, 5), (1, 7)]


def test_nothing_is_delivered_while_it_learns_and_nothing_twice(room):
    pupil = Pupil(room)
    with learner_of(pupil) as learner:
        assert learner.deliver() == {}
        with room.closed():
            learner.teach({0: (1, 5)}, 0)
            wait_for(lambda: room.entered)
            assert learner.deliver() == {}
            assert learner.busy
        assert learner.deliver(wait=True) == {0: {"known": 1.0}}
        assert learner.deliver(wait=True) == {}
        assert not learner.busy


def test_only_those_who_had_a_lesson_get_something(room):
    first, second = Pupil(room), Pupil(room)
    with learner_of(first, second) as learner:
        learner.teach({1: (1, 5)}, 0)
        assert list(learner.deliver(wait=True)) == [1]
    assert (first.known, second.known) == (0, 1)


def test_it_is_busy_until_what_it_learned_is_delivered(room):
    with learner_of(Pupil(room)) as learner:
        assert not learner.busy
        learner.teach({0: (1, 5)}, 0)
        learner.wait()
        assert learner.busy
        with pytest.raises(RuntimeError, match="has not delivered what it learned before"):
            learner.teach({0: (1, 5)}, 0)
        learner.deliver()
        assert not learner.busy


def test_it_learns_in_a_thread_of_its_own_or_inline_before_teach_returns(room):
    with learner_of(Pupil(room)) as learner:
        learner.teach({0: (1, 5)}, 0)
        learner.wait()
    assert room.threads == {"learner"}
    room.threads.clear()
    with learner_of(Pupil(room), inline=True) as learner:
        assert threads_called("learner") == 0
        learner.teach({0: (1, 5)}, 0)
        assert len(room.lessons) == 2
        assert learner.busy
        assert learner.deliver() == {0: {"known": 1.0}}
    assert room.threads == {threading.current_thread().name}


def test_closing_finishes_the_last_lesson_which_can_still_be_delivered(room):
    pupil = Pupil(room)
    learner = AsyncLearner({0: pupil}, stacked=False)
    with room.closed():
        learner.teach({0: (1, 5)}, 0)
        wait_for(lambda: room.entered)
        closing = threading.Thread(target=learner.close)
        closing.start()
        closing.join(0.05)
        assert closing.is_alive()
    closing.join(PATIENCE)
    assert threads_called("learner") == 0
    assert learner.deliver() == {0: {"known": 1.0}}
    assert pupil.known == 1
    learner.close()  # once more does no harm


def test_a_lesson_that_was_handed_over_just_before_closing_is_learned(room):
    for _ in range(20):
        pupil = Pupil(room)
        learner = AsyncLearner({0: pupil}, stacked=False)
        learner.teach({0: (1, 5)}, 0)
        learner.close()
        assert learner.deliver(wait=True) == {0: {"known": 1.0}}


def test_who_fails_keeps_what_it_knew_and_the_others_learn():
    room = Classroom(fails=lambda number: number == 1)
    pupils = [Pupil(room), Pupil(room)]
    with learner_of(*pupils) as learner:
        learner.teach({0: (1, 5), 1: (1, 5)}, 0)
        outcomes = learner.deliver(wait=True)
        assert outcomes[0].reason == "ArithmeticError: lesson 1 is too hard"
        assert outcomes[0].traceback.startswith("Traceback")
        assert outcomes[1] == {"known": 1.0}
        assert [pupil.known for pupil in pupils] == [0, 1]


class BrokenStacks:
    def jobs(self, lessons):
        raise LookupError("no such stack")


@pytest.mark.parametrize("inline", [False, True])
def test_what_breaks_outside_of_the_lessons_fails_them_and_nobody_waits_for_ever(room, inline):
    with learner_of(Pupil(room), Pupil(room), inline=inline) as learner:
        learner._stacks = BrokenStacks()
        learner.teach({0: (1, 5), 1: (1, 5)}, 0)
        outcomes = learner.deliver(wait=True)
        assert [type(outcome) for outcome in outcomes.values()] == [Failure, Failure]
        assert outcomes[0].reason == "LookupError: no such stack"


def test_it_goes_on_from_what_was_learned_before(room):
    first, second = Pupil(room), Pupil(room)
    with learner_of(first) as learner:
        learner.teach({0: (1, 5)}, 0)
        state = learner.state()
    with learner_of(second) as learner:
        learner.load_state(*state)
        assert learner.busy
        assert learner.deliver() == {0: {"known": 1.0}}
        assert second.known == 1
        learner.teach({0: (1, 5)}, 0)
        learner.deliver(wait=True)
        assert second.known == 2
        state = learner.state()
    with learner_of(first) as learner:
        learner.load_state(*state)
        assert not learner.busy
        assert learner.twins[0].known == 2


def test_it_is_not_changed_while_it_is_busy(room):
    pupils = [Pupil(room), Pupil(room)]
    with learner_of(*pupils) as learner:
        learner.teach({0: (1, 5), 1: (1, 5)}, 0)
        with pytest.raises(RuntimeError, match="has not delivered what it learned before"):
            learner.change_agents({0: pupils[1]}, {0: 1}, {})
        learner.deliver(wait=True)
        twin = learner.twins[1]
        learner.change_agents({0: pupils[1]}, {0: 1}, {})
        assert learner.twins == {0: twin}


class Bars:
    """A timeline that keeps the names of its bars."""

    def __init__(self, name):
        self.name, self.bars, self.closed = name, [], 0
        self.thread = threading.current_thread().name

    @contextmanager
    def span(self, name):
        yield
        self.bars.append(name)

    def close(self):
        self.closed += 1


def test_its_timeline_is_made_written_and_closed_in_its_thread(room):
    made = []

    def make(name):
        made.append(Bars(name))
        return made[0]

    with learner_of(Pupil(room), make_timeline=make) as learner:
        for _ in range(2):
            learner.teach({0: (1, 5)}, 0)
            learner.deliver(wait=True)
    (timeline,) = made
    assert (timeline.name, timeline.thread) == ("learner", "learner")
    assert (timeline.bars, timeline.closed) == (["learn", "learn"], 1)
