"""Every case of tests/data/shogi_cases.json, and perft counts."""

import json
from pathlib import Path

import pytest

from keisei.shogi.judging import Reason
from keisei.shogi.oracle import describe
from keisei.shogi.perft import perft
from keisei.shogi.shogi_game import ShogiGame

DATA = json.loads((Path(__file__).parents[1] / "data" / "shogi_cases.json").read_text())
CASES = {case["id"]: case for case in DATA["cases"]}
SEQUENCE_RESULTS = {
    "draw": (None, Reason.REPETITION),
    "black_loses": (1, Reason.PERPETUAL_CHECK),
    "white_loses": (0, Reason.PERPETUAL_CHECK),
    "white_mated": (0, Reason.CHECKMATE),
    "ongoing": None,
}


def of_kind(kind):
    return [case_id for case_id, case in CASES.items() if case["kind"] == kind]


def test_the_data_holds_only_the_three_kinds_of_case_tested_here():
    assert {case["kind"] for case in CASES.values()} == {"legality", "result", "declaration"}


@pytest.mark.uncompiled
@pytest.mark.parametrize("case_id", of_kind("legality"))
def test_legality(case_id):
    case = CASES[case_id]
    assert ShogiGame(case["sfen"]).is_legal(case["move"]) == (case["expected"] == "legal")
    listed = case["move"] in describe({"sfen": case["sfen"]})["legal"]
    assert listed == (case["expected"] == "legal"), case["why"]


@pytest.mark.uncompiled
@pytest.mark.parametrize("case_id", of_kind("result"))
def test_result_of_a_sequence(case_id):
    case = CASES[case_id]
    game = ShogiGame(case["sfen"])
    for move in case["moves"]:
        assert game.outcome() is None
        game.make_move(move)
    outcome = game.outcome()
    found = outcome and (outcome.winner, outcome.reason)
    assert found == SEQUENCE_RESULTS[case["expected"]], case["why"]


@pytest.mark.uncompiled
@pytest.mark.parametrize("case_id", of_kind("declaration"))
def test_declaration(case_id):
    case = CASES[case_id]
    game = ShogiGame(case["sfen"])
    assert game.declaration(27) == case["expected_27"]
    assert game.declaration(24) == case["expected_24"]


@pytest.mark.uncompiled
@pytest.mark.parametrize(
    ("sfen", "move", "legal"),
    [
        # A king that entered our camp: the pawn on 1i mates it, defended by the rook on 9i.
        ("K8/9/9/9/9/9/7lp/7pk/R8 b P 1", "P*1i", False),
        ("8r/KP7/PL7/9/9/9/9/9/8k w p 1", "P*9a", False),
        # Without the rook the king takes the pawn.
        ("K8/9/9/9/9/9/7lp/7pk/9 b P 1", "P*1i", True),
        # A king on our own last rank has no square behind it to drop on.
        ("K8/9/9/9/9/9/9/7gg/R6sk b P 1", "P*5e", True),
    ],
)
def test_pawn_drop_mate_near_our_own_side(sfen, move, legal):
    assert ShogiGame(sfen).is_legal(move) == legal


PERFT = [
    pytest.param(
        entry["sfen"],
        int(depth),
        nodes,
        id=f"{entry['id']}-{depth}",
        marks=[pytest.mark.uncompiled] if nodes < 6000 else [],
    )
    for entry in DATA["perft"]
    for depth, nodes in entry["nodes"].items()
]


@pytest.mark.parametrize(("sfen", "depth", "nodes"), PERFT)
def test_perft(sfen, depth, nodes):
    assert perft(depth, sfen) == nodes


def test_perft_of_the_start_at_depth_6():
    assert perft(6) == DATA["start_perft"]["6"]


@pytest.mark.uncompiled
def test_perft_at_depth_0_is_one_and_negative_depth_is_refused():
    assert perft(0) == 1
    with pytest.raises(ValueError, match="at least 0"):
        perft(-1)
