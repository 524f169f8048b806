"""What the network thinks at first sight."""

import numpy as np
import pytest

from keisei.play.engine_policy import PolicySearch
from keisei.play.searching import Limits
from keisei.shogi.sfen import START_SFEN
from keisei.shogi.shogi_game import ShogiGame
from keisei.shogi.vector_shogi import VectorShogi
from tests.core.small import small_agent


def test_its_best_move_is_the_one_the_network_plays():
    agent = small_agent()
    games = VectorShogi(1, threads=1)
    chosen = agent.select_actions(games.positions, games.legal, games.legal_counts, None)
    search = PolicySearch(agent)
    search.set_position(START_SFEN, [])
    report = search.search(Limits(), lines=5)
    game = ShogiGame()
    game.make_move(int(chosen.actions[0]))
    assert report.lines[0].moves == (game.moves[0],)
    assert report.lines[0].value == pytest.approx(float(chosen.values[0]), abs=1e-5)
    assert report.lines[0].visits == pytest.approx(1000 * np.exp(chosen.log_probs[0]), abs=1)


def test_lines_are_different_moves_the_most_probable_first():
    search = PolicySearch(small_agent())
    search.set_position(START_SFEN, ["7g7f"])
    lines = search.search(Limits(), lines=100).lines
    visits = [line.visits for line in lines]
    assert len({line.moves for line in lines}) == len(lines) == 30
    assert visits == sorted(visits, reverse=True)
    assert sum(visits) == pytest.approx(1000, abs=30)


def test_a_position_without_moves_has_no_lines():
    search = PolicySearch(small_agent())
    search.set_position("8k/9/9/9/9/9/7g1/8g/8K b - 1", [])
    assert search.search(Limits()).lines == ()


@pytest.mark.parametrize(("sfen", "moves"), [("x", []), (START_SFEN, ["7g7f", "7g7f"])])
def test_what_cannot_be_played_is_refused(sfen, moves):
    with pytest.raises(ValueError, match=r"SFEN|move 2: 7g7f is not legal"):
        PolicySearch(small_agent()).set_position(sfen, moves)
