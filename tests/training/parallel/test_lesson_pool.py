"""`ProcessLessonPool`: models that learn in other processes, and what happens when those die."""

from functools import partial
from multiprocessing import get_context

import numpy as np
import psutil
import pytest

from keisei.config_loading import any_config_of
from keisei.core.world_models import model_maker
from keisei.gridworld.parallel_environment import in_parallel
from keisei.gridworld.parallel_settings import ParallelSettings
from keisei.training.parallel.lesson_pool import LessonFailedError, ProcessLessonPool
from keisei.training.parallel.lesson_process import LessonLostError
from keisei.training.world_games import make_game
from tests.core.small import bits, one_thread
from tests.gridworld.learning_doubles import LEARNERS
from tests.gridworld.small_worlds import Meadow, MeadowRules
from tests.training.parallel.conftest import grandchildren
from tests.training.parallel.fragile_model import Fragile

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("nothing_stays_behind")]
SHAPE, ACTIONS, COPIES = (5,), 3, 4


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with one_thread():
        yield


@pytest.fixture
def pool():
    pool = ProcessLessonPool(1)
    yield pool
    pool.close()


def recipe_of(maker):
    return partial(maker, SHAPE, ACTIONS, copies=COPIES, seed=7)


def lessons_of(maker, count):
    """What a model that acts at random would learn from."""
    model, random = recipe_of(maker)(), np.random.default_rng(3)
    lessons = []
    for _ in range(count):
        for turn in range(12):
            states = random.normal(size=(COPIES, *SHAPE)).astype(np.float32)
            actions = model.take_action(states)
            done = np.full(COPIES, turn == 11)
            rewards = random.normal(size=COPIES).astype(np.float32)
            model.memory.add(states, actions, rewards, done, np.ones(COPIES, bool))
        lessons.append(model.draw_lesson(2))
    return lessons


def state_of(model):
    arrays, values = model.state()
    return bits(arrays), values


@pytest.mark.parametrize("kind", LEARNERS)
def test_a_model_becomes_what_it_would_have_become_here_bit_for_bit(pool, kind):
    recipe = recipe_of(LEARNERS[kind])
    here, there, other = recipe(), recipe(), recipe_of(LEARNERS["ppo"])()
    for lesson in lessons_of(LEARNERS[kind], 4):
        expected = here.learn(lesson)
        assert pool.learn(recipe, there, lesson) == expected
        assert state_of(there) == state_of(here)
        pool.learn(recipe_of(LEARNERS["ppo"]), other, lessons_of(LEARNERS["ppo"], 1)[0])
    assert state_of(there) != state_of(recipe())


def test_it_works_with_processes_that_were_spawned():
    recipe, (lesson,) = recipe_of(LEARNERS["ppo"]), lessons_of(LEARNERS["ppo"], 1)
    pool, here, there = ProcessLessonPool(1, context=get_context("spawn")), recipe(), recipe()
    assert pool.learn(recipe, there, lesson) == here.learn(lesson)
    assert state_of(there) == state_of(here)
    pool.close()


def test_a_process_that_dies_costs_its_lesson_and_is_replaced(pool):
    recipe, (lesson,) = recipe_of(Fragile), lessons_of(Fragile, 1)
    model = recipe()
    first = pool.learn(recipe, model, "where")["process"]
    before = state_of(model)
    with pytest.raises(LessonLostError, match="its process died with exit code -9"):
        pool.learn(recipe, model, "die")
    assert state_of(model) == before
    assert pool.learn(recipe, model, "where")["process"] != first
    pool.learn(recipe, model, lesson)
    assert state_of(model) != before


def test_a_process_that_was_killed_between_two_lessons_costs_the_next_one(pool):
    recipe = recipe_of(Fragile)
    model = recipe()
    process = psutil.Process(int(pool.learn(recipe, model, "where")["process"]))
    process.kill()
    process.wait(10)
    with pytest.raises(LessonLostError, match="died"):
        pool.learn(recipe, model, "where")
    assert pool.learn(recipe, model, "where")["process"] != process.pid


def test_a_process_that_hangs_is_killed_after_the_timeout():
    pool, recipe = ProcessLessonPool(1, timeout=5.0), recipe_of(Fragile)
    model = recipe()
    before = state_of(model)
    process = int(pool.learn(recipe, model, "where")["process"])
    with pytest.raises(LessonLostError, match="its process did not answer in 5 seconds"):
        pool.learn(recipe, model, "hang")
    assert not psutil.pid_exists(process)
    assert state_of(model) == before
    assert pool.learn(recipe, model, "where")["process"] != process
    pool.close()


