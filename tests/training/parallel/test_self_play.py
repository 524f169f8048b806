"""Groups of games, what makes them differ, and how they go on."""

import numpy as np
import pytest

from keisei.config_schema import WorkerProfile
from keisei.core.experience_buffer import ExperienceBuffer
from keisei.core.ppo_agent import PPOAgent
from keisei.shogi.shogi_game import ShogiGame
from keisei.training.parallel.experience_collector import join_states, split_state
from keisei.training.parallel.packed_games import packed_games
from keisei.training.parallel.self_play import (
    Group,
    SelfPlay,
    board_of,
    games_state_layout,
    groups_of,
    rollouts_of_an_update,
)
from tests.core.small import SMALL_MODEL, bits, one_thread, small_agent, small_config
from tests.training.parallel.collecting import experience, parallel_config


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with one_thread():
        yield


def collected(play, steps=8):
    buffer = ExperienceBuffer(steps, play.games.num_games)
    play.collect(buffer)
    return buffer


def test_without_workers_all_games_are_one_group():
    assert groups_of(small_config(games={"count": 10}), None) == [Group(0, 10)]


@pytest.mark.parametrize(
    ("count", "workers", "each"), [(12, 3, 4), (12, 1, 12), (13, 3, 5), (2, 4, 1)]
)
def test_games_are_shared_out_alike_and_rounded_up(count, workers, each):
    groups = groups_of(small_config(games={"count": count}), workers)
    assert [group.games for group in groups] == [each] * workers
    assert [group.first_game for group in groups] == [each * worker for worker in range(workers)]


