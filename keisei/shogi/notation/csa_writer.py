"""Writing CSA (version 2.2)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from keisei.shogi.notation.csa_start import start_lines
from keisei.shogi.notation.csa_words import (
    ILLEGAL_ACTION,
    NEAREST_ENDING,
    SIGNS,
    WORD_OF_ENDING,
    WORD_OF_PIECE,
)
from keisei.shogi.notation.ending_notes import ending_notes
from keisei.shogi.notation.record_headers import CSA_HEADER_NAME, CSA_NAMES, csa_value
from keisei.shogi.notation.record_replay import replay
from keisei.shogi.notation.record_text import split_lines
from keisei.shogi.notation.records import Ending, GameRecord
from keisei.shogi.notation.start_position import file_and_rank

_PLAYER_MARKS = {"black": "N+", "white": "N-"}


def write_csa(records: Iterable[GameRecord]) -> str:
    """The text of a CSA file; `IllegalMoveError` if a record's moves cannot be played."""
    text = "/\n".join("".join(f"{line}\n" for line in _game_lines(record)) for record in records)
    # Without this line a reader of version 3 takes the file for Shift-JIS; others skip it.
    return text if text.isascii() else f"'CSA encoding=UTF-8\n{text}"


def _game_lines(record: GameRecord) -> Iterator[str]:
    yield "V2.2"
    yield from _header_lines(record)
    yield from start_lines(record.start_sfen)
    yield from _comment_lines(record.comment)
    for move, mover, piece in replay(record):
        yield _move_text(move.usi, mover, piece)
        yield from _time_lines(move.seconds)
        yield from _comment_lines(move.comment)
    if record.ending is not None:
        yield from _ending_lines(record, record.ending)
    yield from _comment_lines(record.ending_comment)


def _header_lines(record: GameRecord) -> Iterator[str]:
    for player, mark in _PLAYER_MARKS.items():
        if name := record.headers.get(player):
            yield from (f"{mark}{part}" for part in split_lines(name))
    for name, value in record.headers.items():
        csa_name = CSA_NAMES.get(name, name)
        if name not in _PLAYER_MARKS and re.fullmatch(CSA_HEADER_NAME, csa_name):
            yield from (f"${csa_name}:{csa_value(name, part)}" for part in split_lines(value))


def _comment_lines(comment: str) -> Iterator[str]:
    yield from (f"'*{line}" for line in (split_lines(comment) if comment else ()))


def _time_lines(seconds: int | None) -> Iterator[str]:
    if seconds is not None:
        yield f"T{seconds}"


def _move_text(usi: str, mover: int, piece: str) -> str:
    """A move as CSA writes it: with the piece as it stands afterwards."""
    source = "00" if usi[1] == "*" else _digits(usi[:2])
    letters = "+" + piece if usi.endswith("+") else piece
    return f"{SIGNS[mover]}{source}{_digits(usi[2:4])}{WORD_OF_PIECE[letters]}"


def _digits(square: str) -> str:
    return "".join(str(number) for number in file_and_rank(square))


def _ending_lines(record: GameRecord, ending: Ending) -> Iterator[str]:
    written = NEAREST_ENDING.get(ending, ending)
    yield from _comment_lines("\n".join(ending_notes(record, written)))
    if written in (Ending.FOUL_LOSS, Ending.FOUL_WIN):
        offender = record.mover if written is Ending.FOUL_LOSS else 1 - record.mover
        yield f"%{SIGNS[offender]}{ILLEGAL_ACTION}"
    else:
        yield WORD_OF_ENDING[written]
    yield from _time_lines(record.ending_seconds)
