"""SFEN: what is read, what is written, what is refused."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keisei.shogi.errors import NotationError
from keisei.shogi.sfen import START_SFEN, format_sfen, parse_sfen
from keisei.shogi.shogi_game import ShogiGame
from keisei.shogi.squares import square_name, square_number
from keisei.shogi.vector_shogi import VectorShogi


def written(sfen):
    games, number = parse_sfen(sfen)
    return format_sfen(games[0], number)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 250))
def test_positions_of_random_games_are_written_as_they_are_read(seed, plies):
    rng = np.random.default_rng(seed)
    game = ShogiGame()
    while game.ply < min(plies, 40) and (actions := game.legal_actions()):
        game.make_move(int(rng.choice(actions)))
    assert written(game.sfen()) == game.sfen()
    assert ShogiGame(game.sfen()).legal_moves() == game.legal_moves()


@pytest.mark.parametrize(
    "sfen",
    [
        START_SFEN,
        "4k4/9/9/9/9/9/9/9/9 b 2R2B4G4S4N4L18P 1",
        "9/9/9/9/9/9/9/9/4K4 w - 1",
        "4k4/9/9/9/9/9/9/9/4K4 w 2r2b4g4s4n4l18p 77",
        "8l/1l+R2P3/p2pBG1pp/kps1p4/Nn1P2G2/P1P1P2PP/1PS6/1KSG3+r1/LN2+p3L w Sbgn3p 124",
    ],
)
def test_it_is_written_as_it_was_read(sfen):
    assert written(sfen) == sfen


def test_the_move_number_may_be_missing_and_is_at_least_one():
    assert written(START_SFEN.removesuffix(" 1")) == START_SFEN
    assert written(START_SFEN.removesuffix("1") + "0") == START_SFEN


REFUSED = {
    "": "a SFEN has",
    "startpos": "a SFEN has",
    START_SFEN.replace(" b ", " x "): "b or w",
    START_SFEN.replace(" - 1", " - x"): "move number",
    START_SFEN.replace(" - 1", " - -3"): "move number",
    START_SFEN.replace("/9/9/9/", "/9/9/"): "8 ranks instead of 9",
    START_SFEN.replace("/9/9/9/", "/9/8/9/"): "has 8 squares instead of 9",
    START_SFEN.replace("/9/9/9/", "/9/99/9/"): "has 18 squares instead of 9",
    START_SFEN.replace("/9/9/9/", "/9/54/1/9/"): "10 ranks",
    START_SFEN.replace("lnsg", "lnsx"): "unreadable",
    START_SFEN.replace("lnsg", "lns+g"): "no piece is written '\\+g'",
    START_SFEN.replace("KGSNL", "+KGSNL"): "no piece is written",
    START_SFEN.replace(" - ", " 0P "): "no number of pieces",
    START_SFEN.replace(" - ", " K "): "hands 'K' are unreadable",
    START_SFEN.replace(" - ", " 2 "): "unreadable",
    START_SFEN.replace(" - ", " P "): "19 P are more than 18",
    START_SFEN.replace("/9/9/9/", "/9/4K4/9/"): "black has two kings",
    "9/9/9/9/9/9/9/9/9 b P 1": "no king",
    "4k4/9/9/4P4/9/4P4/9/9/4K4 b - 1": "two pawns",
    "3Pk4/9/9/9/9/9/9/9/4K4 b - 1": "never move",
    "4k4/1N7/9/9/9/9/9/9/4K4 b - 1": "never move",
    "4k4/9/9/9/9/9/9/9/l3K4 b - 1": "never move",
    "4k4/9/9/9/4R4/9/9/9/4K4 b - 1": "not to move is in check",
}


@pytest.mark.parametrize("sfen", REFUSED)
def test_impossible_positions_are_refused_with_the_reason(sfen):
    with pytest.raises(NotationError, match=REFUSED[sfen]):
        parse_sfen(sfen)


@settings(max_examples=400, deadline=None)
@given(st.text(alphabet="lnsgkrbpLNSGKRBP+123456789/ bw-0x９é", max_size=90))
def test_nonsense_never_raises_anything_but_a_notation_error(text):
    with suppress(NotationError):
        ShogiGame(text)


@settings(max_examples=400, deadline=None)
@given(st.integers(0, len(START_SFEN)), st.integers(0, 3), st.text(max_size=3))
def test_a_damaged_sfen_is_read_or_refused_but_never_crashes(place, removed, inserted):
    text = START_SFEN[:place] + inserted + START_SFEN[place + removed :]
    with suppress(NotationError):
        game = ShogiGame(text)
        assert ShogiGame(game.sfen()).legal_moves() == game.legal_moves()


def test_squares_have_names():
    assert [square_name(square) for square in (0, 8, 72, 80)] == ["9a", "1a", "9i", "1i"]
    assert [square_number(square_name(square)) for square in range(81)] == list(range(81))


def test_a_batch_can_start_from_a_handicap():
    handicap = "lnsgkgsnl/7b1/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL w - 1"
    games = VectorShogi(3, threads=1, start_sfen=handicap)
    assert list(games.mover) == [1, 1, 1]
    assert games.legal_counts[0] == len(ShogiGame(handicap).legal_moves())
