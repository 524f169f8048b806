"""Games in parallel that are gone on with later."""

import json
import threading

import pytest

from keisei.gridworld.errors import WorldError
from tests.gridworld.learning_doubles import (
    LEARNERS,
    PATIENCE,
    Classroom,
    Pupil,
    RecordedMeadow,
    parallel_game,
    rewards_of,
    spoil,
    threads_called,
    wait_for,
    with_nan,
)
from tests.gridworld.parallel_games import (
    BESIDE,
    MODES,
    in_sequence,
    pupils_game,
    rooms_game,
    saved,
    state_bits,
)

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(autouse=True)
def _no_thread_stays():
    yield
    assert threads_called("learner", "training") == 0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", LEARNERS)
def test_a_resumed_run_equals_an_unbroken_one_bit_for_bit(kind, mode):
    def game(seed=4):
        return parallel_game(LEARNERS[kind], seed=seed, **MODES[mode])

    with game() as unbroken, game() as first, game(seed=9) as resumed:
        expected = rewards_of(unbroken.run_experiment(8, train_steps=2))
        first.run_experiment(4, train_steps=2)
        state = saved(first)
        assert ("twins" in state[1]) == ("beside" in mode)
        first.run_experiment(2, train_steps=2)  # what was given is a copy
        resumed.load_state(*state)
        assert rewards_of(resumed.run_experiment(4, train_steps=2)) == expected[4:]
        assert state_bits(resumed) == state_bits(unbroken)
        for each in (unbroken, resumed):
            each.finish_lessons(2)
        assert state_bits(resumed) == state_bits(unbroken)


@pytest.mark.parametrize("mode", MODES)
def test_failures_and_rests_are_gone_on_with(mode):
    def game():
        return spoil(rooms_game("ppo", **MODES[mode]), 1, {1, 2, 3, 4}, with_nan)

    with game() as unbroken, game() as first, game() as resumed:
        unbroken.run_experiment(9)
        first.run_experiment(4)
        state = saved(first)
        assert (
            state[1]["lessons"][1]["failures"] + len(state[1].get("learned", {}).get("1", [])) > 0
        )
        resumed.load_state(*state)
        resumed.run_experiment(5)
        assert state_bits(resumed) == state_bits(unbroken)
        assert [*first.news, *resumed.news] == unbroken.news
        assert len(unbroken.news) == 2


@pytest.mark.parametrize("interval", [1, 3])
def test_a_game_that_was_running_can_be_taken_back(interval):
    settings = {"train_interval": interval, **BESIDE}
    with parallel_game(LEARNERS["ppo"], **settings) as game:
        game.run_experiment(4)
        state = saved(game)
        expected = rewards_of(game.run_experiment(4)), state_bits(game)
        game.load_state(*state)
        assert (rewards_of(game.run_experiment(4)), state_bits(game)) == expected
        assert 0 < threads_called("learner") <= 2


def test_a_state_is_that_of_the_finished_lesson():
    room = Classroom()
    with pupils_game(Pupil(room), **BESIDE) as game:
        states = []
        with room.closed():
            game.run_experiment(1)
            wait_for(lambda: room.entered)
            saving = threading.Thread(target=lambda: states.append(game.state()))
            saving.start()
            saving.join(0.05)
            assert saving.is_alive()
        saving.join(PATIENCE)
        ((arrays, values),) = states
    assert (arrays["agent0.known"], arrays["twin0.known"]) == (0, 1)
    assert values["learned"] == {"0": {"known": 1.0}}


def test_a_state_stays_as_it_was():
    room = Classroom(fails=lambda number: number > 1)
    game = pupils_game(Pupil(room))
    game.run_experiment(1)
    _, values = game.state()
    before = json.dumps(values)
    game.run_experiment(3)
    game.close()
    assert json.dumps(values) == before


def test_a_state_of_another_number_of_agents_is_refused():
    with parallel_game(LEARNERS["ppo"], agents=2, **BESIDE) as two:
        two.run_experiment(2)
        state = saved(two)
    with parallel_game(LEARNERS["ppo"], agents=3, **BESIDE) as three:
        three.run_experiment(2)
        with pytest.raises(WorldError, match="The state is of 2 agents, this game has 3"):
            three.load_state(*state)
        three.run_experiment_parallel(2)


@pytest.mark.parametrize("settings", [{}, BESIDE])
def test_a_plain_game_can_be_gone_on_with_in_parallel_and_back(settings):
    plain = in_sequence("ppo", RecordedMeadow)
    plain.run_experiment(3)
    state = saved(plain)
    (expected,) = rewards_of(plain.run_experiment(1))
    with parallel_game(LEARNERS["ppo"], **settings) as game:
        game.load_state(*state)
        assert rewards_of(game.run_experiment(1)) == [expected]
        game.run_experiment_parallel(1)
        state = saved(game)
        expected = rewards_of(game.run_experiment(1))
    plain.load_state(*state)
    assert rewards_of(plain.run_experiment(1)) == expected


def test_a_lesson_under_way_is_not_lost_where_nothing_learns_beside_any_more():
    with pupils_game(Pupil(Classroom()), **BESIDE) as beside:
        beside.run_experiment(3)
        state = saved(beside)
    pupil = Pupil(Classroom())
    with pupils_game(pupil) as game:
        game.load_state(*state)
        assert threads_called("learner") == 0
        assert pupil.known == 3
        game.run_experiment(1)
        assert pupil.known == 4


@pytest.mark.parametrize("kind", LEARNERS)
@pytest.mark.parametrize("mode", ["one by one beside", "stacked beside"])
def test_a_game_that_was_closed_and_goes_on_is_as_one_that_was_not(kind, mode):
    """Twins keep their moments and random numbers; only the threads start anew."""
    with parallel_game(LEARNERS[kind], **MODES[mode]) as unbroken:
        expected = rewards_of(unbroken.run_experiment_parallel(3))
        expected += rewards_of(unbroken.run_experiment_parallel(3))
        state = state_bits(unbroken)
    with parallel_game(LEARNERS[kind], **MODES[mode]) as game:
        rewards = rewards_of(game.run_experiment_parallel(3))
        game.close()
        assert threads_called("learner", "training") == 0
        assert rewards + rewards_of(game.run_experiment_parallel(3)) == expected
        assert state_bits(game) == state
