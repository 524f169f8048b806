"""Scores and reports as lines of USI."""

from itertools import pairwise

import pytest

from keisei.play.searching import Line, SearchReport
from keisei.play.usi_answers import centipawns, info_lines, info_string, score_of


def test_scores_rise_with_the_value_and_have_no_favourite():
    values = [step / 100 for step in range(-100, 101)]
    assert all(centipawns(a) < centipawns(b) for a, b in pairwise(values))
    assert [centipawns(-v) for v in values] == [-centipawns(v) for v in values]
    assert centipawns(0.0) == 0


@pytest.mark.parametrize("value", [1.0, 5.0])
def test_certainty_has_a_finite_score(value):
    assert centipawns(value) == -centipawns(-value) == 8705


def test_a_mate_is_worth_more_than_any_value_and_a_sooner_one_more_than_a_later():
    lines = [
        Line(("7g7f",), -1.0, 1, mate=-2),
        Line(("7g7f",), -1.0, 1, mate=-20),
        Line(("7g7f",), -1.0, 1),
        Line(("7g7f",), 1.0, 1),
        Line(("7g7f",), 1.0, 1, mate=21),
        Line(("7g7f",), 1.0, 1, mate=1),
    ]
    assert sorted(lines, key=score_of) == lines


def report_of(*lines, seconds=0.5):
    return SearchReport(lines, nodes=1000, seconds=seconds, depth=2, seldepth=7, hashfull=12)


def test_a_report_is_an_info_line():
    report = report_of(Line(("7g7f", "3c3d"), 0.1, 500))
    assert info_lines(report, shown=1) == [
        "info depth 2 seldepth 7 score cp 120 nodes 1000 nps 2000 time 500 hashfull 12 pv 7g7f 3c3d"
    ]


def test_several_lines_are_numbered_best_first():
    report = report_of(Line(("7g7f",), 0.1, 5), Line(("2g2f",), 0.0, 4), Line(("1g1f",), 0.0, 4))
    lines = info_lines(report, shown=2)
    assert ["multipv 1" in lines[0], "multipv 2" in lines[1]] == [True, True]
    assert [line.split(" pv ")[1] for line in lines] == ["7g7f", "2g2f"]


def test_a_mate_is_shown_in_plies():
    report = report_of(Line(("G*5b",), 1.0, 5, mate=1), Line(("1g1f",), -1.0, 5, mate=-4))
    won, lost = info_lines(report, shown=2)
    assert " score mate 1 " in won
    assert " score mate -4 " in lost


def test_a_search_that_took_no_time_has_no_speed():
    assert " nps 0 " in info_lines(report_of(Line(("7g7f",), 0.1, 5), seconds=0.0), shown=1)[0]


def test_a_sentence_is_one_line():
    assert info_string("a\nbestmove 7g7f\r b") == "info string a bestmove 7g7f b"
