"""What happens when learning goes wrong: it is noticed by no other agent, and tried again."""

import numpy as np
import pytest

from keisei.gridworld.model import FixedModel
from keisei.gridworld.parallel_environment import in_parallel
from tests.core.small import bits
from tests.gridworld.learning_doubles import (
    LEARNERS,
    Classroom,
    Pupil,
    impossible,
    model_bits,
    spoil,
    threads_called,
    weights,
    with_nan,
)
from tests.gridworld.parallel_games import (
    BESIDE,
    MODES,
    pupils_game,
    rooms_game,
    run_of,
)
from tests.gridworld.small_worlds import Diary, Meadow, MeadowRules, handing_out

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(autouse=True)
def _no_thread_stays():
    yield
    assert threads_called("learner", "training") == 0


@pytest.fixture(scope="module")
def faultless():
    """Runs of 8 epochs without a fault."""
    made = {}

    def get(kind, mode):
        if (kind, mode) not in made:
            rewards, _, game = run_of(rooms_game(kind, **MODES[mode]), 8, train_steps=2)
            assert game.news == []
            made[kind, mode] = rewards, model_bits(game, 1)
        return made[kind, mode]

    return get


def without(rewards, number):
    return [[*epoch[:number], *epoch[number + 1 :]] for epoch in rewards]


FAULTS = [(mode, spoiling) for mode in MODES for spoiling in (with_nan, impossible)]


@pytest.mark.parametrize(("mode", "spoiling"), FAULTS)
@pytest.mark.parametrize("kind", LEARNERS)
def test_one_agents_fault_is_noticed_by_no_other(faultless, kind, mode, spoiling):
    game = spoil(rooms_game(kind, **MODES[mode]), 1, {2, 3, 4}, spoiling)
    rewards, _, _ = run_of(game, 8, train_steps=2)
    expected, others = faultless(kind, mode)
    assert without(rewards, 1) == without(expected, 1)
    assert model_bits(game, 1) == others
    assert game.news
    assert all(text.startswith("The training of agent 1 failed (") for text in game.news)
    assert game.failures == [0, 0, 0, 0]  # it learns again
    assert all(np.isfinite(array).all() for array in weights(game.agents[1]).values())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", LEARNERS)
def test_an_agent_whose_lesson_fails_keeps_its_weights(kind, mode):
    """Even if all but the last gradient step were good."""
    with spoil(rooms_game(kind, **MODES[mode]), 1, {2}, with_nan) as game:
        game.run_experiment_parallel(2, train_steps=3)
        before, others = weights(game.agents[1]), weights(game.agents[2])
        game.run_experiment_parallel(1, train_steps=3)
        assert len(game.news) == 1
        assert bits(weights(game.agents[1])) == bits(before)
        assert bits(weights(game.agents[2])) != bits(others)


def test_news_of_a_failure_says_who_why_and_where():
    with spoil(rooms_game("ppo", **MODES["one by one"]), 2, {0}, impossible) as game:
        game.run_experiment_parallel(1)
    (text,) = game.news
    first, *trace = text.splitlines()
    assert first.startswith("The training of agent 2 failed (IndexError: ")
    assert first.endswith("it keeps its weights and rests, 1 epoch long.")
    assert trace[0] == "Traceback (most recent call last):"
    assert not text.endswith("\n")


def test_news_go_to_the_log_unless_told_otherwise(caplog):
    game = in_parallel(Meadow)(
        handing_out(Pupil(Classroom(fails=lambda _: True))), MeadowRules(agents=1)
    )
    game.run_experiment_parallel(1)
    game.close()
    assert "The training of agent 0 failed (ArithmeticError: lesson 1 is too hard)" in caplog.text


