"""CSA 2.2: what the reader understands and refuses, and what the writer's text looks like."""

from __future__ import annotations

from pathlib import Path

import pytest

from keisei.shogi.errors import IllegalMoveError, NotationError
from keisei.shogi.notation.conversion import read_games
from keisei.shogi.notation.csa_reader import read_csa
from keisei.shogi.notation.csa_words import ENDING_OF_WORD
from keisei.shogi.notation.csa_writer import write_csa
from keisei.shogi.notation.kif_words import HANDICAPS
from keisei.shogi.notation.records import Ending, GameRecord, RecordedMove
from keisei.shogi.sfen import START_SFEN

RECORDS = Path(__file__).parent / "records"
EMPTY_RANKS = "".join(f"P{rank} *  *  *  *  *  *  *  *  * \n" for rank in range(2, 10))


def game_of(*lines: str) -> GameRecord:
    (record,) = read_csa("V2.2\nPI\n+\n" + "\n".join(lines))
    return record


def usi_moves(record: GameRecord) -> list[str]:
    return [move.usi for move in record.moves]


def rewritten(record: GameRecord) -> GameRecord:
    (again,) = read_csa(write_csa([record]))
    return again


@pytest.fixture
def tournament() -> list[GameRecord]:
    return read_games(RECORDS / "tournament.csa")


def test_a_file_holds_several_games(tournament: list[GameRecord]) -> None:
    assert [usi_moves(record) for record in tournament] == [
        ["7g7f", "3c3d", "8h2b+", "3a2b", "B*4e"],
        ["7a6b", "7g7f"],
        ["7g7f", "8c8d"],
    ]
    assert [record.ending for record in tournament] == [
        Ending.RESIGN,
        Ending.ABORT,
        Ending.ILLEGAL_MOVE,
    ]
    assert read_csa(write_csa(tournament)) == tournament


def test_headers_get_neutral_names(tournament: list[GameRecord]) -> None:
    assert tournament[0].headers == {
        "black": "Keisei",
        "white": "Random",
        "event": "Test League",
        "site": "Laboratory",
        "start_time": "2024/05/03 10:30:00",
        "end_time": "2024/05/03 10:41:05",
        "time_limit": "00:15+10",
        "opening": "YOKOFUDORI",
    }
    assert tournament[1].headers == {"black": "Lower", "white": "Upper"}


def test_unknown_headers_keep_their_names() -> None:
    record = read_csa("$MAX_MOVES:320\n$表題:試し\nPI\n+\n")[0]
    assert record.headers == {"MAX_MOVES": "320", "表題": "試し"}
    assert rewritten(record) == record


def test_times_and_comments_belong_to_the_line_before_them(tournament: list[GameRecord]) -> None:
    record = tournament[0]
    assert record.comment == "before the first move"
    assert record.moves[0] == RecordedMove("7g7f", 12)
    assert record.moves[1] == RecordedMove(
        "3c3d", 6, "a comment, with a comma\n* 30 +8822UM -3122GI"
    )
    assert (record.ending_seconds, record.ending_comment) == (4, "done")


def test_pieces_may_be_removed_from_the_even_start(tournament: list[GameRecord]) -> None:
    assert tournament[1].start_sfen == HANDICAPS["二枚落ち"]


def test_all_remaining_pieces_can_be_given_to_a_hand() -> None:
    (record,) = read_games(RECORDS / "mate_problem.csa")
    assert record.start_sfen == "9/6pk1/6Pl1/5g1S1/9/9/9/9/9 b BG2rb2g3s4n3l16p 1"
    assert usi_moves(record) == ["B*1c", "2b1a", "G*2b"]
    assert record.ending is Ending.CHECKMATE
    assert record.headers == {"event": "詰将棋の試作"}
    assert rewritten(record) == record


