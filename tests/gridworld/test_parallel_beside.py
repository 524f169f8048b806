"""Agents that learn beside the collection: what they learn from, and when they know it."""

import threading
import time

import pytest

from keisei.core.world_models import model_maker
from tests.core.small import bits
from tests.gridworld.learning_doubles import (
    LEARNERS,
    PATIENCE,
    Classroom,
    Pupil,
    model_bits,
    parallel_game,
    threads_called,
    wait_for,
    weights,
)
from tests.gridworld.parallel_games import (
    BESIDE,
    TURNS,
    pupils_game,
    run_of,
)

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(autouse=True)
def _no_thread_stays():
    yield
    assert threads_called("learner", "training") == 0


def knowledge(pupil):
    """What it knew in each turn, a list for each epoch."""
    epochs = []
    for entry in pupil.acted_with:
        if isinstance(entry, str):
            epochs.append([])
        else:
            epochs[-1].append(entry)
    return epochs


@pytest.mark.parametrize("serial", [False, True])
def test_deterministic_agents_know_more_from_the_epoch_after_the_next_on(serial):
    pupil = Pupil(Classroom())
    game = pupils_game(pupil, async_learning=True, deterministic=True, debug_serial=serial)
    run_of(game, 5)
    assert knowledge(pupil) == [[known] * TURNS for known in (0, 0, 1, 2, 3)]
    assert pupil.known == 5


class Waiting(Pupil):
    """In one turn it has the lesson finished that is under way, in the midst of the turn."""

    game = None

    def take_action(self, states):
        action = super().take_action(states)
        if self.game is not None and self.acted_with.count("epoch 1") and not self.room.lessons:
            self.room.open.set()
            assert self.game.lessons.learner.wait()
        return action


def test_new_weights_are_taken_up_between_two_turns_by_all_agents():
    room = Classroom()
    first, second = pupils = Waiting(room), Pupil(room)
    with pupils_game(*pupils, async_learning=True, backlog=9) as game:
        first.game = game
        room.open.clear()
        game.run_experiment(2)
        for pupil in pupils:  # the lesson of epoch 0 was finished in the first turn of epoch 1
            assert knowledge(pupil) == [[0] * TURNS, [0] + [1] * (TURNS - 1)]
        game.finish_lessons()
        assert (first.known, second.known) == (2, 2)


def test_the_last_lesson_is_finished_before_a_run_returns():
    room = Classroom()
    with pupils_game(Pupil(room), async_learning=True, train_interval=3) as game:
        game.run_experiment_parallel(5)
        assert game.agents[0].model.known == len(room.lessons)
        assert sum(turns for _, turns in room.lessons) == 5 * TURNS
        assert game.collected_steps == game.learned_steps == 5 * TURNS * 2
        assert room.threads == {"learner"}


def test_lessons_are_so_many_epochs_apart_and_have_the_train_steps_that_are_owed():
    room = Classroom()
    pupil = Pupil(room)
    run_of(pupils_game(pupil, train_interval=2, **BESIDE), 7, train_steps=3)
    assert room.lessons == [(6, 2 * TURNS)] * 3 + [(3, TURNS)]
    assert knowledge(pupil) == [[known] * TURNS for known in (0, 0, 0, 1, 1, 2, 2)]


@pytest.mark.parametrize("kind", LEARNERS)
@pytest.mark.parametrize("beside", [{}, BESIDE])
def test_without_train_steps_nothing_is_learned(kind, beside):
    with parallel_game(LEARNERS[kind], **beside) as game:
        before = [bits(weights(agent)) for agent in game.agents]
        results = game.run_experiment_parallel(2, train_steps=0)
        assert [bits(weights(agent)) for agent in game.agents] == before
        assert [result.figures for result in results] == [[{}] * 3] * 2
        assert game.learned_steps == 0


def test_nothing_is_finished_where_nothing_learns_beside():
    game = parallel_game(LEARNERS["ppo"])
    game.finish_lessons()
    assert threads_called("learner") == 0
    game.close()


def steps_of(model):
    """Adam's count of its steps."""
    return {int(slot["step"]) for slot in model.optimizer.state.values()}


@pytest.mark.parametrize("stacked", [False, True])
def test_iqn_takes_as_many_train_steps_beside_as_it_would_have_taken(stacked):
    settings = {"train_interval": 3, "parallel_training": stacked, **BESIDE}
    game = parallel_game(LEARNERS["iqn"], agents=2, **settings)
    with game:
        game.run_experiment_parallel(7, train_steps=2)
        for twin in game.lessons.learner.twins.values():
            assert steps_of(twin) == {14}


@pytest.mark.parametrize("beside", [{}, BESIDE])
def test_the_epsilon_that_is_told_is_that_of_the_agent(beside):
    fast = model_maker("iqn", {"layer_size": 8, "batch_size": 8, "epsilon_decay": 0.1})
    with parallel_game(fast, agents=2, **beside) as game:
        for result in game.run_experiment(4)[2:]:
            assert 0 < result.figures[0]["epsilon"] < 0.6
        assert result.figures[0]["epsilon"] == pytest.approx(game.agents[0].model.epsilon, rel=0.2)


