"""KIF: what the reader understands and refuses, and what the writer's text looks like."""

from __future__ import annotations

from pathlib import Path

import pytest

from keisei.shogi.errors import IllegalMoveError, NotationError
from keisei.shogi.notation.conversion import read_games
from keisei.shogi.notation.kif_reader import read_kif
from keisei.shogi.notation.kif_words import ENDING_OF_WORD, HANDICAPS
from keisei.shogi.notation.kif_writer import write_kif
from keisei.shogi.notation.records import Ending, GameRecord, RecordedMove
from keisei.shogi.sfen import START_SFEN

RECORDS = Path(__file__).parent / "records"
ONE_KING = "9/6pk1/6Pl1/5g1S1/9/9/9/9/9 b BG 1"
ROW_NAMES = "一二三四五六七八九"


def game_of(*lines: str) -> GameRecord:
    return read_kif("手合割：平手\n" + "\n".join(lines))


def usi_moves(record: GameRecord) -> list[str]:
    return [move.usi for move in record.moves]


def diagram(*rows: str, black: str = "なし", white: str = "なし", last: str = "") -> str:
    """A KIF text that starts from a diagram whose other ranks are empty."""
    ranks = [*rows, *[" ・" * 9] * (9 - len(rows))]
    board = "\n".join(f"|{rank}|{name}" for rank, name in zip(ranks, ROW_NAMES, strict=True))
    return f"後手の持駒：{white}\n{board}\n先手の持駒：{black}\n{last}"


@pytest.fixture
def even_game() -> GameRecord:
    (record,) = read_games(RECORDS / "even.kif")
    return record


def test_headers_get_neutral_names_and_unknown_ones_keep_theirs(even_game: GameRecord) -> None:
    assert even_game.headers == {
        "start_time": "2024/05/03(金) 10:00:00",
        "end_time": "2024/05/03(金) 10:31:07",
        "event": "第1回形勢杯",
        "site": "研究室",
        "time_limit": "15分+30秒",
        "表題": "横歩の練習",
        "black": "先手A",
        "white": "後手B",
    }


def test_only_the_main_line_is_read(even_game: GameRecord) -> None:
    assert even_game.start_sfen == START_SFEN
    assert " ".join(usi_moves(even_game)) == (
        "7g7f 3c3d 2g2f 8c8d 2f2e 8d8e 6i7h 4a3b 2e2d 2c2d 2h2d 8e8f 8g8f 8b8f 2d3d 2b3c 3d3f "
        "3a2b P*8g 8f8e 3f2f 5a4a"
    )
    assert even_game.ending is Ending.RESIGN
    assert even_game.winner == 1


def test_times_comments_and_bookmarks_belong_to_the_line_before_them(
    even_game: GameRecord,
) -> None:
    assert even_game.comment == "対局前のコメント\n二行目"
    assert even_game.moves[0] == RecordedMove("7g7f", seconds=16)
    assert even_game.moves[2] == RecordedMove("2g2f", seconds=4, comment="飛車先を突く。")
    assert even_game.moves[8] == RecordedMove("2e2d", seconds=11, comment="&急所")
    assert even_game.moves[14].seconds == 105
    assert even_game.ending_seconds == 62 * 60 + 3
    assert even_game.ending_comment == "潔い。"


def test_a_handicap_game_begins_with_white() -> None:
    (record,) = read_games(RECORDS / "handicap.kifu")
    assert record.start_sfen == HANDICAPS["二枚落ち"]
    assert record.headers == {"start_time": "2024/06/01", "black": "Keisei", "white": "上手C"}
    assert usi_moves(record)[:2] == ["7a6b", "7g7f"]
    assert record.moves[0].seconds is None
    assert record.winner == 0


@pytest.mark.parametrize(("name", "sfen"), HANDICAPS.items())
def test_every_handicap_is_read_and_written_by_name(name: str, sfen: str) -> None:
    assert read_kif(f"手合割：{name}\n").start_sfen == sfen
    assert f"手合割：{name}\n" in write_kif(GameRecord(sfen))


def test_players_of_a_handicap_game_are_called_lower_and_upper() -> None:
    text = write_kif(GameRecord(HANDICAPS["角落ち"], headers={"black": "弟子", "white": "師匠"}))
    assert "下手：弟子\n上手：師匠\n" in text
    assert read_kif(text).headers == {"black": "弟子", "white": "師匠"}


