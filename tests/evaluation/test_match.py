"""Matches: pairs of games, fair colours, the same again for the same seeds."""

from collections import Counter

import numpy as np
import pytest

from keisei.evaluation import match
from keisei.evaluation.match import play_match
from keisei.evaluation.match_result import games_as_records
from keisei.evaluation.players import GreedyPlayer, NoMove, RandomPlayer
from keisei.evaluation.statistics import wilson_interval
from keisei.shogi.judging import Reason
from keisei.shogi.notation.conversion import read_games, write_games
from keisei.shogi.shogi_game import ShogiGame
from tests.evaluation.engines import openings_of


class PositionPlayer:
    """Chooses by the position alone, and remembers how often it was asked about each row."""

    name = "position"

    def __init__(self):
        self.asked = Counter()

    def choose(self, games, rows):
        self.asked.update(rows.tolist())
        sums = games.positions[rows].astype(np.int64) @ np.arange(1, 101) ** 2
        return games.legal[rows, sums % games.legal_counts[rows]].astype(np.int64)


@pytest.fixture(scope="module")
def random_match():
    return play_match(RandomPlayer(1), RandomPlayer(2), games=200, seed=3)


@pytest.fixture(scope="module")
def greedy_match():
    return play_match(GreedyPlayer(1), RandomPlayer(2), games=100, seed=3)


def test_two_random_players_are_equal(random_match):
    tally = random_match.tally()
    low, high = wilson_interval(tally.points, tally.games)
    assert low < 0.5 < high
    assert tally.wins > 0 < tally.losses


def test_the_counts_add_up(random_match):
    whole = random_match.tally()
    assert whole.games == len(random_match.games) == 200
    by_colour = [random_match.tally_of_colour(colour) for colour in (0, 1)]
    assert [tally.games for tally in by_colour] == [100, 100]
    for parts in (by_colour, random_match.tally_by_reason().values()):
        for field in ("wins", "draws", "losses", "cut"):
            assert sum(getattr(part, field) for part in parts) == getattr(whole, field)


def test_every_game_replays_to_the_same_end(random_match, greedy_match):
    for game in random_match.games[:30] + greedy_match.games:
        replayed = ShogiGame()
        for move in game.moves:
            assert replayed.outcome() is None
            replayed.make_move(move)
        outcome = replayed.outcome()
        assert (outcome.winner, outcome.reason) == (game.winner, game.reason)


def test_each_opening_is_played_once_with_each_colour(random_match):
    openings = set()
    for one, other in zip(random_match.games[::2], random_match.games[1::2], strict=True):
        assert (one.player_colour, other.player_colour) == (0, 1)
        opening = one.moves[: one.opening_plies]
        assert other.moves[: other.opening_plies] == opening
        assert 2 <= len(opening) <= 8
        openings.add(opening)
    assert len(openings) == 100


def test_the_same_seeds_play_the_same_games_and_another_seed_does_not():
    def play(seed):
        return play_match(GreedyPlayer(1), RandomPlayer(2), games=20, seed=seed)

    first = play(3)
    assert play(3) == first
    assert play(4) != first


def test_players_are_asked_for_the_moves_after_the_opening_and_never_after_the_end():
    player, opponent = PositionPlayer(), PositionPlayer()
    result = play_match(player, opponent, games=40, seed=1, max_moves=400)
    assert len(set(result.lengths())) > 1
    for row, game in enumerate(result.games):
        asked = player.asked[row] + opponent.asked[row]
        assert asked == len(game.moves) - game.opening_plies
        assert abs(player.asked[row] - opponent.asked[row]) <= 1


def test_more_games_than_rows_are_played_as_rows_become_free(monkeypatch):
    def play():
        return play_match(PositionPlayer(), PositionPlayer(), games=30, seed=2, max_moves=400)

    side_by_side = play()
    assert len(set(side_by_side.lengths())) > 1
    monkeypatch.setattr(match, "MOST_ROWS", 4)
    assert play() == side_by_side