@pytest.mark.parametrize(
    ("settings", "workers", "rollouts"),
    [
        ({"mode": "sync", "max_policy_lag": 2}, 4, 4),
        ({"max_policy_lag": 1}, 4, 4),
        ({"max_policy_lag": 2}, 4, 2),
        ({"max_policy_lag": 2}, 5, 3),
        ({"max_policy_lag": 2}, 1, 1),
        ({"max_policy_lag": 9}, 4, 1),
        ({"max_policy_lag": 3, "model_sync_interval": 2}, 4, 2),
    ],
)
def test_an_update_of_fewer_rollouts_has_larger_ones(settings, workers, rollouts):
    config = parallel_config(games={"count": 12}, **{"mode": "async", **settings})
    assert rollouts_of_an_update(config.training.parallel, workers) == rollouts
    assert [group.games for group in groups_of(config, workers)] == [12 // rollouts] * workers


def test_workers_may_be_given_a_number_of_games():
    config = parallel_config(games={"count": 5}, games_per_worker=7)
    assert groups_of(config, 3) == [Group(0, 7), Group(7, 7), Group(14, 7)]


def test_profiles_go_to_the_first_workers_in_order():
    profiles = [{"temperature": 2.0}, {"opponent_share": 0.5}]
    config = parallel_config(num_workers=3, worker_profiles=profiles)
    assert [group.profile for group in groups_of(config, 3)] == [
        WorkerProfile(temperature=2.0),
        WorkerProfile(opponent_share=0.5),
        WorkerProfile(),
    ]


def test_a_game_is_played_the_same_in_any_group():
    """By a network without preferences, as rounding depends on what else is asked."""
    config = small_config(games={"count": 8, "random_start_share": 0.5, "max_moves": 30})
    agent = PPOAgent(SMALL_MODEL, config.ppo)
    whole = collected(SelfPlay(config, agent, None, Group(0, 8)), 40)
    for first, games in ((0, 3), (3, 4), (7, 1)):
        part = collected(SelfPlay(config, agent, None, Group(first, games)), 40)
        columns = slice(first, first + games)
        assert (part.positions == whole.positions[:, columns]).all()
        assert (part.actions == whole.actions[:, columns]).all()
    assert whole.ends.any()


def test_a_profile_decides_how_games_begin_and_against_whom():
    config = small_config(games={"random_start_share": 0.5, "opponent_share": 0.5})
    agent, opponent = small_agent(), small_agent(seed=1)

    def against(profile):
        group = Group(0, 40, WorkerProfile(**profile))
        play = SelfPlay(config, agent, opponent, group)
        plies = play.games.ply.copy()
        return (plies > 0).mean(), collected(play, 2).trains.mean()

    diverse, own = against({})
    assert 0.2 < diverse < 0.8
    assert own == 0.75
    assert against({"random_start_share": 0.0, "opponent_share": 0.0}) == (0, 1)
    assert against({"random_start_share": 1.0, "opponent_share": 1.0}) == (1, 0.5)


def test_a_high_temperature_plays_more_varied_moves_and_tells_the_same_probabilities():
    config = small_config(games={"random_start_share": 0.0})
    means, told = [], set()
    for temperature in (0.1, 1.0, 10.0):
        group = Group(0, 200, WorkerProfile(temperature=temperature))
        buffer = collected(SelfPlay(config, small_agent(), None, group), 1)
        means.append(buffer.log_probs.mean())
        told.update(zip(buffer.actions[0].tolist(), buffer.log_probs[0].tolist(), strict=True))
    assert means == sorted(means, reverse=True)
    assert means[0] > means[2] + 0.2
    assert len({action for action, _ in told}) == len(told) > 20


def test_a_group_reports_when_enough_of_its_games_have_ended():
    config = parallel_config(episodes_per_worker=3)
    play = SelfPlay(config, small_agent(), None, Group(0, 6))
    for _ in range(5):
        buffer = ExperienceBuffer(200, 6)
        _, statistics = play.collect(buffer)
        assert statistics.games >= 3
        assert buffer.ends[: buffer.filled - 1].sum() < 3
        assert statistics.steps == len(buffer) == 6 * buffer.filled


def test_what_was_asked_at_the_end_of_a_rollout_is_not_asked_again(monkeypatch):
    config, agent = small_config(games={"random_start_share": 0.5}), small_agent()
    whole = collected(SelfPlay(config, agent, None, Group(0, 6)), 8)
    asked = []
    monkeypatch.setattr(
        agent, "ask", lambda *seen: asked.append(len(seen[0])) or PPOAgent.ask(agent, *seen)
    )
    play = SelfPlay(config, agent, None, Group(0, 6))
    halves = [collected(play, 4) for _ in range(2)]
    assert len(asked) == 8 + 1
    for name in ("positions", "actions", "log_probs", "values"):
        parts = np.concatenate([getattr(half, name) for half in halves])
        assert (parts == getattr(whole, name)).all()


def test_new_weights_are_asked_anew():
    config, agent = small_config(), small_agent()
    play = SelfPlay(config, agent, None, Group(0, 6))
    collected(play, 4)
    agent.model.load_state_dict(small_agent(seed=7).model.state_dict())
    agent.version += 1
    expected = agent.evaluate_positions(play.games.positions)
    assert (collected(play, 1).values[0] == expected).all()


def test_somebody_may_look_in_before_every_ply():
    config = small_config()
    play = SelfPlay(config, small_agent(), None, Group(0, 4))
    looks = []
    buffer = ExperienceBuffer(5, 4)
    play.collect(buffer, lambda: looks.append(buffer.filled))
    assert looks == [0, 1, 2, 3, 4]


def test_after_a_reset_new_games_are_played():
    config = small_config(games={"random_start_share": 1.0})
    play = SelfPlay(config, small_agent(), None, Group(0, 6))
    first = collected(play)
    play.reset()
    again = collected(play)
    assert not (again.positions[0] == first.positions[0]).all()
    ordinary = SelfPlay(
        small_config(games={"random_start_share": 0.0}), small_agent(), None, Group(0, 6)
    )
    collected(ordinary)
    assert (ordinary.games.ply == 8).all()
    ordinary.reset()
    assert (ordinary.games.ply == 0).all()


def test_a_loaded_group_plays_on_as_the_first_one():
    config = parallel_config(games={"opponent_share": 0.5})
    agent, opponent = small_agent(), small_agent(seed=1)
    one, other = (SelfPlay(config, agent, opponent, Group(first, 6)) for first in (0, 50))
    collected(one)
    other.load_state(one.state())
    assert experience(collected(other)) == experience(collected(one))


def test_the_live_state_is_the_state_without_a_copy():
    play = SelfPlay(parallel_config(), small_agent(), None, Group(0, 5))
    live, before = play.live_state(), play.state()
    assert bits(live) == bits(before)
    collected(play)
    played = packed_games(live)  # live histories keep something of earlier games
    assert bits(played) == bits(packed_games(play.state())) != bits(packed_games(before))
    assert all(np.shares_memory(array, play.live_state()[name]) for name, array in live.items())
    assert not any(np.shares_memory(array, live[name]) for name, array in before.items())


def test_the_layout_of_the_state_is_that_of_the_state():
    config = small_config(games={"max_moves": 33})
    play = SelfPlay(config, small_agent(), None, Group(0, 5))
    layout = {name: (np.dtype(kind), shape) for name, kind, shape in games_state_layout(config, 5)}
    state = play.state()
    assert layout == {name: (array.dtype, array.shape) for name, array in state.items()}


def test_the_board_is_that_of_the_last_game():
    config = small_config(games={"random_start_share": 0.0})
    play = SelfPlay(config, small_agent(), None, Group(0, 3))
    assert board_of(play.state()) == str(ShogiGame())
    game = ShogiGame()
    game.make_move(int(collected(play, 1).actions[0, -1]))
    assert board_of(play.state()) == str(game)


def states_of(*sizes, seed=0, **games):
    config = small_config(seed=seed, games=games)
    return [SelfPlay(config, small_agent(), None, Group(9 * n, n)).state() for n in sizes]


def test_states_are_joined_and_split_again():
    states = states_of(1, 3, 2)
    parts = split_state(join_states(states), states_of(1, 3, 2, seed=1))
    assert [bits(part) for part in parts] == [bits(state) for state in states]


def test_of_too_many_games_the_last_are_given_up():
    [state] = states_of(8)
    first, second = split_state(state, states_of(2, 4, seed=1))
    assert bits(first) == bits({name: array[:2] for name, array in state.items()})
    assert bits(second) == bits({name: array[2:6] for name, array in state.items()})


def test_where_there_are_too_few_games_the_last_of_the_groups_stay():
    [state] = states_of(4)
    groups = states_of(3, 3, 2, seed=1)
    whole, filled_up, own = split_state(state, groups)
    assert bits(whole) == bits({name: array[:3] for name, array in state.items()})
    for name, array in filled_up.items():
        assert bits({name: array[:1]}) == bits({name: state[name][3:]})
        assert bits({name: array[1:]}) == bits({name: groups[1][name][1:]})
    assert bits(own) == bits(groups[2])
    assert bits(own) != bits(states_of(2)[0])


def test_games_of_another_length_are_refused_by_whoever_loads_them():
    config = small_config(games={"max_moves": 30})
    play = SelfPlay(config, small_agent(), None, Group(0, 6))
    for count in (4, 6, 8):
        [state] = states_of(count, max_moves=20)
        [part] = split_state(state, [play.state()])
        with pytest.raises(ValueError, match="must be"):
            play.load_state(part)