def test_an_illegal_last_move_is_kept_apart_from_the_moves(tournament: list[GameRecord]) -> None:
    record = tournament[2]
    assert record.illegal_move == "7g7e"
    assert record.ending_seconds == 8
    assert record.winner == 1


@pytest.mark.parametrize("word", ["%ILLEGAL_MOVE", "%+ILLEGAL_ACTION"])
def test_a_second_pawn_on_a_file_that_lost_the_game_is_not_an_error(word: str) -> None:
    record = game_of("+2726FU", "-2324FU", "+2625FU", "-2425FU", "+2825HI", "-9394FU",
                     "+0056FU", word)  # fmt: skip
    assert (record.ending, record.illegal_move) == (Ending.ILLEGAL_MOVE, "P*5f")
    assert len(record.moves) == 6
    assert rewritten(record) == record


def test_an_illegal_move_that_is_not_called_a_foul_is_an_error() -> None:
    for rest in ([], ["%TORYO"], ["-3334FU"], ["+3334FU"]):
        with pytest.raises(NotationError, match="line 4: illegal move '\\+7775FU'"):
            game_of("+7775FU", *rest)


@pytest.mark.parametrize(("word", "ending"), ENDING_OF_WORD.items())
def test_every_ending_is_read(word: str, ending: Ending) -> None:
    record = game_of("+7776FU", f"{word},T3")
    assert (record.ending, record.ending_seconds) == (ending, 3)


def test_a_foul_is_told_from_the_side_to_move() -> None:
    assert game_of("+7776FU", "%-ILLEGAL_ACTION").ending is Ending.FOUL_LOSS
    assert game_of("+7776FU", "%+ILLEGAL_ACTION").ending is Ending.FOUL_WIN
    for offender in "+-":
        text = f"PI\n+\n+7776FU\n%{offender}ILLEGAL_ACTION\n"
        assert text in write_csa(read_csa(text))


@pytest.mark.parametrize("ending", Ending)
def test_every_ending_survives_being_written(ending: Ending) -> None:
    record = GameRecord(moves=[RecordedMove("7g7f", 1, "a comment")], ending=ending)
    assert rewritten(record) == record
    without_moves = GameRecord(ending=ending, ending_seconds=5)
    assert rewritten(without_moves) == without_moves


def test_promotion_shows_in_the_name_of_the_piece() -> None:
    record = game_of("+7776FU", "-3334FU", "+8822UM", "-3122GI")
    assert usi_moves(record) == ["7g7f", "3c3d", "8h2b+", "3a2b"]
    assert "+8822UM\n-3122GI\n" in write_csa([record])


def test_an_unpromoted_move_into_the_zone_stays_unpromoted() -> None:
    record = game_of("+7776FU", "-3334FU", "+8822KA")
    assert usi_moves(record)[-1] == "8h2b"
    assert rewritten(record) == record


def test_the_start_may_be_left_out() -> None:
    (record,) = read_csa("+7776FU\n-3334FU\n")
    assert record.start_sfen == START_SFEN
    assert len(record.moves) == 2


def test_fractions_of_seconds_are_dropped() -> None:
    assert game_of("+7776FU", "T12.345").moves[0].seconds == 12


def test_a_whole_game_is_written_as_the_standard_has_it() -> None:
    record = GameRecord(
        "4k4/9/9/9/9/9/4+P4/9/9 w 2GPr 1",
        [RecordedMove("R*5c", 7, "one\ntwo")],
        {"white": "W", "black": "B", "event": "E", "start_time": "2024/05/03(金) 10:00:00"},
        comment="hello",
        ending=Ending.RESIGN,
        ending_seconds=2,
    )
    ranks = ["P1 *  *  *  * -OU *  *  *  * ", *EMPTY_RANKS.splitlines()]
    ranks[6] = "P7 *  *  *  * +TO *  *  *  * "
    assert write_csa([record]).splitlines() == [
        *("V2.2", "N+B", "N-W", "$EVENT:E", "$START_TIME:2024/05/03 10:00:00"),
        *ranks,
        *("P+00KI00KI00FU", "P-00HI", "-", "'*hello"),
        *("-0053HI", "T7", "'*one", "'*two", "%TORYO", "T2"),
    ]


