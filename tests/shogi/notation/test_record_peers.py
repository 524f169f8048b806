"""Random games through our writers and other programs' readers, and the other way round."""

from __future__ import annotations

import random
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from keisei.shogi.notation.conversion import RecordFormat, read_games, write_games
from keisei.shogi.notation.csa_reader import read_csa
from keisei.shogi.notation.csa_writer import write_csa
from keisei.shogi.notation.kif_reader import read_kif
from keisei.shogi.notation.kif_words import HANDICAPS
from keisei.shogi.notation.kif_writer import write_kif
from keisei.shogi.notation.records import Ending, GameRecord, RecordedMove
from keisei.shogi.sfen import START_SFEN
from keisei.shogi.shogi_game import ShogiGame

cshogi = pytest.importorskip("cshogi")
CSA = pytest.importorskip("cshogi.CSA")
KIF = pytest.importorskip("cshogi.KIF")

# cshogi does not know the two handicaps of seven pieces.
SHARED_HANDICAPS = {name: sfen for name, sfen in HANDICAPS.items() if "七枚" not in name}
DIAGRAMS = [
    "ln1g5/1r2S1k2/p2pppn2/2ps2p2/1p7/2P6/PPSPPPPLP/2G2K1pr/LN4G1b w BGSLPnp 1",
    "lnsgk2nl/1r4gs1/p1pppp1pp/6p2/1p5P1/2P6/PPSPPPP1P/7R1/LN1GKGSNL b Bb 1",
    "l2+P5/2k2+L+S2/p1p1p4/3+B2+n+r1/9/1P1p2+p1p/P1N1P3P/1S1G1S3/LN1GK3+b b RGSNL2P2p 1",
    "4k4/9/9/9/9/9/9/9/9 b 2R2B4G4S4N4L18P 1",
]


def random_record(start_sfen: str, seed: int, *, longest: int = 120) -> GameRecord:
    """A game of random moves with times and comments, and the ending that fits."""
    dice = random.Random(seed)
    game = ShogiGame(start_sfen, max_moves=None)
    record = GameRecord(start_sfen, headers={"black": "先手A", "white": "後手B"})
    for ply in range(dice.randint(1, longest)):
        legal = game.legal_moves()
        if not legal:
            break
        move = dice.choice([move for move in legal if move.endswith("+")] or legal)
        game.make_move(move)
        comment = f"{ply + 1}手目\n二行目" if dice.random() < 0.1 else ""
        record.moves.append(RecordedMove(move, dice.randint(0, 4000), comment))
    record.ending = Ending.RESIGN if game.legal_moves() else Ending.CHECKMATE
    record.ending_seconds = dice.randint(0, 100)
    return record


RANDOM_RECORDS = [
    random_record(start, seed)
    for seed, start in enumerate([START_SFEN] * 10 + list(SHARED_HANDICAPS.values()) + DIAGRAMS * 2)
]


def usi_moves(record: GameRecord) -> list[str]:
    return [move.usi for move in record.moves]


def cshogi_moves(record: GameRecord) -> list[int]:
    """The record's moves as numbers of cshogi."""
    board = cshogi.Board(record.start_sfen)
    moves = []
    for move in record.moves:
        moves.append(board.move_from_usi(move.usi))
        board.push(moves[-1])
    return moves


def assert_same_game(parsed: Any, record: GameRecord) -> None:
    """Check that a parser of cshogi saw the same game."""
    assert ShogiGame(parsed.sfen).sfen() == record.start_sfen
    moves = [cshogi.move_to_usi(move) for move in parsed.moves]
    assert moves == usi_moves(record)
    times = [*(move.seconds for move in record.moves), record.ending_seconds]
    assert parsed.times == times
    assert parsed.names == ["先手A", "後手B"]


def test_the_random_games_cover_promoted_pieces_and_drops() -> None:
    written = "".join(write_kif(record) for record in RANDOM_RECORDS)
    for word in ["同　", "打", "成(", "と(", "杏(", "圭(", "全(", "馬(", "龍("]:
        assert word in written


def test_random_games_survive_every_format(tmp_path: Path) -> None:
    for record in RANDOM_RECORDS:
        assert read_kif(write_kif(record)) == record
        assert read_csa(write_csa([record])) == [record]
    line_formats: list[RecordFormat] = ["usi", "sfen"]
    for record_format in line_formats:
        path = tmp_path / f"games.{record_format}"
        write_games(RANDOM_RECORDS, record_format, path)
        read = read_games(path)
        assert [usi_moves(record) for record in read] == [usi_moves(r) for r in RANDOM_RECORDS]
        assert [r.start_sfen for r in read] == [r.start_sfen for r in RANDOM_RECORDS]


