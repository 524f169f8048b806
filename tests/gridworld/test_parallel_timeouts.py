"""Lessons that hang: abandoned after a while, tried again later, and noticed by no other agent."""

import threading

import pytest

from keisei.gridworld.agent_stacks import Job
from keisei.gridworld.parallel_threads import LessonThreads
from keisei.gridworld.stack import Failure
from tests.core.small import bits
from tests.gridworld.learning_doubles import (
    LEARNERS,
    PATIENCE,
    Classroom,
    Pupil,
    model_bits,
    rewards_of,
    threads_called,
    wait_for,
    weights,
)
from tests.gridworld.parallel_games import MODES, pupils_game, rooms_game

pytestmark = pytest.mark.timeout(240)
SOON = 0.5
"""Seconds after which a lesson is abandoned; others take a few milliseconds."""


@pytest.fixture(autouse=True)
def _no_thread_stays():
    yield
    wait_for(lambda: threads_called("learner", "training") == 0)


class Stuck:
    """Has lessons with these numbers hang until the end of the test."""

    def __init__(self, *numbers):
        self.numbers, self.count, self.over = numbers, 0, threading.Event()

    def hang_if_it_is_time(self):
        self.count += 1
        if self.count in self.numbers:
            assert self.over.wait(PATIENCE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.over.set()


class Dreamer(Pupil):
    """A pupil who hangs in some lessons, before it has learned anything."""

    def __init__(self, stuck, room=None):
        super().__init__(room or Classroom())
        self.stuck = stuck

    def learn(self, lesson):
        self.stuck.hang_if_it_is_time()
        return super().learn(lesson)

    def twin(self):
        twin = Dreamer(self.stuck, self.room)
        twin.known = self.known
        return twin


@pytest.mark.parametrize("workers", [1, 2])
def test_who_hangs_keeps_what_it_knew_and_is_tried_again_while_others_learn(workers):
    with Stuck(2) as stuck:
        pupil, other = Dreamer(stuck), Pupil(Classroom())
        settings = {"async_learning": True, "deterministic": True, "num_workers": workers}
        game = pupils_game(pupil, other, lesson_timeout=SOON, **settings)
        with game:
            game.run_experiment_parallel(6)
            assert (pupil.known, other.known) == (4, 6)
            (text,) = game.news
    first, *where = text.splitlines()
    assert first == (
        "The training of agent 0 failed (it took longer than 0.5 seconds and was abandoned): it "
        "keeps its weights and rests, 1 epoch long."
    )
    assert any("hang_if_it_is_time" in line for line in where)
    assert game.failures == [0, 0]


def test_a_thread_that_comes_back_late_changes_nothing_and_ends():
    with Stuck(1) as stuck:
        pupil = Dreamer(stuck)
        with pupils_game(pupil, async_learning=True, lesson_timeout=SOON) as game:
            game.run_experiment(1)
            wait_for(lambda: game.lessons.learner.ready)
            game.run_experiment(1)
            assert pupil.known == 0
            abandoned = game.lessons.learner.twins[0]
            stuck.over.set()
            wait_for(lambda: threads_called("learner") == 0)
            assert game.lessons.learner.twins[0] is abandoned  # the fresh one
            assert (abandoned.known, pupil.known) == (0, 0)
            game.run_experiment_parallel(2)
            assert pupil.known > 0


def test_the_collection_is_not_held_up_by_a_lesson_that_hangs():
    with Stuck(1) as stuck:
        pupil = Dreamer(stuck)
        with pupils_game(pupil, async_learning=True, lesson_timeout=60.0) as game:
            game.run_experiment(5)
            assert game.epoch == 5
            assert "wait" not in game.pauses.longest
            stuck.over.set()


def test_finishing_and_closing_wait_for_a_lesson_that_hangs_no_longer_than_the_timeout():
    with Stuck(1, 2) as stuck:
        pupil = Dreamer(stuck)
        game = pupils_game(pupil, async_learning=True, lesson_timeout=SOON)
        game.run_experiment(1)
        game.finish_lessons()
        assert len(game.news) == 1
        game.run_experiment(3)
        game.close()
        assert len(game.news) == 2
        assert not stuck.over.is_set()
        assert threads_called("learner") == 2  # those that hang are nobody's any more


def test_a_state_is_saved_although_a_lesson_hangs():
    with (
        Stuck(1) as stuck,
        pupils_game(Dreamer(stuck), async_learning=True, lesson_timeout=SOON) as game,
    ):
        game.run_experiment(1)
        arrays, values = game.state()
        assert (arrays["agent0.known"], arrays["twin0.known"]) == (0, 0)
        assert values["learned"]["0"][0] == "it took longer than 0.5 seconds and was abandoned"


def hanging_twin(game, number, stuck):
    """A `learn` with which the twin of an agent hangs, after it has learned all of a lesson."""
    twins = game.lessons.get_learner().twins
    learn = type(twins[number]).learn

    def hanging(model, lesson):
        figures = learn(model, lesson)
        if model is game.lessons.learner.twins[number]:
            stuck.hang_if_it_is_time()
        return figures

    return hanging


@pytest.mark.parametrize("kind", LEARNERS)
def test_others_are_bit_for_bit_as_without_the_lesson_that_hung(kind, monkeypatch):
    settings = {**MODES["one by one beside"], "lesson_timeout": 2.0}
    with rooms_game(kind, **settings) as faultless:
        expected = rewards_of(faultless.run_experiment_parallel(6, train_steps=2))
        others = model_bits(faultless, 1)
    with Stuck(2) as stuck, rooms_game(kind, **settings) as game:
        model = type(game.agents[1].model)
        monkeypatch.setattr(model, "learn", hanging_twin(game, 1, stuck))
        rewards = rewards_of(game.run_experiment_parallel(6, train_steps=2))
        assert [text.split(" (")[0] for text in game.news] == ["The training of agent 1 failed"]
        assert model_bits(game, 1) == others
        for ours, theirs in zip(rewards, expected, strict=True):
            assert [*ours[:1], *ours[2:]] == [*theirs[:1], *theirs[2:]]


@pytest.mark.parametrize("kind", LEARNERS)
def test_who_hung_goes_on_from_weights_and_moments_before_that_lesson(kind, monkeypatch):
    settings = {**MODES["one by one beside"], "lesson_timeout": 2.0}
    with Stuck(2) as stuck, rooms_game(kind, **settings) as game:
        game.run_experiment_parallel(1, train_steps=2)
        game.finish_lessons(2)
        before, its_weights = game.lessons.learner.twins[1].state(), weights(game.agents[1])
        stuck.count = 1
        model = type(game.agents[1].model)
        monkeypatch.setattr(model, "learn", hanging_twin(game, 1, stuck))
        game.run_experiment(1, train_steps=2)
        game.lessons.learner.wait()
        after = game.lessons.learner.twins[1].state()
        assert len([name for name in before[0] if name.startswith("optimizer")]) > 2
        assert bits(after[0]) == bits(before[0])
        assert bits(weights(game.agents[1])) == bits(its_weights)


# The threads themselves


def job_of(number, learn):
    return Job((number,), lambda: {number: learn()})


def test_jobs_behind_one_that_hangs_are_done_by_another_thread():
    over = threading.Event()
    threads = LessonThreads(1, timeout=SOON)
    threads.start([job_of(0, over.wait), job_of(1, lambda: {"loss": 1.0})])
    done = threads.fetch(wait=True)
    assert done.abandoned == {0}
    assert isinstance(done.outcomes[0], Failure)
    assert done.outcomes[1] == {"loss": 1.0}
    threads.close()
    over.set()


def test_without_a_timeout_nothing_is_abandoned():
    over = threading.Event()
    threads = LessonThreads(2)
    threads.start([job_of(0, lambda: {"waited": float(over.wait(PATIENCE))}), job_of(1, dict)])
    assert threads.fetch() is None
    assert threads.under_way
    over.set()
    done = threads.fetch(wait=True)
    assert done == ({0: {"waited": 1.0}, 1: {}}, set())
    assert not threads.under_way
    threads.close()


def test_what_a_job_raises_is_the_failure_of_its_agents():
    threads = LessonThreads(2)
    threads.start([Job((3, 4), lambda: 1 // 0)])
    outcomes = threads.fetch(wait=True).outcomes
    assert {number: outcome.reason for number, outcome in outcomes.items()} == dict.fromkeys(
        (3, 4), "ZeroDivisionError: integer division or modulo by zero"
    )
    threads.close()


def test_threads_that_were_closed_start_again_with_the_next_round():
    threads = LessonThreads(2)
    for number in range(3):
        threads.start([job_of(number, dict), job_of(9, dict)])
        threads.close()
        assert threads_called("learner") == 0
        assert threads.fetch().outcomes == {number: {}, 9: {}}
