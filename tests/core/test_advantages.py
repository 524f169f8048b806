"""Negamax GAE against its definition: a mean of k-step targets, signs by who moved."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keisei.core.advantages import negamax_advantages
from tests.core.reference import Column

BLACK, WHITE = 0, 1


def column(players, **given):
    """A column of a rollout in which everything that is not given is false or 0."""
    steps = len(players)
    defaults = {
        "gains": [0.0] * steps,
        "values": [0.0] * steps,
        "ends": [False] * steps,
        "truncations": [False] * steps,
        "cut_values": [0.0] * steps,
        "trains": [True] * steps,
        "last_value": 0.0,
        "last_player": 1 - players[-1],
    }
    return Column(players=players, **{**defaults, **given})


def only_at(step, value, steps):
    """A list of `steps` zeros (or falses) but for one."""
    return [value if t == step else type(value)(0) for t in range(steps)]


def computed(columns, *, gamma=1.0, gae_lambda=1.0, bootstrap=False):
    """(advantages, returns), [T, B], of the kernel; T is the length of the longest column."""
    lengths = np.array([len(one.players) for one in columns], np.int32)

    def side_by_side(name, kind):
        # Filled with rubbish behind a column's end, to show that nobody looks there.
        array = np.full((lengths.max(), len(columns)), 77, kind)
        for index, one in enumerate(columns):
            array[: lengths[index], index] = getattr(one, name)
        return array

    rewards = side_by_side("gains", np.float32)
    # Filled with rubbish, to show that every place is written.
    advantages, returns = np.full_like(rewards, 77), np.full_like(rewards, 77)
    negamax_advantages(
        rewards,
        side_by_side("values", np.float32),
        side_by_side("ends", np.bool_),
        side_by_side("truncations", np.bool_),
        side_by_side("cut_values", np.float32),
        side_by_side("trains", np.bool_),
        lengths,
        np.array([one.last_value for one in columns], np.float32),
        gamma,
        gae_lambda,
        bootstrap,
        advantages,
        returns,
    )
    return advantages, returns


def assert_as_defined(columns, **how):
    advantages, returns = computed(columns, **how)
    for index, one in enumerate(columns):
        expected = np.array(one.returns(**how))
        values = np.where(one.trains, one.values, 0.0)
        length = len(one.players)
        np.testing.assert_allclose(returns[:length, index], expected, atol=2e-5)
        np.testing.assert_allclose(advantages[:length, index], expected - values, atol=2e-5)
        assert not returns[length:, index].any()
        assert not advantages[length:, index].any()


@pytest.mark.uncompiled
def test_the_winners_moves_return_1_and_the_losers_minus_1():
    game = column(
        [BLACK, WHITE] * 3 + [BLACK],
        gains=only_at(6, 1.0, 7),
        ends=only_at(6, True, 7),
        values=[0.5, -0.25, 0.125, 0.75, -0.5, 0.25, 0.5],
    )
    advantages, returns = computed([game])
    assert returns[:, 0].tolist() == [1, -1, 1, -1, 1, -1, 1]
    assert advantages[:, 0].tolist() == [0.5, -0.75, 0.875, -1.75, 1.5, -1.25, 0.5]


@pytest.mark.uncompiled
def test_a_move_that_loses_at_once_returns_minus_1_to_its_player():
    game = column([WHITE, BLACK, WHITE], gains=only_at(2, -1.0, 3), ends=only_at(2, True, 3))
    assert computed([game])[1][:, 0].tolist() == [-1, 1, -1]


def test_a_draw_returns_0_to_both():
    game = column([BLACK, WHITE, BLACK, WHITE], ends=only_at(3, True, 4), values=[0.5, 0.5, 0.5, 1])
    advantages, returns = computed([game])
    assert returns[:, 0].tolist() == [0, 0, 0, 0]
    assert advantages[:, 0].tolist() == [-0.5, -0.5, -0.5, -1]


def test_a_win_is_worth_less_the_further_away_it_is():
    game = column([BLACK, WHITE, BLACK], gains=only_at(2, 1.0, 3), ends=only_at(2, True, 3))
    assert computed([game], gamma=0.5)[1][:, 0].tolist() == [0.25, -0.5, 1]


@pytest.mark.uncompiled
@pytest.mark.parametrize(("bootstrap", "returns"), [(False, [0, 0, 0]), (True, [-0.6, 0.6, -0.6])])
def test_a_cut_game_is_a_draw_or_worth_its_last_position(bootstrap, returns):
    cut = column(
        [BLACK, WHITE, BLACK],
        ends=only_at(2, True, 3),
        truncations=only_at(2, True, 3),
        cut_values=only_at(2, 0.6, 3),  # good for white, who would have moved
        last_value=0.9,  # of the next game: not to be looked at
    )
    assert computed([cut], bootstrap=bootstrap)[1][:, 0] == pytest.approx(returns)


def test_a_game_that_ended_by_the_rules_is_never_bootstrapped():
    won = column(
        [BLACK, WHITE], gains=only_at(1, 1.0, 2), ends=only_at(1, True, 2), cut_values=[0.5, 0.5]
    )
    assert computed([won], bootstrap=True)[1][:, 0].tolist() == [-1, 1]


def test_a_game_that_goes_on_is_worth_the_value_of_the_next_position():
    going_on = column([WHITE, BLACK, WHITE], last_value=0.25)  # black's
    assert computed([going_on])[1][:, 0].tolist() == [-0.25, 0.25, -0.25]
    assert computed([going_on], gamma=0.5)[1][:, 0].tolist() == [-0.03125, 0.0625, -0.125]


def test_lambda_0_looks_one_step_ahead():
    game = column([BLACK, WHITE, BLACK], values=[0.1, 0.2, 0.4], last_value=0.8)
    assert computed([game], gae_lambda=0.0)[1][:, 0] == pytest.approx([-0.2, -0.4, -0.8])


def test_nothing_passes_from_one_game_of_a_column_to_the_one_before():
    players = [BLACK, WHITE, BLACK, BLACK, WHITE, WHITE, BLACK]
    games = column(
        players,
        gains=[0, 0, 1, 0, 1, 0, 0],
        ends=[False, False, True, False, True, False, False],
        last_value=0.5,
        last_player=WHITE,
    )
    assert computed([games])[1][:, 0].tolist() == [1, -1, 1, -1, 1, 0.5, -0.5]
    assert_as_defined([games], gamma=0.9, gae_lambda=0.8, bootstrap=False)


@pytest.mark.uncompiled
@pytest.mark.parametrize("learner", [BLACK, WHITE])
@pytest.mark.parametrize("winner", [BLACK, WHITE])
def test_against_a_past_self_only_the_learners_moves_count(learner, winner):
    players = [BLACK, WHITE] * 3
    steps = 6 if winner == WHITE else 5  # who moves last wins
    game = column(
        players[:steps],
        gains=only_at(steps - 1, 1.0, steps),
        ends=only_at(steps - 1, True, steps),
        values=[0.9] * steps,
        trains=[player == learner for player in players[:steps]],
    )
    advantages, returns = computed([game])
    result = 1 if learner == winner else -1
    expected = [result if trains else 0 for trains in game.trains]
    assert returns[:, 0] == pytest.approx(expected)
    assert advantages[:, 0] == pytest.approx([r - 0.9 if r else 0 for r in expected], abs=1e-6)
    assert_as_defined([game], gamma=0.9, gae_lambda=0.7, bootstrap=False)


def test_the_values_of_a_past_self_are_not_looked_at():
    trains = [True, False, True, False]
    one, other = (
        column([BLACK, WHITE] * 2, values=[0.1, strange, 0.2, strange], trains=trains, last_value=1)
        for strange in (0.5, float("nan"))
    )
    how = {"gamma": 0.9, "gae_lambda": 0.5}
    assert np.array_equal(computed([one], **how), computed([other], **how))


@pytest.mark.parametrize("learner", [BLACK, WHITE])
def test_a_rollout_may_end_on_either_players_turn_against_a_past_self(learner):
    for steps in (3, 4):
        players = [BLACK, WHITE, BLACK, WHITE][:steps]
        game = column(
            players,
            values=[0.3, -0.2, 0.1, 0.4][:steps],
            trains=[player == learner for player in players],
            last_value=0.7,
        )
        assert_as_defined([game], gamma=0.9, gae_lambda=0.6, bootstrap=False)


@pytest.mark.uncompiled
def test_a_shorter_column_ends_with_its_own_next_position():
    longer = column([BLACK, WHITE, BLACK, WHITE], last_value=0.5)
    shorter = column([BLACK, WHITE], last_value=0.25)
    empty = column([BLACK])
    for name in ("players", "gains", "values", "ends", "truncations", "cut_values", "trains"):
        getattr(empty, name).clear()
    returns = computed([longer, shorter, empty])[1]
    assert returns[:, 0].tolist() == [0.5, -0.5, 0.5, -0.5]
    assert returns[:, 1].tolist() == [0.25, -0.25, 0, 0]
    assert returns[:, 2].tolist() == [0, 0, 0, 0]


def random_column(random, steps):
    """Games of random lengths, results, colours and kinds, one after another."""
    made = column([BLACK] * steps)
    mover, learner, against_pool = random.integers(2), random.integers(2), random.random() < 0.5
    for t in range(steps):
        made.players[t] = int(mover)
        made.values[t] = float(np.float32(random.uniform(-1, 1)))
        made.trains[t] = bool(not against_pool or mover == learner)
        mover = 1 - mover
        if random.random() < 0.3:
            made.ends[t] = True
            made.truncations[t] = bool(random.random() < 0.4)
            made.cut_values[t] = float(np.float32(random.uniform(-1, 1)))
            if not made.truncations[t]:
                made.gains[t] = float(random.integers(-1, 2))
            mover, learner = random.integers(2), 1 - learner  # a new game, or one taken back
    made.last_player = int(mover)
    made.last_value = float(np.float32(random.uniform(-1, 1)))
    return made


@pytest.mark.uncompiled
@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    lengths=st.lists(st.integers(1, 14), min_size=1, max_size=4),
    gamma=st.sampled_from([1.0, 0.995, 0.8, 0.3]),
    gae_lambda=st.sampled_from([0.0, 0.5, 0.95, 1.0]),
    bootstrap=st.booleans(),
)
def test_any_rollout_has_the_returns_of_the_definition(seed, lengths, gamma, gae_lambda, bootstrap):
    random = np.random.default_rng(seed)
    columns = [random_column(random, steps) for steps in lengths]
    assert_as_defined(columns, gamma=gamma, gae_lambda=gae_lambda, bootstrap=bootstrap)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_without_discount_every_finished_game_returns_its_result_to_each_mover(seed):
    random = np.random.default_rng(seed)
    one = random_column(random, 30)
    one.truncations = [False] * 30
    returns = computed([one])[1][:, 0]
    finished = [t for t, end in enumerate(one.ends) if end]
    first = 0
    for end in finished:
        for t in range(first, end + 1):
            result = one.gains[end] if one.players[t] == one.players[end] else -one.gains[end]
            assert returns[t] == pytest.approx(result if one.trains[t] else 0, abs=1e-5)
        first = end + 1
