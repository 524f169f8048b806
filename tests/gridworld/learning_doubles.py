"""Agents that learn as a test wants, and games that remember who did what."""

import contextlib
import threading
import time

import numpy as np

from keisei.core.world_models import model_maker
from keisei.gridworld.environment import Environment
from keisei.gridworld.parallel_environment import in_parallel
from keisei.gridworld.parallel_settings import ParallelSettings
from keisei.gridworld.world import World
from tests.core.small import bits
from tests.gridworld.small_worlds import (
    KINDS,
    Coin,
    Diary,
    Hedge,
    Meadow,
    MeadowRules,
    Thorn,
    Walker,
)

PATIENCE = 20
"""Seconds that a test waits for what must happen."""
LEARNERS = {
    "ppo": model_maker("ppo", {"hidden": [8], "minibatch": 16, "n_frames": 2}),
    "iqn": model_maker(
        "iqn",
        {
            "layer_size": 8,
            "batch_size": 8,
            "memory_turns": 40,
            "n_frames": 2,
            "sync_interval": 3,
            "mixed_precision": False,
        },
    ),
}


def one_by_one(*makers):
    """A model maker that makes each agent's model by the next of these."""
    remaining = iter(makers)

    def make(shape, actions, *, copies, seed):
        return next(remaining)(shape, actions, copies=copies, seed=seed)

    return make


def threads_called(*names):
    """How many threads live whose names begin with one of these."""
    return sum(thread.name.startswith(names) for thread in threading.enumerate())


def wait_for(condition):
    """Wait until it holds, and fail if it does not in time."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


# Games


class Recorded(Environment):
    """Notes what every agent does in every turn, -1 where its episode is over."""

    def execute(self, agent, state, action):
        active = self.active[agent.number]
        vars(self).setdefault("done", []).append(np.where(active, action, -1).tolist())
        super().execute(agent, state, action)


class RecordedMeadow(Recorded, Meadow):
    pass


class Tired(Walker):
    """Is done in copy k after some turns: later in later copies, and for agents in between never.

    The first agent is done early in all copies.
    """

    def is_done(self, world):
        if self.number == 0:
            return np.full(world.copies, world.turn >= 3)
        if self.number == 1:
            return world.turn > 2 * np.arange(world.copies)
        return False


class TiredMeadow(RecordedMeadow):
    """Some walkers are done early, in some copies or in all."""

    Walker = Tired


class Stubborn(Walker):
    """Goes up whatever its model says, every other copy."""

    def get_action(self, state):
        return np.where(np.arange(len(state)) % 2 == 0, 0, super().get_action(state))


class Village(RecordedMeadow):
    """The last walker is stubborn."""

    def __init__(self, make_model, rules, *, copies=1, seed=0, **others):
        self.rules = rules
        size = (rules.height, rules.width)
        world = World(*size, (*KINDS, Stubborn), copies=copies, seed=seed, rules=rules)
        Environment.__init__(
            self, world, make_model, max_turns=rules.max_turns, seed=seed, **others
        )

    def setup_agents(self):
        *others, last = super().setup_agents()
        return [*others, Stubborn(last.observation_spec, last.action_spec, last.model)]


class Rooms(RecordedMeadow):
    """Every walker has a room with coins and thorns to itself: nobody sees or meets another."""

    def populate_environment(self):
        world = self.world
        world.place(Hedge, world.border())
        for wall in range(4, world.width - 1, 4):
            world.place(Hedge, world.cells_at(np.arange(world.height), wall))
        inside = world.inside()
        for agent in self.agents:
            room = (inside.columns - 1) // 4 == agent.number
            spots = world.pick(inside[room & (inside.columns % 4 != 0)], 7)
            agent.put(world, spots[0])
            for spot, thing in zip(spots[1:], (Coin, Thorn) * 3, strict=True):
                world.place(thing, spot)


def rooms(agents):
    """The rules of `Rooms` for so many."""
    return MeadowRules(width=4 * agents + 1, agents=agents, coin_chance=0.0)


def parallel_game(make_model, *, game=RecordedMeadow, agents=3, copies=3, seed=4, **settings):
    """A game with these `ParallelSettings`; what it has to tell is in `game.news`."""
    others = {name: settings.pop(name) for name in ("rules", "observe") if name in settings}
    rules = others.pop("rules", MeadowRules(agents=agents, coin_chance=0.1))
    news = []
    made = in_parallel(game)(
        make_model,
        rules,
        copies=copies,
        seed=seed,
        parallel=ParallelSettings(**settings),
        on_news=news.append,
        **others,
    )
    made.news = news
    return made


def model_bits(game, *without):
    """All that each agent's model goes on from, of agents but these, to be compared exactly."""
    return {
        agent.number: (bits(agent.model.state()[0]), agent.model.state()[1])
        for agent in game.agents
        if agent.number not in without
    }


