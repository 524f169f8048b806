"""What a line of USI asks for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keisei.play.usi_protocol import Go, Position, SetOption, Word, parse
from keisei.shogi.sfen import START_SFEN


@pytest.mark.parametrize("word", list(Word))
def test_a_word_is_a_command_whatever_follows_it(word):
    assert parse(word.value) is word
    assert parse(f"  {word.value}   win  ") is word


@pytest.mark.parametrize(
    "line", ["", "  ", "usi2", "USI", "hello usi", "\x00", "setoption", "形勢"]
)
def test_other_lines_are_ignored(line):
    assert parse(line) is None


def test_the_start_position_has_a_name():
    assert parse("position startpos") == Position(START_SFEN, ())
    assert parse("position startpos moves 7g7f 3c3d") == Position(START_SFEN, ("7g7f", "3c3d"))


def test_a_position_is_a_sfen_and_moves():
    line = "position sfen 4k4/9/9/9/9/9/9/9/4K4 b P 3 moves P*5e"
    assert parse(line) == Position("4k4/9/9/9/9/9/9/9/4K4 b P 3", ("P*5e",))


def test_a_position_that_says_nothing_does_not_leave_the_one_before():
    assert parse("position") == Position("")
    assert parse("position nonsense") == Position("nonsense")


def test_options_may_have_spaces_and_no_value():
    assert parse("setoption name USI_Hash value 64") == SetOption("USI_Hash", "64")
    assert parse("setoption name Two Words value a b") == SetOption("Two Words", "a b")
    assert parse("setoption name Clear") == SetOption("Clear", "")
    assert parse("setoption value 3") is None


def test_go_has_clocks_in_any_order():
    line = "go wtime 2000 btime 1000 byoyomi 3000 binc 10 winc 20"
    assert parse(line) == Go(btime=1000, wtime=2000, byoyomi=3000, binc=10, winc=20)


def test_go_has_other_limits():
    assert parse("go") == Go()
    assert parse("go infinite") == Go(infinite=True)
    assert parse("go ponder btime 1 wtime 2") == Go(ponder=True, btime=1, wtime=2)
    assert parse("go nodes 5 depth 6 movetime 7") == Go(nodes=5, depth=6, movetime=7)


def test_go_mate_has_a_time_or_none():
    assert parse("go mate 3000") == Go(is_for_mate=True, mate_time=3000)
    assert parse("go mate infinite") == Go(is_for_mate=True)
    assert parse("go mate") == Go(is_for_mate=True)


def test_a_clock_below_zero_is_at_zero():
    assert parse("go btime -30 wtime +5") == Go(btime=0, wtime=5)


@pytest.mark.parametrize("value", ["x", "1.5", "--3", "", "٣", "nan"])
def test_a_number_that_is_none_is_left_out(value):
    assert parse(f"go byoyomi {value} btime 7") == Go(btime=7)


def test_a_number_of_ten_thousand_digits_is_a_long_time():
    assert parse("go movetime " + "9" * 10_000) == Go(movetime=10**12)


WORDS = ["usi", "go", "position", "sfen", "startpos", "moves", "7g7f", "setoption", "name", "value"]
NUMBERS = ["mate", "btime", "byoyomi", "infinite", "nodes", "-", "3", "-5", "x"]


@given(st.lists(st.sampled_from(WORDS + NUMBERS) | st.text(max_size=8), max_size=12))
def test_any_line_is_a_command_or_none(words):
    assert isinstance(parse(" ".join(words)), Word | SetOption | Position | Go | None)