def test_a_problem_with_one_king_and_few_pieces_is_a_game() -> None:
    (record,) = read_games(RECORDS / "mate_problem.kif")
    assert record.start_sfen == ONE_KING
    assert usi_moves(record) == ["B*1c", "2b1a", "G*2b"]
    assert record.ending is Ending.CHECKMATE
    assert record.headers == {"作品名": "試作", "作者": "作者D"}


def test_an_illegal_last_move_is_kept_apart_from_the_moves() -> None:
    (record,) = read_games(RECORDS / "two_pawns.kif")
    assert len(record.moves) == 12
    assert record.ending is Ending.ILLEGAL_MOVE
    assert record.illegal_move == "P*9f"
    assert record.ending_seconds == 9
    assert record.ending_comment == "二歩"
    assert record.winner == 1
    assert read_kif(write_kif(record)) == record


@pytest.mark.parametrize("word", ["反則負け", "反則勝ち", "反則手"])
def test_whoever_played_an_illegal_move_lost_however_the_foul_is_called(word: str) -> None:
    record = game_of("1 ７六歩(77)", "2 ５五金(61)", f"3 {word}")
    assert (record.ending, record.illegal_move, record.winner) == (
        Ending.ILLEGAL_MOVE,
        "6a5e",
        0,
    )


def test_the_foul_may_be_told_by_the_summary_alone() -> None:
    for summary in ("まで2手で後手の反則負け", "まで2手で先手の反則勝ち"):
        record = game_of("1 ７六歩(77)", "2 ５五金(61)", summary)
        assert (record.ending, record.illegal_move) == (Ending.ILLEGAL_MOVE, "6a5e")


def test_an_illegal_move_that_is_not_called_a_foul_is_an_error() -> None:
    for rest in ([], ["3 投了"], ["3 ２六歩(27)"]):
        with pytest.raises(NotationError, match="line 3: illegal move '５五金\\(61\\)'"):
            game_of("1 ７六歩(77)", "2 ５五金(61)", *rest)


@pytest.mark.parametrize(
    "line",
    [
        "   1 ７六歩(77)   ( 0:16/00:00:16)",
        "   1 ７六歩(77)   ( 0:16/00:00:16)+",
        "1 7六歩(77) (0:16/0:0:16)",
        "1 76歩(77) ( 0:16)",
        "１　７六歩（７７）　( 0:16/00:00:16)",
        "1 ▲７六歩(77) (00:00:16/00:00:16)",
        "1 ７六歩(77) ( 0:16.5/00:00:16.5)",
        "1 ７六歩不成(77) ( 0:16/00:00:16)",
    ],
)
def test_moves_are_read_in_all_their_spellings(line: str) -> None:
    assert game_of(line).moves == [RecordedMove("7g7f", 16)]


@pytest.mark.parametrize(
    ("drawn", "words"),
    [
        *(("全", ["全", "成銀"]), ("圭", ["圭", "成桂"]), ("杏", ["杏", "成香"]), ("と", ["と"])),
        *(("龍", ["龍", "竜"]), ("竜", ["龍", "竜"]), ("馬", ["馬"]), ("王", ["王", "玉"])),
    ],
)
def test_pieces_are_read_by_all_their_names(drawn: str, words: list[str]) -> None:
    start = diagram("v玉" + " ・" * 8, " ・" * 9, f" ・ ・ ・ ・ {drawn} ・ ・ ・ ・")
    for word in words:
        assert usi_moves(read_kif(f"{start}1 ５二{word}(53)")) == ["5c5b"]


def test_captures_promotions_and_drops() -> None:
    record = game_of(
        "1 ７六歩(77)", "2 ３四歩(33)", "3 ２二角成(88)", "4 同　銀(31)", "5 ４五角打", "6 ５五角打"
    )
    assert usi_moves(record) == ["7g7f", "3c3d", "8h2b+", "3a2b", "B*4e", "B*5e"]
    assert read_kif(write_kif(record)).moves == record.moves


def test_hands_of_a_diagram_are_counted() -> None:
    record = read_kif(
        diagram(
            " ・ ・ ・ ・v玉 ・ ・ ・ ・",
            black="飛　金二　歩十八　",
            white="角２ 銀",
            last="後手番",
        )
    )
    assert record.start_sfen == "4k4/9/9/9/9/9/9/9/9 w R2G18P2bs 1"
    assert read_kif(write_kif(record)) == record