def test_time_limits_of_kif_are_written_in_numbers() -> None:
    for words, csa in [
        ("15分+30秒", "00:15+30"),
        ("1時間30分", "01:30+00"),
        ("6時間", "06:00+00"),
        ("90分", "01:30+00"),
        ("各6時間", "各6時間"),
    ]:
        assert f"$TIME_LIMIT:{csa}\n" in write_csa([GameRecord(headers={"time_limit": words})])


def test_japanese_text_is_announced_as_utf8() -> None:
    record = GameRecord(headers={"black": "先手A"})
    assert write_csa([record]).startswith("'CSA encoding=UTF-8\nV2.2\n")
    assert rewritten(record) == record
    assert write_csa([GameRecord(headers={"black": "A"})]).startswith("V2.2\n")


def test_empty_parts_between_separators_are_no_games() -> None:
    assert len(read_csa("/\nPI\n+\n/\n'only a comment\n/\n\n")) == 1


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("", 1, "no game"),
        ("V2.2\n'nothing\n/\n", 1, "no game"),
        ("PI\n+\nhello", 3, "unknown statement 'hello'"),
        ("PI\n+\n%NONSENSE", 3, "unknown ending '%NONSENSE'"),
        ("PI\n+\n+7776XX", 3, "not a move such as"),
        ("PI\n+\n+77FU", 3, "not a move such as"),
        ("PI\n+\n+7775FU", 3, "illegal move '\\+7775FU'"),
        ("PI\n+\n+5554FU", 3, "the mover has no such piece on 5e"),
        ("PI\n+\n-3334FU", 3, "the side not to move"),
        ("PI\n+\nT12", 3, "time before the first move"),
        ("PI\n+\n%TORYO\n+7776FU", 4, "after the end of the game"),
        ("PI\n+\n%TORYO\n%TORYO", 4, "ends twice"),
        ("PI\n+\n-", 3, "given twice"),
        ("PI\n+\n+7776FU\nPI", 4, "after the start"),
        ("PI\nPI\n+", 2, "PI after another position"),
        ("PI55HI\n+", 1, "where none stands"),
        ("PI82XX\n+", 1, "no piece is written 'XX'"),
        ("PI8HI\n+", 1, "no list of squares"),
        ("P2" + " * " * 9 + "\nP2" + " * " * 9, 2, "P2 is given twice"),
        ("P1" + " * " * 9 + "\n+", 1, "P2 is missing"),
        ("P1-XX" + " * " * 8 + "\n+", 1, "no piece is written '-XX'"),
        ("P1-OU\n+", 1, "9 squares of 3 characters"),
        ("P1" + "-FU" * 10 + "\n+", 1, "9 squares of 3 characters"),
        ("P+55OU55FU\n+", 1, "two pieces on 5e"),
        ("P+55OU00OU\n+", 1, "K cannot be held"),
        ("P+55FU\n+", 1, "no king"),
        ("P0\n+", 1, "unknown statement 'P0'"),
        ("$EVENT\nPI\n+", 1, "not a header"),
        ("PI\n+\n+7776FU\n/\nPI\n+\n+7775FU\n", 7, "illegal move"),
    ],
)
def test_errors_name_the_line_and_the_reason(text: str, line: int, reason: str) -> None:
    with pytest.raises(NotationError, match=reason) as caught:
        read_csa(text)
    assert caught.value.line == line
    assert str(caught.value).startswith(f"line {line}: ")


def test_a_record_with_an_illegal_move_cannot_be_written() -> None:
    with pytest.raises(IllegalMoveError, match="7g7e"):
        write_csa([GameRecord(moves=[RecordedMove("7g7e")])])
