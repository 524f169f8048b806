"""Past selves as opponents: which are kept, when they change, and that they stay as they were."""

from collections import Counter

import pytest
import torch

from keisei.core.ppo_agent import PPOAgent
from keisei.training.checkpoints import CheckpointStore
from keisei.training.opponent_pool import OpponentPool
from tests.core.small import bits, small_config


def make(*, seed=1, ring=3, interval=2, by_rating=False):
    games = {"opponent_share": 0.5, "opponent_ring": ring, "opponent_interval": interval}
    config = small_config(seed=seed, games=games)
    learner = PPOAgent(config.model, config.ppo, seed=seed)
    return learner, OpponentPool(config, learner, by_rating=by_rating)


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


def play(pool, strengths, learner_strength, games=20):
    """Results as by the strengths of the learner and of the opponent, known by its age."""
    behind = strengths[age_of(pool.opponent)] - learner_strength
    pool.note_results(games / (1 + 10 ** (behind / 400)), games)


def expected_score(pool):
    """The learner's share of the points against the opponent, by their ratings."""
    state = pool.state()[1]
    behind = state["ratings"][state["chosen"]] - state["learner_rating"]
    return 1 / (1 + 10 ** (behind / 400))


def test_without_results_a_pool_by_rating_draws_every_self_alike():
    learner, pool = make(ring=3, interval=1, by_rating=True)
    ages = opponents(learner, pool, range(1, 101))
    drawn = [update - age for update, age in enumerate(ages, 1)]
    assert all(drawn.count(distance) >= 15 for distance in (0, 1, 2))


def test_expected_scores_come_to_meet_the_results():
    _, pool = make(by_rating=True)
    assert expected_score(pool) == 0.5
    for _ in range(60):
        pool.note_results(15, 20)
    assert expected_score(pool) == pytest.approx(0.75, abs=0.01)


def test_results_move_the_learner_and_its_opponent_alone_and_by_a_bounded_amount():
    learner, pool = make(ring=3, interval=1, by_rating=True)
    opponents(learner, pool, range(1, 4))
    chosen = pool.state()[1]["chosen"]
    pool.note_results(1000, 1000)
    state = pool.state()[1]
    assert state["learner_rating"] == 50
    assert state["ratings"] == [-50 if number == chosen else 0 for number in range(3)]


def test_no_games_change_nothing():
    _, pool = make(by_rating=True)
    before = pool.state()[1]
    pool.note_results(0, 0)
    assert pool.state()[1] == before


def test_selves_that_are_beaten_easily_are_drawn_seldom():
    learner, pool = make(ring=12, interval=20, by_rating=True)
    strengths = {update: 5.0 * update for update in range(2400)}
    drawn = Counter()
    for update in range(1, 2400):
        learn(learner, pool, update)
        drawn[(update - age_of(pool.opponent)) // 20] += 1
        play(pool, strengths, strengths[update])
    recent = sum(drawn[distance] for distance in range(4))
    old = sum(drawn[distance] for distance in range(8, 12))
    assert recent > 4 * old > 0


def test_a_pool_by_rating_from_a_checkpoint_goes_on_as_the_one_that_was_saved(tmp_path):
    def go_on(learner, pool, updates):
        strengths = {update: 40.0 * update for update in range(100)}
        ages = []
        for update in updates:
            learn(learner, pool, update)
            play(pool, strengths, strengths[update])
            ages.append(age_of(pool.opponent))
        return ages

    learner, pool = make(ring=4, interval=1, by_rating=True)
    go_on(learner, pool, range(1, 8))
    store = CheckpointStore(tmp_path, keep=1)
    store.save(7, *pool.state())
    saved, _ = store.newest()
    other_learner, other = make(ring=4, interval=1, by_rating=True)
    other.load_state(saved.tensors, saved.state)
    assert other.state()[1] == pool.state()[1]
    later = range(8, 40)
    assert go_on(other_learner, other, later) == go_on(learner, pool, later)
    assert other.state()[1] == pool.state()[1]


def test_a_checkpoint_from_before_there_were_ratings_can_be_loaded():
    learner, pool = make(ring=3, interval=1)
    opponents(learner, pool, range(1, 4))
    tensors, state = pool.state()
    del state["ratings"], state["learner_rating"]
    _, other = make(ring=3, interval=1, by_rating=True)
    other.load_state(tensors, state)
    assert age_of(other.opponent) == age_of(pool.opponent)
    assert other.state()[1]["ratings"] == [0, 0, 0]
