"""Games as single lines: USI `position` commands, and SFENs followed by moves.

Such a line holds the start and the moves; headers, times, comments and the ending have no place.
"""

from __future__ import annotations

from collections.abc import Iterable

from keisei.shogi.errors import NotationError
from keisei.shogi.notation.record_builder import RecordBuilder
from keisei.shogi.notation.record_text import errors_at, numbered_lines
from keisei.shogi.notation.records import GameRecord
from keisei.shogi.sfen import START_SFEN


def read_position_lines(text: str) -> list[GameRecord]:
    """The games in a text, one a line: `[position] startpos|[sfen] SFEN [moves 7g7f …]`."""
    records = [_read_line(words, line) for line, words in _lines_with_words(text)]
    if not records:
        raise NotationError("there is no game in this text", line=1)
    return records


def _lines_with_words(text: str) -> list[tuple[int, list[str]]]:
    return [(line, content.split()) for line, content in numbered_lines(text) if content.strip()]


def _read_line(words: list[str], line: int) -> GameRecord:
    if words[0] == "position":
        words = words[1:]
    start, moves = words, []
    if "moves" in words:
        start, moves = words[: words.index("moves")], words[words.index("moves") + 1 :]
    builder = RecordBuilder()
    with errors_at(line):
        builder.begin(_start_sfen(start))
        for number, move in enumerate(moves, start=1):
            builder.play(move, text=f"{number}. {move}", line=line)
    return builder.finish()


def _start_sfen(words: list[str]) -> str:
    if words == ["startpos"]:
        return START_SFEN
    return " ".join(words[1:] if words[:1] == ["sfen"] else words)


def write_usi(records: Iterable[GameRecord]) -> str:
    """One `position` command a line."""
    return "".join(f"position {_usi_start(record)}{_moves(record)}\n" for record in records)


def write_sfen(records: Iterable[GameRecord]) -> str:
    """One SFEN a line, followed by `moves …` where moves were played."""
    return "".join(f"{record.start_sfen}{_moves(record)}\n" for record in records)


def _usi_start(record: GameRecord) -> str:
    return "startpos" if record.start_sfen == START_SFEN else f"sfen {record.start_sfen}"


def _moves(record: GameRecord) -> str:
    return "".join([" moves", *(f" {move.usi}" for move in record.moves)]) if record.moves else ""