@pytest.mark.parametrize("record_format", ["kif", "kifu"])
def test_cshogi_reads_our_kif_files(record_format: RecordFormat, tmp_path: Path) -> None:
    # Its reader passes over diagrams, even those of its own exporter.
    for record in (r for r in RANDOM_RECORDS if r.start_sfen not in DIAGRAMS):
        path = tmp_path / f"game.{record_format}"
        write_games([record], record_format, path)
        parsed = KIF.Parser.parse_file(str(path))
        assert_same_game(parsed, record)
        assert parsed.win == (1 if record.winner == 0 else 2)
        assert parsed.endgame == "%TORYO"


def test_rsshogi_reads_our_diagrams() -> None:
    record_class = pytest.importorskip("rsshogi.record").Record
    for record in (r for r in RANDOM_RECORDS if r.start_sfen in DIAGRAMS):
        for parsed in (
            record_class.from_kif_str(write_kif(record)),
            record_class.from_csa_str(write_csa([record])),
        ):
            assert ShogiGame(parsed.init_position_sfen).sfen() == record.start_sfen
            assert parsed.to_usi_position().endswith(" ".join(["moves", *usi_moves(record)]))
            assert str(parsed.result) == ("BLACK_WIN" if record.winner == 0 else "WHITE_WIN")


def test_cshogi_reads_our_csa_files(tmp_path: Path) -> None:
    write_games(RANDOM_RECORDS, "csa", tmp_path / "games.csa")
    all_parsed = CSA.Parser.parse_file(str(tmp_path / "games.csa"), encoding="utf-8")
    for parsed, record in zip(all_parsed, RANDOM_RECORDS, strict=True):
        assert_same_game(parsed, record)
        assert parsed.endgame == ("%TORYO" if record.ending is Ending.RESIGN else "%TSUMI")


@pytest.mark.parametrize("ending", [e for e in Ending if e is not Ending.FOUL_LOSS])
def test_cshogi_sees_the_same_winner_in_our_csa_files(ending: Ending) -> None:
    record = GameRecord(moves=[RecordedMove("7g7f")], ending=ending)
    (parsed,) = CSA.Parser.parse_str(write_csa([record]))
    has_no_word_in_csa = ending in (Ending.DEFAULT_LOSS, Ending.DEFAULT_WIN, Ending.CHECKMATE)
    expected = None if has_no_word_in_csa else record.winner
    assert parsed.win == {None: 0, 0: 1, 1: 2}[expected]


def test_we_read_the_kif_files_of_cshogi(tmp_path: Path) -> None:
    names_by_start = {sfen: name for name, sfen in SHARED_HANDICAPS.items()}
    for record in RANDOM_RECORDS:
        exporter = KIF.Exporter(str(tmp_path / "game.kif"))
        start = names_by_start.get(record.start_sfen) or cshogi.Board(record.start_sfen)
        exporter.header(["先手A", "後手B"], starttime=datetime(2024, 5, 3), handicap=start)
        for move, recorded in zip(cshogi_moves(record), record.moves, strict=True):
            exporter.move(move, sec=recorded.seconds)
        exporter.end("resign", sec=record.ending_seconds)
        exporter.close()
        (read,) = read_games(tmp_path / "game.kif")
        assert (read.start_sfen, usi_moves(read)) == (record.start_sfen, usi_moves(record))
        assert [m.seconds for m in read.moves] == [m.seconds for m in record.moves]
        assert (read.ending, read.ending_seconds) == (Ending.RESIGN, record.ending_seconds)
        assert (read.headers["black"], read.headers["white"]) == ("先手A", "後手B")


def test_we_read_the_csa_files_of_cshogi(tmp_path: Path) -> None:
    for record in RANDOM_RECORDS:
        exporter = CSA.Exporter(str(tmp_path / "game.csa"))
        board = cshogi.Board(record.start_sfen)
        exporter.info(board, names=["先手A", "後手B"], var_info={"EVENT": "試合"}, version="V2.2")
        for move, recorded in zip(cshogi_moves(record), record.moves, strict=True):
            exporter.move(move, time=recorded.seconds, sep=",")
        exporter.endgame("%TORYO", record.ending_seconds)
        exporter.close()
        (read,) = read_games(tmp_path / "game.csa")
        assert (read.start_sfen, usi_moves(read)) == (record.start_sfen, usi_moves(record))
        assert [m.seconds for m in read.moves] == [m.seconds for m in record.moves]
        assert (read.ending, read.ending_seconds) == (Ending.RESIGN, record.ending_seconds)
        assert read.headers == {"black": "先手A", "white": "後手B", "event": "試合"}


def test_handicaps_are_the_positions_that_cshogi_has() -> None:
    for name, sfen in SHARED_HANDICAPS.items():
        assert KIF.Parser.HANDYCAP_SFENS[name] == sfen