def test_what_is_raised_there_is_raised_here_with_its_traceback_and_the_process_goes_on(pool):
    recipe, (lesson,) = recipe_of(Fragile), lessons_of(Fragile, 1)
    model, here = recipe(), recipe()
    process = pool.learn(recipe, model, "where")
    before = state_of(model)
    with pytest.raises(LessonFailedError, match="ArithmeticError: this is too hard") as failed:
        pool.learn(recipe, model, "raise")
    assert "in learn" in str(failed.value)
    assert state_of(model) == before
    assert pool.learn(recipe, model, "where") == process
    assert pool.learn(recipe, model, lesson) == here.learn(lesson)  # nothing of it stayed there


def test_a_larger_model_gets_a_process_with_more_room(pool):
    wide = model_maker("ppo", {"hidden": [2000], "minibatch": 16})
    for maker in (LEARNERS["ppo"], wide, LEARNERS["ppo"]):
        recipe, (lesson,) = recipe_of(maker), lessons_of(maker, 1)
        here, there = recipe(), recipe()
        assert pool.learn(recipe, there, lesson) == here.learn(lesson)
        assert len(grandchildren()) == 1


def test_a_pool_that_was_closed_starts_again(pool):
    recipe = recipe_of(Fragile)
    first = pool.learn(recipe, recipe(), "where")
    pool.close()
    assert grandchildren() == []
    assert pool.learn(recipe, recipe(), "where") != first


def test_a_pool_of_nobody_is_refused():
    with pytest.raises(ValueError, match="a pool has at least one process, not 0"):
        ProcessLessonPool(0)


def test_a_maker_that_cannot_be_pickled_is_told_in_one_sentence(pool):
    with pytest.raises(LessonFailedError, match=r"^what makes the model cannot be pickled, so no "):
        pool.learn(lambda: None, recipe_of(Fragile)(), "where")
    assert grandchildren() == []


# In a game


def game_of(pool, agents, **settings):
    """Agents whose models cannot be stacked."""
    news = []
    game = in_parallel(Meadow)(
        Fragile,
        MeadowRules(agents=agents, coin_chance=0.1),
        copies=COPIES,
        seed=4,
        parallel=ParallelSettings(**settings),
        lesson_pool=pool,
        on_news=news.append,
    )
    game.news = news
    return game


BESIDE = {"async_learning": True, "deterministic": True}


@pytest.mark.parametrize("settings", [BESIDE, {}], ids=["beside", "here"])
def test_agents_learn_in_processes_as_they_would_in_threads(settings):
    runs = []
    for pool in (ProcessLessonPool(2), None):
        with game_of(pool, 3, **settings) as game:
            results = game.run_experiment_parallel(4, train_steps=2)
            if pool is not None:
                assert len(grandchildren()) == 2
        assert game.news == []
        runs.append(([r.rewards.tolist() for r in results], [a.model for a in game.agents]))
    (rewards, models), (expected, others) = runs
    if settings:  # without a pool agents that learn here have no twins, and other random numbers
        assert rewards == expected
        assert [state_of(model) for model in models] == [state_of(model) for model in others]


def spoilt(model, epochs, game, lesson):
    """The model, which has this lesson instead of its own in some epochs."""
    draw = model.draw_lesson
    model.draw_lesson = lambda steps: lesson if draw(steps) and game.epoch in epochs else None


@pytest.mark.parametrize(("lesson", "words"), [("die", "exit code -9"), ("raise", "too hard")])
def test_a_process_that_dies_is_noticed_by_its_agent_alone(lesson, words):
    with game_of(ProcessLessonPool(1), 2, **BESIDE) as game:
        spoilt(game.agents[0].model, {1}, game, lesson)
        before = bits(game.agents[0].model.state()[0])
        game.run_experiment_parallel(5)
        (text,) = game.news
        assert text.startswith("The training of agent 0 failed (")
        assert words in text
        after = bits(game.agents[0].model.state()[0])
        assert {n: a for n, a in after.items() if n.startswith("network")} == {
            n: a for n, a in before.items() if n.startswith("network")
        }
        assert len(game.lessons.records[1].figures) > 0
        assert game.failures[1] == 0


def test_the_settings_of_a_run_say_how_many_processes_train():
    words = ["treasurehunt", "rules.agents=1", "copies=4", "rules.max_turns=8"]
    words += ["parallel.enabled=true", "parallel.training_processes=1"]
    words += ["parallel.async_learning=true", "parallel.deterministic=true"]
    game = make_game(any_config_of(words))
    game.run_experiment(2)
    assert len(grandchildren()) == 1
    game.finish_lessons()
    game.close()
    plain = make_game(any_config_of([*words, "parallel.training_processes=0"]))
    plain.run_experiment(2)
    plain.finish_lessons()
    plain.close()
    assert state_of(game.agents[0].model) == state_of(plain.agents[0].model)
