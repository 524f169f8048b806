"""`VectorShogi`: streams, splits, threads, states, random starts, bad input."""

import zlib

import numpy as np
import pytest

from keisei.shogi.judging import Reason
from keisei.shogi.policy_output_mapper import PolicyOutputMapper
from keisei.shogi.position import MAX_LEGAL_MOVES
from keisei.shogi.shogi_game import ShogiGame
from keisei.shogi.vector_shogi import VectorShogi

OPTIONS = {"seed": 42, "random_start_share": 0.5, "random_start_plies": 30, "max_moves": 120}


def trace(games, steps):
    """Everything a caller sees of `steps` random steps: [steps, B, ...] arrays by name."""
    seen = {name: [] for name in games.outputs._fields if name != "legal"}
    drawn = []
    for _ in range(steps):
        drawn.append(games.random_actions())
        outputs = games.step(drawn[-1])
        for name, values in seen.items():
            values.append(getattr(outputs, name).copy())
    return {name: np.array(values) for name, values in seen.items()} | {"actions": np.array(drawn)}


def assert_same(first, second):
    for name, array in first.items():
        assert np.array_equal(array, second[name]), name


def test_one_and_two_threads_play_the_same_games():
    one = trace(VectorShogi(33, threads=1, **OPTIONS), 150)
    two = trace(VectorShogi(33, threads=2, **OPTIONS), 150)
    assert_same(one, two)


@pytest.mark.parametrize("sizes", [(1, 32), (20, 13), (11, 11, 11)])
def test_any_split_of_the_batch_plays_the_same_games(sizes):
    whole = trace(VectorShogi(33, threads=1, **OPTIONS), 150)
    first, parts = 0, []
    for size in sizes:
        parts.append(trace(VectorShogi(size, first_game=first, threads=1, **OPTIONS), 150))
        first += size
    assert_same(
        whole, {name: np.concatenate([part[name] for part in parts], axis=1) for name in whole}
    )


def test_another_seed_plays_other_games():
    one = trace(VectorShogi(4, threads=1, seed=1), 20)
    two = trace(VectorShogi(4, threads=1, seed=2), 20)
    assert not np.array_equal(one["actions"], two["actions"])
    assert not np.array_equal(one["actions"][:, 0], one["actions"][:, 1])


def test_play_random_is_step_with_random_actions():
    stepped = VectorShogi(16, threads=1, **OPTIONS)
    ended = (trace(stepped, 130)["reason"] > 0).sum()
    compiled = VectorShogi(16, threads=1, **OPTIONS)
    assert compiled.play_random(130) == ended
    for name in stepped.outputs._fields:
        if name not in ("legal", "final_positions"):
            assert np.array_equal(getattr(stepped, name), getattr(compiled, name)), name
    assert VectorShogi(16, threads=2, **OPTIONS).play_random(130) == ended


def test_a_loaded_state_continues_exactly():
    games = VectorShogi(12, threads=1, **OPTIONS)
    games.play_random(70)
    saved = games.state()
    expected = trace(games, 100)
    elsewhere = VectorShogi(12, threads=2, **{**OPTIONS, "seed": 7})
    elsewhere.load_state(saved)
    assert_same(expected, trace(elsewhere, 100))


def test_one_game_can_move_to_another_batch():
    games = VectorShogi(8, threads=1, **OPTIONS)
    games.play_random(50)
    saved = games.state([3])
    expected = trace(games, 60)
    other = VectorShogi(4, threads=1, **{**OPTIONS, "seed": 1})
    before = other.state([0, 1, 3])
    other.load_state(saved, [2])
    assert_same(before, other.state([0, 1, 3]))
    found = trace(other, 60)
    for name in expected:
        assert np.array_equal(expected[name][:, 3], found[name][:, 2]), name


@pytest.mark.uncompiled
def test_a_state_remembers_the_repetitions_so_far():
    shuffle = ["2h3h", "8b7b", "3h2h", "7b8b"] * 3
    games = VectorShogi(1, threads=1)
    for number, move in enumerate(shuffle):
        if number == 9:
            other = VectorShogi(1, threads=1)
            other.load_state(games.state())
            games = other
        games.step([PolicyOutputMapper.action_of(move, int(games.mover[0]))])
    assert games.reason[0] == Reason.REPETITION


def test_a_state_of_the_wrong_shape_is_refused_and_nothing_changes():
    games = VectorShogi(3, threads=1, seed=5)
    before = games.state()
    for broken in (
        VectorShogi(4, threads=1).state(),
        VectorShogi(3, threads=1, max_moves=100).state(),
        {name: array for name, array in before.items() if name != "keys"},
        {**before, "ply": before["ply"].astype(np.int64)},
    ):
        with pytest.raises(ValueError, match="state '"):
            games.load_state(broken)
    assert_same(before, games.state())


@pytest.mark.uncompiled
def test_an_illegal_action_is_named_and_no_game_moves():
    for threads in (1, 2):
        games = VectorShogi(5, threads=threads, seed=5)
        games.play_random(9)
        before = games.state()
        for wrong in (13526, -1, 99999, 2**40):
            actions = games.legal[:, 0].astype(np.int64)
            actions[3] = wrong
            with pytest.raises(ValueError, match=f"action {wrong} is not legal in game 3"):
                games.step(actions)
        assert_same(before, games.state())


