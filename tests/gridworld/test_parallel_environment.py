"""`ParallelEnvironment`: the same as one after the other, and what happens when learning does not.

Every agent is on its own: what goes wrong with one is not noticed by any other.
"""

import gc
import itertools
import json
import threading
import time

import numpy as np
import psutil
import pytest
import torch

from keisei.core.world_models import model_maker
from keisei.gridworld.errors import WorldError
from keisei.gridworld.model import FixedModel, RandomModel, ScriptedModel
from keisei.gridworld.parallel_environment import ParallelEnvironment, in_parallel
from keisei.gridworld.parallel_settings import ParallelSettings
from tests.core.small import bits, one_thread
from tests.gridworld.learning_doubles import (
    LEARNERS,
    PATIENCE,
    Classroom,
    Pupil,
    RecordedMeadow,
    Rooms,
    TiredMeadow,
    Village,
    impossible,
    model_bits,
    one_by_one,
    parallel_game,
    rewards_of,
    rooms,
    spoil,
    threads_called,
    wait_for,
    weights,
    with_nan,
)
from tests.gridworld.small_worlds import Diary, Meadow, MeadowRules, handing_out

pytestmark = pytest.mark.timeout(60)
TURNS, COPIES = 12, 3
RULES = MeadowRules(agents=3, coin_chance=0.1, max_turns=TURNS)
SWITCHES = list(itertools.product([False, True], repeat=2))
"""parallel_actions and parallel_training."""
BESIDE = {"async_learning": True, "deterministic": True, "num_workers": 2}


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with one_thread():
        yield


@pytest.fixture(autouse=True)
def _no_thread_stays():
    yield
    assert threads_called("learner", "training") == 0


def run_of(game, epochs, **others):
    """What was got, what was done, and the game, of a run to its end."""
    with game:
        rewards = rewards_of(game.run_experiment_parallel(epochs, **others))
    return rewards, game.done, game


# The same as one after the other


def in_sequence(kind, game, rules=RULES):
    return game(LEARNERS[kind], rules, copies=COPIES, seed=4, observe="together")


def assert_same_weights(game, other, *, exactly):
    if exactly:
        assert model_bits(game) == model_bits(other)
    for one, two in zip(game.agents, other.agents, strict=True):
        ours, theirs = weights(one), weights(two)
        assert ours.keys() == theirs.keys()
        for name in ours:
            np.testing.assert_allclose(ours[name], theirs[name], rtol=0, atol=1e-5)


@pytest.fixture(scope="module")
def sequences():
    """Runs of one agent after the other: what was got, and the game after it."""
    made = {}

    def get(kind, game, epochs=20):
        if (kind, game) not in made:
            plain = in_sequence(kind, game)
            made[kind, game] = rewards_of(plain.run_experiment(epochs, train_steps=2)), plain
        return made[kind, game]

    return get


@pytest.mark.parametrize(("actions", "training"), SWITCHES)
@pytest.mark.parametrize("kind", LEARNERS)
@pytest.mark.parametrize(("game", "epochs"), [(RecordedMeadow, 20), (TiredMeadow, 5)])
def test_a_run_equals_that_of_the_plain_environment(
    sequences, game, epochs, kind, actions, training
):
    rewards, plain = sequences(kind, game, epochs)
    together = in_parallel(game)(
        LEARNERS[kind],
        RULES,
        copies=COPIES,
        seed=4,
        observe="together",
        parallel=ParallelSettings(parallel_actions=actions, parallel_training=training),
    )
    its_rewards, done, _ = run_of(together, epochs, train_steps=2)
    assert its_rewards == rewards
    assert done == plain.done
    # PPO remembers what its policy said, which one pass for all says in other last bits.
    exactly = not training and (kind == "iqn" or not actions)
    assert_same_weights(together, plain, exactly=exactly)


@pytest.mark.parametrize("kind", LEARNERS)
def test_what_is_not_enabled_is_the_plain_environment(sequences, kind):
    rewards, plain = sequences(kind, RecordedMeadow)
    every = {"parallel_actions": True, "parallel_training": True, "async_learning": True}
    game = in_parallel(RecordedMeadow)(
        LEARNERS[kind],
        RULES,
        copies=COPIES,
        seed=4,
        observe="together",
        parallel=ParallelSettings(enabled=False, **every),
    )
    its_rewards, done, _ = run_of(game, 20, train_steps=2)
    assert (its_rewards, done) == (rewards, plain.done)
    assert_same_weights(game, plain, exactly=True)


