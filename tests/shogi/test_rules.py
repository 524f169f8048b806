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


@pytest.mark.parametrize("case_id", of_kind("legality"))
def test_legality(case_id):
    case = CASES[case_id]
    assert ShogiGame(case["sfen"]).is_legal(case["move"]) == (case["expected"] == "legal")
    listed = case["move"] in describe({"sfen": case["sfen"]})["legal"]
    assert listed == (case["expected"] == "legal"), case["why"]


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


@pytest.mark.parametrize("case_id", of_kind("declaration"))
def test_declaration(case_id):
    case = CASES[case_id]
    game = ShogiGame(case["sfen"])
    assert game.declaration(27) == case["expected_27"]
    assert game.declaration(24) == case["expected_24"]


PERFT = [
    pytest.param(entry["sfen"], int(depth), nodes, id=f"{entry['id']}-{depth}")
    for entry in DATA["perft"]
    for depth, nodes in entry["nodes"].items()
]


@pytest.mark.parametrize(("sfen", "depth", "nodes"), PERFT)
def test_perft(sfen, depth, nodes):
    assert perft(depth, sfen) == nodes


def test_perft_of_the_start_at_depth_6():
    assert perft(6) == DATA["start_perft"]["6"]


def test_perft_at_depth_0_is_one_and_negative_depth_is_refused():
    assert perft(0) == 1
    with pytest.raises(ValueError, match="at least 0"):
        perft(-1)
