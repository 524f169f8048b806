"""Games are handed over with histories as long as the games, and nothing is lost."""

import numpy as np
import pytest

from keisei.shogi.vector_shogi import HISTORY, VectorShogi
from keisei.training.parallel.packed_games import packed_games, unpacked_games
from tests.core.small import bits

MAX_MOVES = 40


@pytest.fixture(scope="module")
def games():
    """Some that have begun anew, and one that has not been played."""
    games = VectorShogi(
        30, seed=5, max_moves=MAX_MOVES, random_start_share=0.5, random_start_plies=20, threads=1
    )
    games.play_random(100)
    return games


def test_packed_games_are_unpacked_as_they_were(games):
    state = games.state()
    packed = packed_games(state)
    moves = int(state["ply"].sum()) + games.num_games
    assert {len(packed[name]) for name in HISTORY} == {moves}
    assert moves < state["keys"].size
    assert bits(unpacked_games(packed, MAX_MOVES)) == bits(state)


def test_what_earlier_games_have_left_is_not_packed(games):
    live = games.live_state()
    behind = np.arange(MAX_MOVES + 1) > live["ply"][:, np.newaxis]
    assert live["keys"][behind].any()
    assert bits(unpacked_games(packed_games(live), MAX_MOVES)) == bits(games.state())
    assert not games.state()["keys"][behind].any()


def test_games_go_on_the_same_from_a_state_without_a_future(games):
    others = VectorShogi(
        30, seed=6, max_moves=MAX_MOVES, random_start_share=0.5, random_start_plies=20, threads=1
    )
    others.load_state(unpacked_games(packed_games(games.state()), MAX_MOVES))
    for _ in range(60):
        actions = games.random_actions()
        assert (actions == others.random_actions()).all()
        games.step(actions)
        others.step(actions)
    assert bits(games.state()) == bits(others.state())


def test_games_that_are_too_long_are_refused(games):
    with pytest.raises(ValueError, match="allowed are 3"):
        unpacked_games(packed_games(games.state()), 3)