def test_a_diagram_may_say_how_many_moves_were_played_before_it() -> None:
    start = "4k4/9/9/9/9/9/9/9/4K4 w - 72"
    text = write_kif(GameRecord(start))
    assert "手数＝71\n" in text
    assert read_kif(text).start_sfen == start
    shown = diagram("v玉" + " ・" * 8, last="手数＝71  ▲５九玉  まで\n後手番\n")
    assert read_kif(shown).start_sfen.endswith(" w - 72")


def test_moves_stand_in_the_columns_of_the_format() -> None:
    record = game_of(
        "1 ７六歩(77) ( 0:16/)", "2 ３四歩(33) ( 1:05/)", "3 ２二角成(88) (60:00/)",
        "4 同　銀(31) ( 0:01/)", "5 ４五角打 ( 0:00/)", "6 投了 ( 0:09/)",
    )  # fmt: skip
    assert write_kif(record).split("消費時間--\n")[1] == (
        "   1 ７六歩(77)   ( 0:16/00:00:16)\n"
        "   2 ３四歩(33)   ( 1:05/00:01:05)\n"
        "   3 ２二角成(88) (60:00/01:00:16)\n"
        "   4 同　銀(31)   ( 0:01/00:01:06)\n"
        "   5 ４五角打     ( 0:00/01:00:16)\n"
        "   6 投了         ( 0:09/00:01:15)\n"
        "まで5手で先手の勝ち\n"
    )


def test_a_diagram_is_drawn_as_programs_draw_it() -> None:
    text = write_kif(GameRecord("4k4/9/9/9/9/9/4+P4/4K4/8+r w 2G17Pb 1"))
    assert text.startswith(
        "後手の持駒：角\n"
        "  ９ ８ ７ ６ ５ ４ ３ ２ １\n"
        "+---------------------------+\n"
        "| ・ ・ ・ ・v玉 ・ ・ ・ ・|一\n"
    )
    assert "| ・ ・ ・ ・ と ・ ・ ・ ・|七\n" in text
    assert "| ・ ・ ・ ・ 玉 ・ ・ ・ ・|八\n| ・ ・ ・ ・ ・ ・ ・ ・v龍|九\n" in text
    assert "+\n先手の持駒：金二　歩十七\n後手番\n先手：\n後手：\n" in text


@pytest.mark.parametrize(("word", "ending"), ENDING_OF_WORD.items())
def test_every_ending_is_read(word: str, ending: Ending) -> None:
    record = game_of("1 ７六歩(77)", f"2 {word} ( 0:03/00:00:03)")
    assert (record.ending, record.ending_seconds) == (ending, 3)


@pytest.mark.parametrize("ending", Ending)
def test_every_ending_survives_being_written(ending: Ending) -> None:
    record = GameRecord(moves=[RecordedMove("7g7f", 1, "a comment")], ending=ending)
    assert read_kif(write_kif(record)) == record
    without_moves = GameRecord(ending=ending, ending_seconds=5)
    assert read_kif(write_kif(without_moves)) == without_moves


@pytest.mark.parametrize(
    ("ending", "summary"),
    [
        (Ending.RESIGN, "まで1手で先手の勝ち"),
        (Ending.TIME_UP, "まで1手で時間切れにより先手の勝ち"),
        (Ending.ILLEGAL_MOVE, "まで1手で後手の反則負け"),
        (Ending.FOUL_WIN, "まで1手で後手の反則勝ち"),
        (Ending.DECLARATION_WIN, "まで1手で後手の入玉勝ち"),
        (Ending.REPETITION, "まで1手で千日手"),
        (Ending.MAX_MOVES, "まで1手で持将棋"),
        (Ending.ABORT, "まで1手で中断"),
        (Ending.NO_MATE, "まで1手で不詰"),
        (Ending.DEFAULT_LOSS, "まで1手で不戦により先手の勝ち"),
        (Ending.DEFAULT_WIN, "まで1手で不戦により後手の勝ち"),
    ],
)
def test_the_last_line_sums_the_game_up(ending: Ending, summary: str) -> None:
    record = GameRecord(moves=[RecordedMove("7g7f")], ending=ending)
    assert write_kif(record).endswith(f"\n{summary}\n")
    without_a_line_for_the_ending = f"手合割：平手\n1 ７六歩(77)\n{summary}\n"
    expected = Ending.IMPASSE if ending is Ending.MAX_MOVES else ending
    assert read_kif(without_a_line_for_the_ending).ending is expected


