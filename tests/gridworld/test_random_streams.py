"""What happens in a copy depends on the seed and the copy's number alone."""

import numpy as np
import pytest

from keisei.gridworld.world import World
from tests.gridworld.small_worlds import KINDS, Coin, Soil, Thorn

pytestmark = pytest.mark.uncompiled

COPIES = 5


def things_happen(world):
    """What chance does to a world in a few rounds, one list a copy."""
    happened = [[] for _ in range(world.copies)]

    def note(cells, values):
        for copy in range(world.copies):
            of_copy = values[cells.copies == copy]
            happened[copy].append(of_copy.tolist())

    for _ in range(3):
        sprouting = world.chance(world.cells(Soil), 0.2)
        note(sprouting, sprouting.rows * world.width + sprouting.columns)
        numbers = world.any_of([Coin, Thorn], sprouting)
        world.place(numbers, sprouting)
        note(sprouting, numbers)
        note(world.cells(), world.draw(world.cells()))
        for spot in world.pick(world.cells(Soil), 3):
            note(spot, spot.rows * world.width + spot.columns)
            world.remove(spot)
    return happened


def test_a_copy_lives_through_the_same_alone_as_among_others():
    together = things_happen(World(5, 6, KINDS, copies=COPIES, seed=9))
    for copy in range(COPIES):
        alone = World(5, 6, KINDS, seed=9, first_copy=copy)
        assert things_happen(alone) == [together[copy]]


def test_copies_and_seeds_differ():
    worlds = [World(5, 6, KINDS, copies=COPIES, seed=seed) for seed in (0, 1, 2**63 - 1)]
    lives = [life for world in worlds for life in things_happen(world)]
    assert len({repr(life) for life in lives}) == 3 * COPIES


def test_the_same_seed_repeats_everything():
    once, again = (things_happen(World(5, 6, KINDS, copies=3, seed=4)) for _ in range(2))
    assert once == again


def test_the_streams_of_neighbouring_copies_and_seeds_do_not_overlap():
    states = [World(1, 1, KINDS, copies=1000, seed=seed).random_state for seed in range(3)]
    assert len(np.unique(np.concatenate(states))) == 3000


def test_a_copy_that_draws_leaves_the_streams_of_the_others_alone():
    world = World(2, 2, KINDS, copies=3, seed=1)
    before = world.random_state.copy()
    world.draw_for(np.array([1, 1]))
    assert (world.random_state == before).tolist() == [True, False, True]
    again = World(2, 2, KINDS, copies=3, seed=1)
    both = again.draw_for(np.array([1, 1, 0]))
    assert both[0] != both[1]
