"""Agents in parallel share nothing, and stay sound at full speed."""

import gc
import threading
import time

import numpy as np
import psutil
import pytest
import torch

from tests.gridworld.learning_doubles import (
    LEARNERS,
    parallel_game,
    rewards_of,
    threads_called,
    weights,
)
from tests.gridworld.parallel_games import (
    BESIDE,
)

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(autouse=True)
def _no_thread_stays():
    yield
    assert threads_called("learner", "training") == 0


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
        owners += [] if game.lessons.learner is None else list(game.lessons.learner.twins.values())
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


@pytest.mark.parametrize("kind", LEARNERS)
def test_a_twin_draws_other_random_numbers_than_its_agent(kind):
    with parallel_game(LEARNERS[kind], **BESIDE) as game:
        game.run_experiment(1)
        streams = [agent.model.generator.get_state() for agent in game.agents]
        streams += [twin.generator.get_state() for twin in game.lessons.learner.twins.values()]
        seeds = [agent.model.generator.initial_seed() for agent in game.agents]
        seeds += [twin.generator.initial_seed() for twin in game.lessons.learner.twins.values()]
        assert len({stream.numpy().tobytes() for stream in streams}) == 6
        assert len(set(seeds)) == 6


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