def test_greedy_beats_random(greedy_match):
    assert greedy_match.tally().wins >= 90
    swapped = play_match(RandomPlayer(2), GreedyPlayer(1), games=100, seed=3)
    assert swapped.tally().losses >= 90


def test_a_game_cut_by_the_move_limit_is_a_draw_that_is_counted_apart():
    result = play_match(RandomPlayer(1), RandomPlayer(2), games=10, seed=3, max_moves=12)
    tally = result.tally()
    assert (tally.draws, tally.cut, tally.points) == (10, 10, 5)
    assert result.lengths() == [12] * 10


def test_every_game_is_told_when_it_is_over():
    told = {}
    result = play_match(RandomPlayer(1), RandomPlayer(2), games=30, seed=3, on_game=told.setdefault)
    assert tuple(told[number] for number in range(30)) == result.games


def test_a_match_ends_early_when_enough_is_known():
    result = play_match(
        RandomPlayer(1), RandomPlayer(2), games=30, seed=3, rows=2, on_game=lambda *_: True
    )
    assert 1 <= len(result.games) <= 2


def test_games_that_are_over_already_are_not_played_again():
    def play(**settings):
        return play_match(PositionPlayer(), PositionPlayer(), games=20, seed=2, **settings)

    whole, told = play(), {}
    played = {number: whole.games[number] for number in (0, 3, 4, 19)}
    assert play(played=played, on_game=told.setdefault) == whole
    assert set(told) == set(range(20)) - {0, 3, 4, 19}


class Quitter(RandomPlayer):
    """Answers with no move when it is asked for its third."""

    def __init__(self, answer):
        super().__init__(1)
        self._answer = answer

    def choose(self, games, rows):
        actions = super().choose(games, rows)
        actions[games.ply[rows] >= 6] = self._answer
        return actions


@pytest.mark.parametrize("answer", set(NoMove) - {NoMove.DECLARES})
def test_whoever_has_no_move_has_lost_and_the_next_game_begins(answer):
    openings = openings_of("7g7f 3c3d", "2g2f 8c8d", "7g7f 8c8d")
    result = play_match(
        Quitter(answer), RandomPlayer(2), games=6, seed=1, openings=openings, rows=2
    )
    assert {(game.outcome, game.reason) for game in result.games} == {("loss", answer)}
    assert result.lengths() == [6, 7, 6, 7, 6, 7]
    for game in result.games:
        replayed = ShogiGame()
        for move in game.moves:
            replayed.make_move(move)
        assert replayed.outcome() is None
    for one, other in zip(result.games[::2], result.games[1::2], strict=True):
        assert one.moves[:2] == other.moves[:2]


def test_a_declaration_is_judged_by_the_27_point_rule(monkeypatch):
    def play():
        return play_match(Quitter(NoMove.DECLARES), RandomPlayer(2), games=2, seed=1)

    false = play()
    reasons = {(game.outcome, game.reason) for game in false.games}
    assert reasons == {("loss", NoMove.FALSE_DECLARATION)}

    asked = []

    def entered(record, rule):
        asked.append(rule)
        return match.MOVER_WINS

    monkeypatch.setattr(match, "declaration_verdict", entered)
    true = play()
    assert {(game.outcome, game.reason) for game in true.games} == {("win", Reason.DECLARATION)}
    assert asked == [27, 27]
    assert true.lengths() == false.lengths()


def test_the_games_can_be_saved_as_kif_and_read_back(random_match, tmp_path):
    records = games_as_records(random_match)[:10]
    paths = write_games(records, "kif", tmp_path / "game.kif")
    assert [read_games(path) for path in paths] == [[record] for record in records]


@pytest.mark.parametrize("games", [-2, 0, 7])
def test_an_odd_number_of_games_is_refused(games):
    with pytest.raises(ValueError, match="games must be an even number"):
        play_match(RandomPlayer(1), RandomPlayer(2), games=games, seed=0)


def test_a_move_limit_within_the_opening_is_refused():
    with pytest.raises(ValueError, match="max_moves must be more than the 2 plies"):
        play_match(RandomPlayer(1), RandomPlayer(2), games=2, seed=0, max_moves=2)