@pytest.mark.parametrize(
    "settings", [{}, BESIDE, {"async_learning": True, "debug_serial": True}], ids=str
)
def test_who_fails_rests_one_epoch_then_two_then_four(settings):
    room = Classroom(fails=lambda number: number <= 4)
    taught = []

    class Noting(Pupil):
        def learn(self, lesson):
            taught.append(self.room)
            return super().learn(lesson)

        def twin(self):
            return Noting(self.room)

    pupil, other = Noting(room), Pupil(Classroom())
    game = pupils_game(pupil, other, **settings)
    lessons = []
    with game:
        for _ in range(25):
            before = len(taught)
            game.run_experiment(1)
            if game.lessons.learner is not None:
                game.lessons.learner.wait()
            lessons.append(len(taught) > before)
        game.finish_lessons()
    assert [epoch for epoch, had in enumerate(lessons) if had][:6] == [0, 2, 5, 10, 19, 20]
    assert [text.split(" rests, ")[1].split(" ")[0] for text in game.news] == [*"1248"]
    assert len(other.room.lessons) == 25
    assert game.failures == [0, 0]


def test_nobody_rests_for_more_than_64_epochs():
    game = pupils_game(Pupil(Classroom(fails=lambda _: True)))
    game.run_experiment(300)
    game.close()
    rests = [int(text.split(" rests, ")[1].split(" ")[0]) for text in game.news]
    assert rests == [1, 2, 4, 8, 16, 32, 64, 64, 64, 64]


class Fickle(FixedModel):
    """Learns by steps that cannot be taken apart, of which some fail."""

    def __init__(self, *failing):
        super().__init__()
        self.memory, self.steps, self._failing = Diary(), 0, failing

    def take_action(self, states):
        return np.full(len(states), self.steps % 5)

    def train_step(self):
        self.steps += 1
        if self.steps in self._failing:
            raise FloatingPointError(f"step {self.steps} is not finite")
        return {"steps": float(self.steps)}


@pytest.mark.parametrize("settings", [{}, BESIDE])
def test_a_model_that_learns_in_one_piece_may_fail_and_rests_too(settings):
    fickle, steady = Fickle(3, 4), Fickle()
    game = pupils_game(fickle, steady, **settings)
    steps = []
    with game:
        results = game.run_experiment_parallel(10, log=lambda _: steps.append(fickle.steps))
    assert steps == [1, 2, 3, 3, 4, 4, 4, 5, 6, 7]
    assert steady.steps == 10
    assert [text.splitlines()[0] for text in game.news] == [
        "The training of agent 0 failed (FloatingPointError: step 3 is not finite): it keeps its "
        "weights and rests, 1 epoch long.",
        "The training of agent 0 failed (FloatingPointError: step 4 is not finite): it keeps its "
        "weights and rests, 2 epochs long.",
    ]
    assert game.failures == [0, 0]
    staleness = [result.figures[0]["staleness"] for result in results]
    assert staleness == [0, 0, 1, 2, 3, 4, 5, 0, 0, 0]
    assert [result.figures[0]["steps"] for result in results][-1] == 7


class Unready(Pupil):
    """Its second lesson cannot be drawn."""

    draws = 0

    def draw_lesson(self, train_steps):
        self.draws += 1
        if self.draws == 2:
            raise OSError("the memory cannot be read")
        return super().draw_lesson(train_steps)


@pytest.mark.parametrize("settings", [{}, BESIDE])
def test_a_lesson_that_cannot_be_drawn_is_a_failure_of_that_agent(settings):
    unready, other = Unready(Classroom()), Pupil(Classroom())
    game = pupils_game(unready, other, **settings)
    with game:
        game.run_experiment_parallel(6)
    (text,) = game.news
    assert text.startswith("The training of agent 0 failed (OSError: the memory cannot be read)")
    assert len(other.room.lessons) == 6
    assert (unready.known, other.known) == (4, 6)


class Unreadable(Pupil):
    def draw_lesson(self, train_steps):
        raise OSError("the memory cannot be read")


def test_an_agent_that_rests_does_not_fail_meanwhile():
    game = pupils_game(Unreadable(Classroom()))
    game.run_experiment(6)
    game.close()
    assert game.failures == [3]
    assert len(game.news) == 3
