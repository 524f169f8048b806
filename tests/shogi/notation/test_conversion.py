"""Files of games: telling formats and encodings apart, converting, and surviving bad input."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from keisei.shogi.errors import NotationError
from keisei.shogi.notation.conversion import (
    RECORD_FORMATS,
    RecordFormat,
    known_format,
    read_games,
    sniff_format,
    write_games,
)
from keisei.shogi.notation.csa_reader import read_csa
from keisei.shogi.notation.csa_writer import write_csa
from keisei.shogi.notation.kif_reader import read_kif
from keisei.shogi.notation.kif_writer import write_kif
from keisei.shogi.notation.position_lines import read_position_lines, write_sfen, write_usi
from keisei.shogi.notation.record_text import decode_record
from keisei.shogi.notation.records import Ending, GameRecord, RecordedMove
from keisei.shogi.sfen import START_SFEN

RECORDS = Path(__file__).parent / "records"
SAMPLES = sorted(path.name for path in RECORDS.iterdir())
READERS: dict[str, Callable[[str], GameRecord | list[GameRecord]]] = {
    ".kif": read_kif,
    ".kifu": read_kif,
    ".csa": read_csa,
    ".usi": read_position_lines,
    ".sfen": read_position_lines,
}


def start_and_moves(record: GameRecord) -> tuple[str, list[str]]:
    return record.start_sfen, [move.usi for move in record.moves]


def converted(record: GameRecord, record_format: RecordFormat, folder: Path) -> GameRecord:
    (path,) = write_games([record], record_format, folder / f"game.{record_format}")
    (again,) = read_games(path)
    return again


@pytest.mark.parametrize("name", SAMPLES)
def test_nothing_is_lost_within_a_format(name: str, tmp_path: Path) -> None:
    record_format = cast(RecordFormat, Path(name).suffix[1:])
    for record in read_games(RECORDS / name):
        assert converted(record, record_format, tmp_path) == record


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("record_format", ["kif", "kifu", "csa"])
def test_only_the_spelling_of_headers_changes_between_kif_and_csa(
    name: str, record_format: RecordFormat, tmp_path: Path
) -> None:
    for record in read_games(RECORDS / name):
        again = converted(record, record_format, tmp_path)
        assert again.headers.keys() == record.headers.keys()
        again.headers, again.start_sfen = record.headers, record.start_sfen
        assert again == record


@pytest.mark.parametrize("name", SAMPLES)
def test_a_game_passes_unchanged_through_all_formats(name: str, tmp_path: Path) -> None:
    with_endings: list[RecordFormat] = ["kif", "csa", "kifu"]
    with_moves_only: list[RecordFormat] = ["usi", "sfen", "kif", "csa", "usi", "kif"]
    for original in read_games(RECORDS / name):
        record = original
        for record_format in with_endings:
            record = converted(record, record_format, tmp_path)
        assert (record.moves, record.ending) == (original.moves, original.ending)
        for record_format in with_moves_only:
            record = converted(record, record_format, tmp_path)
        assert start_and_moves(record)[1] == start_and_moves(original)[1]
        # CSA has no place for the move number, the last field.
        assert record.start_sfen.split()[:3] == original.start_sfen.split()[:3]


def test_usi_lines_need_no_leading_word() -> None:
    records = read_games(RECORDS / "lines.usi")
    assert [start_and_moves(record) for record in records] == [
        (START_SFEN, ["7g7f", "3c3d", "2g2f"]),
        (START_SFEN, []),
        ("lnsgkgsnl/9/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL w - 1", ["7a6b", "7g7f"]),
        ("9/6pk1/6Pl1/5g1S1/9/9/9/9/9 b BG 1", ["B*1c", "2b1a", "G*2b"]),
    ]
    assert write_usi(records).splitlines()[:2] == [
        "position startpos moves 7g7f 3c3d 2g2f",
        "position startpos",
    ]
    assert read_position_lines(write_usi(records)) == records


def test_sfen_lines_hold_a_position_and_perhaps_moves() -> None:
    records = read_games(RECORDS / "lines.sfen")
    assert write_sfen(records).splitlines() == [
        f"{START_SFEN} moves 7g7f",
        "9/6pk1/6Pl1/5g1S1/9/9/9/9/9 b BG 1",
        "4k4/9/9/9/9/9/9/9/4K4 w RBGSNLP2p 31 moves 5a5b",
    ]
    assert read_position_lines(write_sfen(records)) == records


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("position startpos moves 7g7f 7g7f", "illegal move '2. 7g7f'"),
        ("startpos moves 7g7f xyz", "'2. xyz'"),
        ("startpos 7g7f", "startpos 7g7f"),
        ("sfen 9/9/9 b - 1", "3 ranks instead of 9"),
        ("position", "SFEN"),
        ("moves 7g7f", "SFEN"),
    ],
)
def test_a_bad_line_is_named(line: str, reason: str) -> None:
    with pytest.raises(NotationError, match=f"^line 2: .*{reason}"):
        read_position_lines(f"startpos\n{line}\n")


@pytest.mark.parametrize("name", SAMPLES)
def test_a_format_is_recognised_by_its_content(name: str, tmp_path: Path) -> None:
    unnamed = tmp_path / "game.txt"
    unnamed.write_bytes((RECORDS / name).read_bytes())
    assert read_games(unnamed) == read_games(RECORDS / name)


def test_sniffing_skips_empty_lines() -> None:
    assert sniff_format("\n\nposition startpos") == "usi"
    assert sniff_format("\r\n+7776FU\r\n") == "csa"
    assert sniff_format("'CSA encoding=UTF-8\nV3.0") == "csa"
    assert sniff_format("4k4/9/9/9/9/9/9/9/4K4 b - 1") == "sfen"
    assert sniff_format("# comment\n手合割：平手") == "kifu"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp932", "euc_jp"])
@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\r"])
def test_encodings_and_line_breaks_are_told_apart(encoding: str, line_break: str) -> None:
    text = "V2.2\nN+先手のエンジン\nN-後手\n'*角換わり\nPI\n+\n+7776FU\n"
    (record,) = read_csa(decode_record(text.replace("\n", line_break).encode(encoding)))
    assert record.headers == {"black": "先手のエンジン", "white": "後手"}
    assert record.comment == "角換わり"


def test_what_a_file_says_about_its_encoding_is_not_trusted(tmp_path: Path) -> None:
    path = tmp_path / "game.kif"
    path.write_text("#KIF version=2.0 encoding=Shift_JIS\n先手：形勢\n", encoding="utf-8")
    assert read_games(path)[0].headers == {"black": "形勢"}
    path.write_text("#KIF version=2.0 encoding=UTF-8\n先手：形勢\n", encoding="cp932")
    assert read_games(path)[0].headers == {"black": "形勢"}


def test_kif_is_shift_jis_for_windows_and_kifu_is_utf8(tmp_path: Path) -> None:
    record = GameRecord(headers={"black": "形勢"})
    write_games([record], "kif", tmp_path / "a.kif")
    write_games([record], "kifu", tmp_path / "a.kifu")
    kif = (tmp_path / "a.kif").read_bytes().decode("cp932")
    kifu = (tmp_path / "a.kifu").read_bytes().decode("utf-8")
    assert kif.startswith("#KIF version=2.0 encoding=Shift_JIS\r\n")
    assert kifu.startswith("#KIF version=2.0 encoding=UTF-8\n手合割：平手\n先手：形勢\n")


def test_characters_that_shift_jis_lacks_are_replaced_with_a_warning(tmp_path: Path) -> None:
    record = GameRecord(headers={"black": "Ivić"})
    with pytest.warns(UserWarning, match="Shift-JIS has no 'ć'"):
        write_games([record], "kif", tmp_path / "a.kif")
    assert read_games(tmp_path / "a.kif")[0].headers == {"black": "Ivi?"}
    assert converted(record, "kifu", tmp_path) == record


def test_signs_that_shift_jis_has_under_another_number_are_kept(tmp_path: Path) -> None:
    record = GameRecord(comment="〜−—")
    assert converted(record, "kif", tmp_path).comment == "～－―"


def test_several_games_become_numbered_kif_files(tmp_path: Path) -> None:
    records = read_games(RECORDS / "tournament.csa")
    paths = write_games(records, "kif", tmp_path / "league.kif")
    assert [path.name for path in paths] == ["league-1.kif", "league-2.kif", "league-3.kif"]
    assert [read_games(path)[0].moves for path in paths] == [record.moves for record in records]
    assert not (tmp_path / "league.kif").exists()


@pytest.mark.parametrize("record_format", ["csa", "usi", "sfen"])
def test_several_games_share_a_file_of_the_other_formats(
    record_format: RecordFormat, tmp_path: Path
) -> None:
    records = read_games(RECORDS / "tournament.csa")
    target = tmp_path / f"league.{record_format}"
    assert write_games(records, record_format, target) == [target]
    assert [start_and_moves(record) for record in read_games(target)] == [
        start_and_moves(record) for record in records
    ]


def test_streams_take_one_kif_game_only() -> None:
    record = GameRecord(moves=[RecordedMove("7g7f")], ending=Ending.RESIGN)
    text, data = io.StringIO(), io.BytesIO()
    assert write_games([record], "kif", text) == []
    write_games([record], "kif", data)
    assert data.getvalue().decode("cp932").replace("\r\n", "\n") == text.getvalue()
    with pytest.raises(NotationError, match="a KIF file holds one game, and these are 2"):
        write_games([record, record], "kifu", io.StringIO())


def test_nothing_to_write_and_unknown_formats_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotationError, match="no game to write"):
        write_games([], "csa", tmp_path / "a.csa")
    with pytest.raises(NotationError, match="unknown format 'pgn'; use kif, kifu, csa"):
        known_format("pgn")
    assert known_format("csa") == "csa"


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(NotationError, match=r"cannot read .*missing\.kif: No such file"):
        read_games(tmp_path / "missing.kif")
    with pytest.raises(NotationError, match="cannot read"):
        read_games(tmp_path)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "noise.kif"
    path.write_bytes("手合割：平手\n".encode() + b"\xff\xfe\x00\x80")
    with pytest.raises(NotationError, match="line 2: neither UTF-8 nor Shift-JIS nor EUC-JP"):
        read_games(path)


def read_or_refuse(data: bytes, suffix: str) -> list[GameRecord]:
    """The games, or none: reading must end in games or in a `NotationError`."""
    try:
        records = READERS[suffix](decode_record(data))
    except NotationError:
        return []
    return records if isinstance(records, list) else [records]


@st.composite
def damaged_samples(draw: st.DrawFn) -> tuple[bytes, str]:
    """A sample file with a few lines or bytes deleted, repeated, swapped or garbled."""
    path = RECORDS / draw(st.sampled_from(SAMPLES))
    lines = path.read_bytes().split(b"\n")
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(lines) - 1))
        line = lines[place]
        damage = draw(st.sampled_from(["delete", "repeat", "move", "garble", "cut", "insert"]))
        if damage == "delete":
            lines[place] = b""
        elif damage == "repeat":
            lines.insert(draw(st.integers(0, len(lines))), line)
        elif damage == "move":
            other = draw(st.integers(0, len(lines) - 1))
            lines[place], lines[other] = lines[other], line
        elif damage == "garble":
            at = draw(st.integers(0, len(line)))
            lines[place] = line[:at] + draw(st.binary(max_size=3)) + line[at + 1 :]
        elif damage == "cut":
            lines[place] = line[draw(st.integers(0, len(line))) :]
        else:
            text = draw(
                st.text("０1９二三同歩王成打()+-%TPIN'*&#|:：00FUOUAL変化まで手 \t", max_size=12)
            )
            lines.insert(place, text.encode())
    return b"\n".join(lines), path.suffix


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(damaged_samples())
def test_damaged_files_are_read_or_refused_and_never_crash(damaged: tuple[bytes, str]) -> None:
    for record in read_or_refuse(*damaged):
        assert read_kif(write_kif(record)).moves == record.moves
        assert [again.moves for again in read_csa(write_csa([record]))] == [record.moves]


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.binary(max_size=200), st.text(max_size=100).map(str.encode)))
def test_arbitrary_bytes_are_read_or_refused_and_never_crash(data: bytes) -> None:
    for suffix in READERS:
        read_or_refuse(data, suffix)


@settings(max_examples=150, deadline=None)
@example({"black": "\ufeff"}, "\ufeff", None)  # a byte order mark, but not of a file
@given(
    st.dictionaries(st.sampled_from(["black", "event", "note", "表題"]), st.text(max_size=20)),
    st.text(max_size=30),
    st.integers(0, 10**6) | st.none(),
)
def test_whatever_people_write_in_headers_and_comments_comes_back(
    headers: dict[str, str], comment: str, seconds: int | None
) -> None:
    record = GameRecord(
        moves=[RecordedMove("7g7f", seconds, comment)], headers=headers, ending=Ending.RESIGN
    )
    from_kif = read_kif(write_kif(record))
    (from_csa,) = read_csa(write_csa([record]))
    for again in (from_kif, from_csa):
        assert [move.usi for move in again.moves] == ["7g7f"]
        assert again.moves[0].seconds == seconds
        assert again.moves[0].comment.split() == comment.split()
        assert {name: value.split() for name, value in again.headers.items()} == {
            name: value.split() for name, value in headers.items() if value.strip()
        }


def test_every_format_has_a_reader_here() -> None:
    assert {f".{record_format}" for record_format in RECORD_FORMATS} == READERS.keys()