def test_what_is_not_enabled_may_look_in_turn_and_fails_as_ever():
    parallel = ParallelSettings(enabled=False)
    game = in_parallel(Meadow)(RandomModel, observe="in_turn", parallel=parallel)
    assert game.observe == "in_turn"
    assert in_parallel(Meadow)(RandomModel, parallel=parallel).observe == "in_turn"
    room = Classroom(fails=lambda number: True)
    broken = parallel_game(handing_out(Pupil(room)), agents=1, enabled=False)
    with pytest.raises(ArithmeticError):
        broken.run_epoch()


def uphill(states):
    return np.zeros(len(states), np.int64)


def of_all_kinds():
    """Two architectures twice or more, one alone of its kind, and three who do not learn."""
    wide = model_maker("ppo", {"hidden": [12], "minibatch": 16, "n_frames": 2})
    makers = [LEARNERS["ppo"], wide, LEARNERS["iqn"], RandomModel, wide, LEARNERS["ppo"]]
    return one_by_one(*makers, lambda *_, **__: ScriptedModel(uphill), LEARNERS["ppo"])


CROWD = MeadowRules(agents=8, coin_chance=0.1)


@pytest.fixture(scope="module")
def village():
    plain = Village(of_all_kinds(), CROWD, copies=COPIES, seed=4, observe="together")
    return rewards_of(plain.run_experiment(5)), plain


@pytest.mark.parametrize(("actions", "training"), SWITCHES)
def test_agents_of_several_architectures_and_a_stubborn_one_play_as_ever(
    village, actions, training
):
    rewards, plain = village
    game = in_parallel(Village)(
        of_all_kinds(),
        CROWD,
        copies=COPIES,
        seed=4,
        observe="together",
        parallel=ParallelSettings(parallel_actions=actions, parallel_training=training),
    )
    its_rewards, done, _ = run_of(game, 5)
    assert (its_rewards, done) == (rewards, plain.done)
    assert_same_weights(game, plain, exactly=not actions and not training)
    learned = [agent.number for agent in game.agents if weights(agent)]
    assert learned == [0, 1, 2, 4, 5, 7]


class Asked(FixedModel):
    """Notes in which turns it was asked."""

    def __init__(self, *_, **__):
        super().__init__()
        self.memory = Diary()
        self.asked = 0

    def take_action(self, states):
        self.asked += 1
        return np.full(len(states), 4)


@pytest.mark.parametrize("actions", [False, True])
def test_who_is_done_in_all_copies_is_no_longer_asked(actions):
    game = parallel_game(
        Asked, game=TiredMeadow, observe="together", parallel_actions=actions, num_workers=1
    )
    game.run_experiment_parallel(1)
    game.close()
    assert [agent.model.asked for agent in game.agents] == [3, 5, TURNS]
    assert [len(agent.model.memory) for agent in game.agents] == [3, 5, TURNS]


def test_parallel_actions_are_refused_where_agents_look_in_turn():
    with pytest.raises(WorldError) as refused:
        in_parallel(Meadow)(RandomModel, observe="in_turn")
    assert str(refused.value) == (
        "parallel_actions needs observe: together, where all look before any acts."
    )
    game = in_parallel(Meadow)(
        RandomModel, observe="in_turn", parallel=ParallelSettings(parallel_actions=False)
    )
    assert game.observe == "in_turn"
    assert in_parallel(Meadow)(RandomModel).observe == "together"


@pytest.mark.parametrize("beside", [{}, BESIDE])
def test_where_agents_look_in_turn_they_can_still_learn_together(beside):
    parallel = ParallelSettings(parallel_actions=False, **beside)
    game = in_parallel(RecordedMeadow)(
        LEARNERS["ppo"], RULES, copies=COPIES, seed=4, observe="in_turn", parallel=parallel
    )
    plain = RecordedMeadow(LEARNERS["ppo"], RULES, copies=COPIES, seed=4, observe="in_turn")
    rewards, done, _ = run_of(game, 3)
    if not beside:
        assert rewards == rewards_of(plain.run_experiment(3))
        assert done == plain.done
    assert model_bits(game) != model_bits(RecordedMeadow(LEARNERS["ppo"], RULES, copies=COPIES))


def test_a_game_in_parallel_is_that_game_and_named_after_it():
    game = in_parallel(Meadow)
    assert issubclass(game, ParallelEnvironment)
    assert issubclass(game, Meadow)
    assert game.__name__ == "ParallelMeadow"


def test_figures_are_the_newest_of_each_agent_with_their_staleness():
    game = parallel_game(one_by_one(LEARNERS["ppo"], RandomModel, LEARNERS["iqn"]))
    first, second = game.run_experiment_parallel(2)
    game.close()
    for result in (first, second):
        ppo, random, iqn = result.figures
        assert random == {}
        assert ppo["staleness"] == iqn["staleness"] == 0
        assert {"loss", "epsilon"} <= iqn.keys()
    assert not game.news


