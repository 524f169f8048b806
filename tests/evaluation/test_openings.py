"""Openings: legal, different from each other, and the same again for the same seed."""

import numpy as np
import pytest

from keisei.evaluation.openings import book_openings, random_openings, read_book
from keisei.shogi.shogi_game import ShogiGame


def test_openings_are_legal_and_lead_to_different_positions_of_all_lengths():
    openings = random_openings(100, most_plies=6, seed=1)
    positions = set()
    for actions, length in zip(openings.actions, openings.lengths, strict=True):
        game = ShogiGame()
        for action in actions[:length]:
            game.make_move(int(action))
        assert game.outcome() is None
        positions.add(game.sfen())
    assert len(positions) == 100
    assert set(openings.lengths) == {2, 3, 4, 5, 6}


def final_positions(openings):
    """The position after each opening, without the number of the move."""
    positions = []
    for actions, length in zip(openings.actions, openings.lengths, strict=True):
        game = ShogiGame()
        for action in actions[:length]:
            game.make_move(int(action))
        assert game.outcome() is None
        positions.append(game.sfen().rsplit(" ", 1)[0])
    return positions


def test_the_book_has_hundreds_of_different_openings_of_8_to_20_plies():
    book = read_book()
    assert len(book) >= 200
    assert {len(moves) for moves in book} <= set(range(8, 21))
    assert len({tuple(moves[:4]) for moves in book}) >= 20
    openings = book_openings(len(book), seed=1)
    assert len(set(final_positions(openings))) == len(book)


def test_the_seed_decides_which_openings_of_the_book_are_played():
    first, same, other = (book_openings(20, seed=seed) for seed in (1, 1, 2))
    assert final_positions(first) == final_positions(same)
    assert final_positions(first) != final_positions(other)


def test_more_openings_than_the_book_has_end_in_random_plies():
    count = len(read_book()) + 50
    positions = final_positions(book_openings(count, seed=1))
    assert len(set(positions)) == count
    with pytest.raises(ValueError, match="allow more random plies"):
        book_openings(count, random_plies=0, seed=1)


def test_random_plies_follow_the_book():
    plain, longer = (book_openings(30, random_plies=plies, seed=1) for plies in (0, 6))
    assert {len(moves) for moves in read_book()} >= set(plain.lengths.tolist())
    assert longer.lengths.mean() > plain.lengths.mean()


def test_the_seed_decides():
    first, same, other = (random_openings(20, most_plies=8, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first.actions, same.actions)
    assert not np.array_equal(first.actions, other.actions)


def test_many_short_openings_are_still_all_different():
    openings = random_openings(600, most_plies=2, seed=0)  # there are some 900
    assert len({tuple(actions) for actions in openings.actions}) == 600


def test_more_openings_than_there_are_is_an_error():
    with pytest.raises(ValueError, match="too few different openings of 2 to 2 plies"):
        random_openings(1000, most_plies=2, seed=0)


def test_openings_have_at_least_two_plies():
    with pytest.raises(ValueError, match="at least 2 plies, not 1"):
        random_openings(1, most_plies=1, seed=0)