def test_a_game_without_ending_has_no_summary() -> None:
    assert "まで" not in write_kif(GameRecord(moves=[RecordedMove("7g7f")]))


def test_time_limits_of_csa_become_words() -> None:
    for csa, words in [
        ("00:15+10", "15分+10秒"),
        ("01:30+00", "1時間30分"),
        ("02:00+60", "2時間+60秒"),
    ]:
        text = write_kif(GameRecord(headers={"time_limit": csa}))
        assert f"持ち時間：{words}\n" in text


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("", 1, "no game"),
        ("# nothing\n*but a comment", 1, "no game"),
        ("手合割：半分落ち", 1, "unknown handicap '半分落ち'"),
        ("手合割：その他\n1 ７六歩(77)", 1, "needs a diagram"),
        ("手合割：平手\n???", 2, "neither a header nor a move"),
        ("手合割：平手\n1 ７六歩(77)\n７七歩(76)", 3, "neither a move nor a comment"),
        ("手合割：平手\n1 ７六猫(77)", 2, "neither a move nor an ending"),
        ("手合割：平手\n1 ７六歩", 2, "needs either 打 or the square"),
        ("手合割：平手\n1 ７六歩打(77)", 2, "needs either 打 or the square"),
        ("手合割：平手\n1 ７六玉打", 2, "K\\*7f"),
        ("手合割：平手\n1 同　歩(77)", 2, "there is none"),
        ("手合割：平手\n1 ７五歩(77)", 2, "illegal move '７五歩\\(77\\)'"),
        ("手合割：平手\n1 ７六銀(77)", 2, "the mover has no such piece on 7g"),
        ("手合割：平手\n1 ７六歩(77)\n3 ３四歩(33)", 3, "move 2 expected, but this is move 3"),
        ("手合割：平手\n1 投了\n2 ７六歩(77)", 3, "after the end of the game"),
        ("手合割：平手\n1 投了\n2 投了", 3, "ends twice"),
        (diagram("v玉 ・"), 2, "rank 1 of the diagram does not have 9 squares"),
        (diagram("v猫" + " ・" * 8), 2, "no piece 'v猫'"),
        (diagram("x玉" + " ・" * 8), 2, "no piece 'x玉'"),
        (diagram(" ・" * 9), 11, "no king"),
        (diagram("v玉" + " ・" * 8, black="歩百"), 11, "in hand '歩百' are unreadable"),
        (diagram("v玉" + " ・" * 8, black="歩二二"), 11, "'二二' is no number of pieces"),
        (diagram("v玉" + " ・" * 8, black="歩十九"), 11, "19 P"),
        ("|v玉 ・ ・ ・ ・ ・ ・ ・ ・|一\n1 ７六歩(77)", 1, "has 1 ranks instead of 9"),
        ("|v玉 ・ ・ ・ ・ ・ ・ ・ ・|二", 1, "out of order"),
    ],
)
def test_errors_name_the_line_and_the_reason(text: str, line: int, reason: str) -> None:
    with pytest.raises(NotationError, match=reason) as caught:
        read_kif(text)
    assert caught.value.line == line
    assert str(caught.value).startswith(f"line {line}: ")


def test_a_record_with_an_illegal_move_cannot_be_written() -> None:
    with pytest.raises(IllegalMoveError, match="7g7e"):
        write_kif(GameRecord(moves=[RecordedMove("7g7e")]))


def test_headers_that_would_be_taken_for_something_else_are_not_written() -> None:
    record = GameRecord(headers={"手合割": "二枚落ち", "変化": "9手", "1 投了": "x", "備 考": "y"})
    assert read_kif(write_kif(record)) == GameRecord()


def test_values_and_comments_of_several_lines_are_kept() -> None:
    record = GameRecord(headers={"note": "one\ntwo"}, comment="a\n\nb\n&mark\n*c")
    assert read_kif(write_kif(record)) == record


def test_games_longer_than_any_move_limit_are_read() -> None:
    shuffle = ["2h3h", "8b7b", "3h2h", "7b8b"] * 150
    record = GameRecord(moves=[RecordedMove(move) for move in shuffle])
    assert read_kif(write_kif(record)) == record
