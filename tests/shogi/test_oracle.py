"""The oracle behind `keisei position`."""

import pytest

from keisei.shogi.oracle import describe

MATE = {"sfen": "7lk/9/8G/9/9/9/9/9/4K4 b L 1", "moves": ["L*1b"]}


def test_it_tells_what_is_legal_and_who_won():
    assert describe(MATE) == {
        "sfen": "7lk/8L/8G/9/9/9/9/9/4K4 w - 2",
        "legal": [],
        "in_check": True,
        "over": True,
        "winner": "black",
        "reason": "checkmate",
        "declaration": {"27": "none", "24": "none"},
    }


def test_it_tells_what_a_declaration_would_bring():
    entered = "4K4/+P+P+P+P+P+P+P+P+P/+R7+R/9/9/9/9/9/4k4 b BG3S 1"
    assert describe({"sfen": entered})["declaration"] == {"27": "win", "24": "draw"}


@pytest.mark.parametrize(
    ("question", "error"),
    [
        ("7g7f", "a question is an object"),
        (None, "a question is an object"),
        ({"sfen": None}, "sfen must be a text"),
        ({"moves": None}, "moves must be a list"),
        ({"moves": [1]}, "moves must be a list"),
        ({"board": ""}, "unknown key 'board'"),
        ({"sfen": "x"}, "a SFEN has"),
        ({"moves": ["7g7f", "7g7f"]}, "move 2: 7g7f is not legal"),
        ({"moves": ["7g7f", "zz"]}, "move 2: 'zz' is not a move"),
    ],
)
def test_bad_questions_get_an_error_and_nothing_else(question, error):
    answer = describe(question)
    assert list(answer) == ["error"]
    assert answer["error"].startswith(error)