def weights(agent):
    """The weights of an agent's network, or networks, by name."""
    arrays, _ = agent.model.state()
    return {n: a for n, a in arrays.items() if n.startswith(("network", "target"))}


def rewards_of(results):
    """[E, N] what each agent got in each epoch."""
    return [result.rewards.tolist() for result in results]


# Models


def with_nan(lesson):
    """The same lesson of PPO or IQN, with one number that is none."""
    if isinstance(lesson, list):
        lesson[-1].returns[-1] = np.nan
    else:
        lesson.rewards[-1] = np.nan
    return lesson


def impossible(lesson):
    """The same lesson of PPO or IQN, with an action that there is not: learning it raises."""
    (lesson[-1] if isinstance(lesson, list) else lesson).actions[-1] = 99
    return lesson


def spoil(game, number, epochs, spoiling):
    """Spoil what an agent learns from, in these epochs."""
    model = game.agents[number].model
    name = "lend_lesson" if hasattr(model, "lend_lesson") else "draw_lesson"
    give = getattr(model, name)

    def give_lesson(train_steps):
        lesson = give(train_steps)
        return lesson if lesson is None or game.epoch not in epochs else spoiling(lesson)

    setattr(model, name, give_lesson)
    return game


class Classroom:
    """Where pupils are taught: a test can keep them there, or make their lessons fail."""

    def __init__(self, fails=lambda number: False):
        self.open = threading.Event()
        self.open.set()
        self.fails = fails
        self.lessons, self.entered, self.threads = [], 0, set()

    @contextlib.contextmanager
    def closed(self):
        """Nobody who learns gets on meanwhile."""
        self.open.clear()
        try:
            yield
        finally:
            self.open.set()

    def teach(self, lesson):
        self.entered += 1
        self.threads.add(threading.current_thread().name)
        assert self.open.wait(PATIENCE)
        self.lessons.append(lesson)
        if self.fails(len(self.lessons)):
            raise ArithmeticError(f"lesson {len(self.lessons)} is too hard")


class Pupil:
    """A model that knows how many lessons it had, and notes what it knew in each turn.

    A lesson is (train steps, turns since the last lesson).
    """

    def __init__(self, room):
        self.room, self.memory, self.known = room, Diary(), 0
        self.acted_with = []

    def take_action(self, states):
        self.acted_with.append(self.known)
        return np.full(len(states), 4)

    def train_step(self):
        lesson = self.draw_lesson(1)
        return {} if lesson is None else self.learn(lesson)

    def draw_lesson(self, train_steps):
        turns = len(self.memory)
        self.memory.turns.clear()
        return (train_steps, turns) if turns else None

    def learn(self, lesson):
        self.room.teach(lesson)
        self.known += 1
        return {"known": float(self.known)}

    def twin(self):
        twin = type(self)(self.room)
        twin.known = self.known
        return twin

    def adopt(self, other):
        self.known = other.known

    def stack_key(self):
        return None

    def stack(self, models):
        raise NotImplementedError

    def start_epoch_action(self, epoch):
        self.acted_with.append(f"epoch {epoch}")

    def end_epoch_action(self, epoch):
        pass

    def state(self):
        return {"known": np.array(self.known)}, {}

    def load_state(self, arrays, values):
        self.known = int(arrays["known"])