@pytest.mark.parametrize("actions", [[1.0, 2.0], [1], [[1, 2]], ["a", "b"]])
def test_actions_of_the_wrong_shape_or_type_are_refused(actions):
    with pytest.raises(ValueError, match="actions must be 2 whole numbers"):
        VectorShogi(2, threads=1).step(actions)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_games": 0}, "num_games"),
        ({"num_games": 1, "max_moves": 0}, "max_moves"),
        ({"num_games": 1, "random_start_share": 1.5}, "random_start_share"),
        (
            {"num_games": 1, "random_start_share": 0.5, "random_start_plies": 0},
            "random_start_plies",
        ),
        ({"num_games": 1, "random_start_share": 1, "random_start_plies": 512}, "max_moves - 1"),
        ({"num_games": 1, "threads": 0}, "threads"),
        ({"num_games": 1, "start_sfen": "nonsense"}, "SFEN"),
        ({"num_games": 1, "start_sfen": "8k/7G1/8G/9/9/9/9/9/4K4 w - 1"}, "without legal moves"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        VectorShogi(**options)


def test_the_given_share_of_games_starts_after_random_plies():
    games = VectorShogi(2000, threads=1, seed=9, random_start_share=0.25, random_start_plies=40)
    started_later = games.ply > 0
    assert 0.2 < started_later.mean() < 0.3
    assert games.ply.max() == 40
    assert games.ply[started_later].min() == 1
    assert len(set(games.ply.tolist())) == 41
    everyone = VectorShogi(50, threads=1, random_start_share=1.0, random_start_plies=3)
    assert set(everyone.ply.tolist()) == {1, 2, 3}


@pytest.mark.uncompiled
def test_reset_begins_new_games_and_goes_on_with_the_streams():
    games = VectorShogi(4, threads=1, seed=1)
    first = trace(games, 10)["actions"]
    games.reset()
    assert not games.ply.any()
    assert not np.array_equal(first, trace(games, 10)["actions"])


@pytest.mark.uncompiled
def test_the_position_with_most_legal_moves_fits():
    # 593 moves, the most that any position has.
    sfen = "R8/2K1S1SSk/4B4/9/9/9/9/9/1L1L1L3 b RBGSNLP3g3n17p 1"
    games = VectorShogi(2, threads=1, start_sfen=sfen)
    assert list(games.legal_counts) == [MAX_LEGAL_MOVES] * 2
    assert len(set(games.legal[0].tolist())) == MAX_LEGAL_MOVES
    assert len(ShogiGame(sfen).legal_moves()) == MAX_LEGAL_MOVES


def test_a_game_takes_at_most_16_kilobytes():
    assert VectorShogi(1).bytes_per_game <= 16 * 1024


@pytest.mark.uncompiled
def test_compact_positions_show_the_board_as_the_mover_sees_it():
    games = VectorShogi(1, threads=1)
    position = games.positions[0]
    assert list(position[72:81]) == [2, 3, 4, 5, 8, 5, 4, 3, 2]
    assert list(position[0:9]) == [-2, -3, -4, -5, -8, -5, -4, -3, -2]
    assert (position[64], position[70]) == (6, 7)
    games.step([ShogiGame().legal_actions()[0]])
    assert list(games.positions[0][72:81]) == [2, 3, 4, 5, 8, 5, 4, 3, 2]
    assert (games.positions[0][64], games.positions[0][70]) == (6, 7)
    assert games.positions[0][95] == 1


@pytest.mark.uncompiled
def test_compiled_and_plain_python_play_the_same_games():
    """The figure is asserted in both runs of the test: with Numba, and with it switched off."""
    games = VectorShogi(
        6, threads=2, seed=4, random_start_share=0.5, random_start_plies=6, max_moves=25
    )
    digest = 0
    for _ in range(40):
        games.step(games.random_actions())
        for array in (games.positions, games.legal_counts, games.result, games.reason):
            digest = zlib.crc32(array.tobytes(), digest)
    assert digest == 2382980105


@pytest.mark.uncompiled
def test_a_share_of_won_games_is_taken_back_some_moves_and_goes_on():
    near_mate = "8k/9/7GG/9/9/9/9/9/4K4 b 2G 1"
    games = VectorShogi(
        8, seed=3, threads=1, start_sfen=near_mate, max_moves=6, rewind_share=0.5, rewind_plies=3
    )
    rewound = 0
    for _ in range(300):
        before = games.ply.copy()
        games.step(games.random_actions())
        for row in np.flatnonzero(games.reason):
            if games.ply[row] > 0:
                rewound += 1
                assert games.result[row] != 0
                assert before[row] + 1 - 3 <= games.ply[row] <= before[row]
    assert rewound > 3


def test_a_rewound_game_is_the_game_as_it_stood_then():
    games = VectorShogi(64, seed=8, threads=1, rewind_share=0.9, rewind_plies=8)
    played = [[] for _ in range(64)]
    checked = 0
    for _ in range(900):
        movers = games.mover.copy()
        actions = games.random_actions()
        games.step(actions)
        for row in range(64):
            played[row].append(PolicyOutputMapper.move_of(int(actions[row]), int(movers[row])))
            if games.reason[row]:
                del played[row][games.ply[row] :]
                if games.ply[row] > 0:
                    checked += 1
                    replay = ShogiGame()
                    for move in played[row]:
                        replay.make_move(move)
                    assert sorted(replay.legal_actions()) == sorted(
                        games.legal[row, : games.legal_counts[row]].tolist()
                    )
                    assert games.positions[row, 97] == replay.repetitions
                    assert games.positions[row, 96] == replay.in_check
    assert checked > 20
