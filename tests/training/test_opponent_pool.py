"""Past selves as opponents: which are kept, when they change, and that they stay as they were."""

import torch

from keisei.core.ppo_agent import PPOAgent
from keisei.training.checkpoints import CheckpointStore
from keisei.training.opponent_pool import OpponentPool
from tests.core.small import bits, small_config


def make(*, seed=1, ring=3, interval=2):
    games = {"opponent_share": 0.5, "opponent_ring": ring, "opponent_interval": interval}
    config = small_config(seed=seed, games=games)
    learner = PPOAgent(config.model, config.ppo, seed=seed)
    return learner, OpponentPool(config, learner)


def learn(learner, pool, update):
    """An update after which the bias of the value says its number."""
    with torch.no_grad():
        learner.model.value.bias.fill_(update)
    pool.after_update(update)


def age_of(agent):
    """The update after which these weights were as they are."""
    return int(agent.model.value.bias)


def opponents(learner, pool, updates):
    ages = []
    for update in updates:
        learn(learner, pool, update)
        ages.append(age_of(pool.opponent))
    return ages


def test_the_first_opponent_is_the_learner_as_it_began():
    learner, pool = make()
    assert bits(pool.opponent.model.state_dict()) == bits(learner.model.state_dict())


def test_the_opponent_changes_only_every_interval_and_is_then_one_of_the_newest():
    learner, pool = make(ring=3, interval=2)
    ages = opponents(learner, pool, range(1, 41))
    for update, age in enumerate(ages, 1):
        newest = update - update % 2
        assert age in (newest, newest - 2, newest - 4)
        if update % 2 == 1 and update > 1:
            assert age == ages[update - 2]


def test_every_self_that_is_kept_may_be_drawn():
    learner, pool = make(ring=3, interval=1)
    ages = opponents(learner, pool, range(1, 101))
    drawn = [update - age for update, age in enumerate(ages, 1)]
    assert all(drawn.count(distance) >= 15 for distance in (0, 1, 2))


def test_a_ring_of_one_always_plays_the_latest_snapshot():
    learner, pool = make(ring=1, interval=3)
    assert opponents(learner, pool, range(1, 8)) == [0, 0, 3, 3, 3, 6, 6]


def test_the_opponent_does_not_learn_with_the_learner():
    learner, pool = make(interval=5)
    before = bits(pool.opponent.model.state_dict())
    with torch.no_grad():
        for parameter in learner.model.parameters():
            parameter.add_(1)
    pool.after_update(1)
    assert bits(pool.opponent.model.state_dict()) == before
    assert bits(pool.state()[0]) == {f"0.{name}": value for name, value in before.items()}


def test_the_draws_follow_the_seed():
    def draws(seed):
        return opponents(*make(seed=seed, ring=8, interval=1), range(1, 21))

    assert draws(1) == draws(1)
    assert draws(1) != draws(2)


def test_a_pool_from_a_checkpoint_goes_on_as_the_one_that_was_saved(tmp_path):
    learner, pool = make(ring=4, interval=1)
    opponents(learner, pool, range(1, 8))
    store = CheckpointStore(tmp_path, keep=1)
    store.save(7, *pool.state())
    saved, _ = store.newest()
    other_learner, other = make(ring=4, interval=1)
    other.load_state(saved.tensors, saved.state)
    assert age_of(other.opponent) == age_of(pool.opponent)
    assert other.state()[1] == pool.state()[1]
    assert bits(other.state()[0]) == bits(pool.state()[0])
    later = range(8, 30)
    assert opponents(other_learner, other, later) == opponents(learner, pool, later)