# Learning beside the collection


def pupils_game(*pupils, **settings):
    return parallel_game(handing_out(*pupils), agents=len(pupils), copies=2, **settings)


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
            assert self.game._learner.wait()
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
        for twin in game._learner.twins.values():
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
        game._learner.wait()
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
            assert threads_called("learner") == 1
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


# Failures


MODES = {
    "one by one": {"parallel_training": False},
    "stacked": {"parallel_training": True},
    "one by one beside": {"parallel_training": False, **BESIDE},
    "stacked beside": {"parallel_training": True, **BESIDE},
}


def rooms_game(kind, **settings):
    return parallel_game(LEARNERS[kind], game=Rooms, agents=4, rules=rooms(4), **settings)


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
    assert first.startswith("The training of agent 2 failed (RuntimeError: ")
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
            if game._learner is not None:
                game._learner.wait()
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
    def draw_lesson(self, train_steps):
        if len(self.room.lessons) == 1:
            self.room.lessons.append("none")
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


# Going on later


def saved(game):
    """A state as a checkpoint has it: copies of the arrays, and values that were JSON."""
    arrays, values = game.state()
    return {name: array.copy() for name, array in arrays.items()}, json.loads(json.dumps(values))


def state_bits(game):
    arrays, values = saved(game)
    return bits(arrays), values


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
        assert state[1]["failures"][1] + len(state[1].get("learned", {}).get("1", [])) > 0
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
        assert threads_called("learner") == 1


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


# On their own


def extents(thing, seen):
    """Where in memory all tensors and arrays of a model lie, and which generators it has."""
    if id(thing) in seen or isinstance(thing, type):
        return set()
    seen[id(thing)] = thing  # kept alive, so that no other thing gets this id
    if isinstance(thing, torch.Tensor):
        last = sum(
            (size - 1) * step for size, step in zip(thing.shape, thing.stride(), strict=True)
        )
        end = thing.data_ptr() + (last + 1) * thing.element_size()
        return {(thing.data_ptr(), end)} if thing.numel() else set()
    if isinstance(thing, np.ndarray):
        return {np.lib.array_utils.byte_bounds(thing)} if thing.size else set()
    if isinstance(thing, torch.Generator | np.random.Generator):
        owner = id(getattr(thing, "bit_generator", thing))
        return {(owner, owner + 1)}
    parts = []
    if isinstance(thing, dict):
        parts = [*thing.keys(), *thing.values()]
    elif isinstance(thing, list | tuple | set):
        parts = list(thing)
    elif hasattr(thing, "__dict__") and type(thing).__module__.startswith(("keisei", "torch")):
        parts = list(vars(thing).values())
    return set().union(*(extents(part, seen) for part in parts))


@pytest.mark.parametrize("settings", [{}, BESIDE, {**BESIDE, "parallel_training": False}], ids=str)
@pytest.mark.parametrize("kind", LEARNERS)
def test_no_agents_belongings_overlap_anothers_where_it_acts_and_where_it_learns(kind, settings):
    with parallel_game(LEARNERS[kind], agents=4, **settings) as game:
        game.run_experiment_parallel(3, train_steps=2)
        owners = [agent.model for agent in game.agents]
        owners += [] if game._learner is None else list(game._learner.twins.values())
        seen = {}
        places = sorted(
            (*extent, owner)
            for owner, model in enumerate(owners)
            for extent in extents(model, seen)
        )
        assert len(places) > 20 * len(owners)
        end, last = 0, None
        for start, its_end, owner in places:
            assert owner == last or start >= end
            if its_end > end:
                end, last = its_end, owner


# At full speed


@pytest.mark.parametrize("kind", LEARNERS)
def test_collection_and_learner_at_full_speed_stay_sound_and_use_no_more_and_more(kind):
    process = psutil.Process()
    settings = {"async_learning": True, "num_workers": 2}
    with parallel_game(LEARNERS[kind], agents=4, copies=4, **settings) as game:
        game.run_experiment(20)
        sizes, threads, rewards = [], set(), []
        deadline = time.monotonic() + 1.5
        while time.monotonic() < deadline:
            rewards += rewards_of(game.run_experiment(5))
            threads.add(threading.active_count())
            gc.collect()
            sizes.append(process.memory_info().rss)
        game.finish_lessons()
        assert game.news == []
        assert np.isfinite(rewards).all()
        assert len(threads) == 1
        assert 0 < game.learned_steps <= game.collected_steps
        assert max(sizes[len(sizes) // 2 :]) - max(sizes[: len(sizes) // 2]) < 8 * 2**20
        for agent in game.agents:
            assert all(np.isfinite(array).all() for array in weights(agent).values())
