"""Writing KIF, so that Japanese shogi programs read it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keisei.shogi.notation.ending_notes import ending_notes
from keisei.shogi.notation.kif_start import is_handicap, start_lines
from keisei.shogi.notation.kif_words import (
    FULL_WIDTH_FILES,
    KANJI_RANKS,
    NEAREST_ENDING,
    WORD_OF_ENDING,
    WORD_OF_PIECE,
)
from keisei.shogi.notation.record_headers import KIF_HEADER_NAME, KIF_NAMES, kif_value
from keisei.shogi.notation.record_replay import replay
from keisei.shogi.notation.record_text import split_lines
from keisei.shogi.notation.records import Ending, GameRecord
from keisei.shogi.notation.start_position import file_and_rank

_COLUMN_TITLES = "手数----指手---------消費時間--"
_MOVE_COLUMNS = 13
_PLAYERS = ("black", "white")
_REASONS = {
    Ending.TIME_UP: "時間切れにより",
    Ending.DEFAULT_LOSS: "不戦により",
    Ending.DEFAULT_WIN: "不戦により",
}


def write_kif(record: GameRecord) -> str:
    """The text of a KIF file; `IllegalMoveError` if the record's moves cannot be played."""
    players = ("下手", "上手") if is_handicap(record.start_sfen) else ("先手", "後手")
    lines = [
        *_header_lines(record),
        *start_lines(record.start_sfen),
        *_player_lines(record, players),
        _COLUMN_TITLES,
        *_comment_lines(record.comment),
        *_numbered_lines(record),
        *_summary_lines(record, players),
    ]
    return "".join(f"{line}\n" for line in lines)


def _header_lines(record: GameRecord) -> Iterator[str]:
    for name, value in record.headers.items():
        kif_name = KIF_NAMES.get(name, name)
        if name in _PLAYERS or not re.fullmatch(KIF_HEADER_NAME, kif_name):
            continue
        for part in split_lines(value):
            yield f"{kif_name}：{kif_value(name, part)}"


def _player_lines(record: GameRecord, players: tuple[str, str]) -> Iterator[str]:
    for player, name in zip(players, _PLAYERS, strict=True):
        for part in split_lines(record.headers.get(name, "")):
            yield f"{player}：{part}"


def _comment_lines(comment: str) -> Iterator[str]:
    for line in split_lines(comment) if comment else ():
        yield line if line.startswith("&") else f"*{line}"


def _numbered_lines(record: GameRecord) -> Iterator[str]:
    """The moves with their comments, and the ending."""
    clocks = [0, 0]
    last_square = ""
    for number, (move, mover, piece) in enumerate(replay(record), start=1):
        text = _move_text(move.usi, piece, last_square)
        yield _numbered_line(number, text, move.seconds, clocks, mover)
        yield from _comment_lines(move.comment)
        last_square = move.usi[2:4]
    if record.ending is not None:
        written = NEAREST_ENDING.get(record.ending, record.ending)
        yield from _comment_lines("\n".join(ending_notes(record, written)))
        word, number = WORD_OF_ENDING[written], len(record.moves) + 1
        yield _numbered_line(number, word, record.ending_seconds, clocks, record.mover)
    yield from _comment_lines(record.ending_comment)


def _numbered_line(
    number: int, text: str, seconds: int | None, clocks: list[int], mover: int
) -> str:
    """A line such as `   1 ７六歩(77)   ( 0:16/00:00:16)`; `clocks` are the times used so far."""
    if seconds is None:
        return f"{number:4} {text}"
    clocks[mover] += seconds
    minutes, total_minutes = seconds // 60, clocks[mover] // 60
    padding = " " * (_MOVE_COLUMNS - sum(1 if char.isascii() else 2 for char in text))
    total = f"{total_minutes // 60:02}:{total_minutes % 60:02}:{clocks[mover] % 60:02}"
    return f"{number:4} {text}{padding}({minutes:2}:{seconds % 60:02}/{total})"


def _move_text(usi: str, piece: str, last_square: str) -> str:
    file, rank = file_and_rank(usi[2:4])
    square = FULL_WIDTH_FILES[file - 1] + KANJI_RANKS[rank - 1]
    if usi[1] == "*":
        return f"{square}{WORD_OF_PIECE[piece]}打"
    where = "同　" if usi[2:4] == last_square else square
    source_file, source_rank = file_and_rank(usi)
    promotion = "成" if usi.endswith("+") else ""
    return f"{where}{WORD_OF_PIECE[piece]}{promotion}({source_file}{source_rank})"


def _summary_lines(record: GameRecord, players: tuple[str, str]) -> Iterator[str]:
    """The line まで… that closes a finished game."""
    if record.ending is None:
        return
    written = NEAREST_ENDING.get(record.ending, record.ending)
    result = WORD_OF_ENDING[written]
    if written in (Ending.ILLEGAL_MOVE, Ending.FOUL_WIN, Ending.DECLARATION_WIN):
        result = f"{players[record.mover]}の{result}"
    elif record.winner is not None:
        result = f"{_REASONS.get(written, '')}{players[record.winner]}の勝ち"
    yield f"まで{len(record.moves)}手で{result}"
