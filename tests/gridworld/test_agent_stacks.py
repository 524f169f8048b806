"""`AgentStacks`: who computes together, and that a failure stays where it happened."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

from keisei.gridworld.agent_stacks import AgentStacks
from keisei.gridworld.model import ScriptedModel
from keisei.gridworld.stack import Failure
from tests.gridworld.learning_doubles import Classroom, Pupil

pytestmark = pytest.mark.timeout(240)
STATES = np.zeros((2, 3), np.float32)


class Choir:
    """A stack that notes who computes together; one share holds at most two lessons."""

    def __init__(self, models):
        self.models, self.acted, self.learned = models, [], []

    def take_actions(self, states):
        self.acted.append(list(states))
        return {row: np.full(len(states[row]), row) for row in states}

    def shares(self, lessons, *, workers=1):
        rows = sorted(lessons)
        return [{row: lessons[row] for row in rows[i : i + 2]} for i in range(0, len(rows), 2)]

    def learn(self, lessons):
        self.learned.append(list(lessons))
        for row, lesson in lessons.items():
            if lesson == "silence":
                raise ValueError(f"row {row} does not sing")
        return {row: {"lesson": lesson} for row, lesson in lessons.items()}


class Singer(Pupil):
    """A model that is stacked with those of its voice."""

    choirs: list

    def __init__(self, voice, choirs):
        super().__init__(Classroom())
        self.voice, self.choirs = voice, choirs

    def stack_key(self):
        return self.voice

    def stack(self, models):
        assert models[0] is self
        self.choirs.append(Choir(models))
        return self.choirs[-1]


@pytest.fixture
def choirs():
    return []


@pytest.fixture
def singer(choirs):
    return partial(Singer, choirs=choirs)


def up(states):
    return np.zeros(len(states), np.int64)


def test_models_alike_are_stacked_and_others_compute_by_themselves(singer, choirs):
    alone, fixed, unique = Pupil(Classroom()), ScriptedModel(up), singer("bass")
    models = {0: singer("alto"), 3: alone, 4: singer("alto"), 7: fixed, 8: unique}
    stacks = AgentStacks(models)
    (altos,) = choirs
    assert altos.models == [models[0], models[4]]
    actions = stacks.take_actions(dict.fromkeys(models, STATES))
    assert {number: chosen.tolist() for number, chosen in actions.items()} == {
        0: [0, 0],
        3: [4, 4],
        4: [1, 1],
        7: [0, 0],
        8: [4, 4],
    }
    assert altos.acted == [[0, 1]]


def test_each_architecture_has_a_stack(singer, choirs):
    voices = ["alto", "bass", "alto", "bass", "bass"]
    stacks = AgentStacks({number: singer(voice) for number, voice in enumerate(voices)})
    assert [len(choir.models) for choir in choirs] == [2, 3]
    stacks.take_actions(dict.fromkeys(range(5), STATES))
    assert [choir.acted for choir in choirs] == [[[0, 1]], [[0, 1, 2]]]


def test_only_those_who_are_asked_compute(singer, choirs):
    stacks = AgentStacks({number: singer("alto") for number in range(4)})
    assert list(stacks.take_actions({1: STATES, 3: STATES})) == [1, 3]
    assert stacks.take_actions({}) == {}
    assert list(stacks.learn({0: "do", 2: "re"})) == [0, 2]
    assert list(stacks.learn({1: (1, 5)})) == [1]  # one alone needs no stack
    assert stacks.learn({}) == {}
    (choir,) = choirs
    assert (choir.acted, choir.learned) == ([[1, 3]], [[0, 2]])


def test_without_stacks_all_compute_by_themselves(singer, choirs):
    models = {number: singer("alto") for number in range(2)}
    stacks = AgentStacks(models, stacked=False)
    assert stacks.learn({0: (1, 5), 1: (1, 5)}) == {0: {"known": 1.0}, 1: {"known": 1.0}}
    assert stacks.take_actions({0: STATES})[0].tolist() == [4, 4]
    assert choirs == []


def test_those_who_act_together_can_learn_one_by_one(singer, choirs):
    stacks = AgentStacks({number: singer("alto") for number in range(2)})
    assert stacks.learn({0: (1, 5), 1: (1, 5)}, stacked=False)[1] == {"known": 1.0}
    assert choirs[0].learned == []


@pytest.mark.parametrize("threads", [None, 3])
def test_those_of_a_share_that_fails_learn_one_by_one_and_a_failure_is_its_agents_alone(
    singer, threads
):
    hard, easy = Classroom(fails=lambda number: True), Classroom()
    models = {number: singer("alto") for number in range(5)}
    models |= {5: Pupil(hard), 6: Pupil(easy)}
    lessons = {0: "do", 1: "re", 2: "mi", 3: "silence", 4: "so", 5: (1, 5), 6: (1, 5)}
    pool = ThreadPoolExecutor(threads) if threads else None
    outcomes = AgentStacks(models).learn(lessons, pool)
    if pool is not None:
        pool.shutdown()
    assert {n: o for n, o in outcomes.items() if not isinstance(o, Failure)} == {
        0: {"lesson": "do"},
        1: {"lesson": "re"},
        2: {"known": 1.0},
        3: {"known": 1.0},
        4: {"known": 1.0},
        6: {"known": 1.0},
    }
    assert {n: o.reason for n, o in outcomes.items() if isinstance(o, Failure)} == {
        5: "ArithmeticError: lesson 1 is too hard",
    }
    assert "in learn" in outcomes[5].traceback


def test_a_pool_teaches_at_the_same_time():
    """Both lessons must be in the room before either gets on."""
    rooms = [Classroom(), Classroom()]
    waiting = [room.closed() for room in rooms]

    class Meeting(Pupil):
        def learn(self, lesson):
            rooms[1 - lesson[1]].open.set()
            return super().learn(lesson)

    with waiting[0], waiting[1], ThreadPoolExecutor(2) as pool:
        stacks = AgentStacks({n: Meeting(room) for n, room in enumerate(rooms)})
        assert stacks.learn({0: (1, 0), 1: (1, 1)}, pool) == {n: {"known": 1.0} for n in (0, 1)}