@pytest.mark.parametrize("beside", [{}, BESIDE])
def test_the_target_network_is_synced_every_so_many_epochs(beside):
    settings = {"layer_size": 8, "batch_size": 8, "tau": 0.0, "sync_interval": 2}
    with parallel_game(model_maker("iqn", settings), agents=2, **beside) as game:
        before = bits(weights(game.agents[0]))
        game.run_experiment_parallel(6)
        after = bits(weights(game.agents[0]))
    synced = [name for name in after if name.startswith("target.")]
    assert synced
    assert all(after[name] != before[name] for name in synced if name.endswith("weight"))


def test_a_learner_that_is_stuck_does_not_hold_up_the_collection():
    room = Classroom()
    pupil = Pupil(room)
    with pupils_game(pupil, async_learning=True, backlog=3) as game, room.closed():
        started = time.monotonic()
        game.run_experiment(11)
        assert time.monotonic() - started < PATIENCE / 2
        assert game.epoch == 11
        assert (room.entered, room.lessons) == (1, [])
        epoch_steps = TURNS * 2
        assert game.collected_steps == 11 * epoch_steps
        assert game.learned_steps == epoch_steps
        room.open.set()
        game.finish_lessons()
        assert room.lessons == [(1, TURNS), (1, TURNS)]  # the first, and what is not too old
        assert game.learned_steps == 2 * epoch_steps
        assert pupil.known == 2


def test_an_epoch_waits_for_the_learner_if_the_backlog_has_room():
    room = Classroom()
    with pupils_game(Pupil(room), async_learning=True, backlog=4) as game:
        with room.closed():
            game.run_experiment(4)
        game.finish_lessons(5)
        assert room.lessons == [(1, TURNS), (5 * 3, 3 * TURNS)]
        assert game.learned_steps == game.collected_steps


def test_staleness_is_the_age_of_what_was_learned_from_not_of_what_was_forgotten():
    room = Classroom()
    with pupils_game(Pupil(room), async_learning=True, backlog=2) as game:
        with room.closed():
            results = game.run_experiment(6)
            assert results[-1].figures == [{}]
        game.lessons.learner.wait()
        (result,) = game.run_experiment(1)
        assert result.figures == [{"known": 1.0, "staleness": 6.0}]


def test_a_deterministic_learner_is_an_epoch_behind():
    results = []
    game = pupils_game(Pupil(Classroom()), **BESIDE)
    with game:
        game.run_experiment_parallel(4, log=results.append)
    assert [result.figures[0].get("staleness") for result in results] == [None, 1, 1, 1]


@pytest.mark.parametrize("kind", LEARNERS)
@pytest.mark.parametrize("stacked", [False, True])
def test_deterministic_runs_repeat_bit_for_bit_and_serially_too(kind, stacked):
    settings = {"async_learning": True, "parallel_training": stacked, "train_interval": 2}
    runs = []
    for order in ({"deterministic": True, "num_workers": 2},) * 2 + ({"debug_serial": True},):
        game = parallel_game(LEARNERS[kind], **settings, **order)
        rewards, done, _ = run_of(game, 7, train_steps=2)
        runs.append((rewards, done, model_bits(game)))
    assert runs[0] == runs[1]
    assert runs[0] == runs[2]


def test_serially_there_is_no_other_thread():
    room = Classroom()
    with pupils_game(Pupil(room), async_learning=True, debug_serial=True) as game:
        game.run_experiment_parallel(3)
        assert threads_called("learner", "training") == 0
    assert room.threads == {threading.current_thread().name}


def test_closing_ends_the_threads_also_when_a_run_is_broken_off():
    class BrokenOffError(Exception):
        pass

    def break_off(world):
        if game.epoch == 2 and world.turn == 5:
            assert threads_called("learner") > 0
            raise BrokenOffError

    pupils = [Pupil(Classroom()) for _ in range(3)]
    game = pupils_game(*pupils, async_learning=True, num_workers=2, backlog=9)
    with pytest.raises(BrokenOffError), game:
        game.run_experiment_parallel(5, watch=break_off)
    assert threads_called("learner", "training") == 0
    assert all(pupil.known == len(pupil.room.lessons) for pupil in pupils)
    game.close()  # once more does no harm


def test_closing_gives_the_agents_what_they_are_learning():
    room = Classroom()
    pupil = Pupil(room)
    game = pupils_game(pupil, async_learning=True)
    with room.closed():
        game.run_experiment(1)
        wait_for(lambda: room.entered)
        closing = threading.Thread(target=game.close)
        closing.start()
    closing.join(PATIENCE)
    assert not closing.is_alive()
    assert pupil.known == 1
