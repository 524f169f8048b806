"""Reading and writing files of games, whatever their format.

    records = read_games(Path("game.kif"))
    write_games(records, "csa", Path("game.csa"))

What a format cannot hold is lost: `usi` and `sfen` keep the start and the moves only.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, Literal, TextIO, cast, get_args

from keisei.shogi.errors import NotationError
from keisei.shogi.notation.csa_reader import read_csa
from keisei.shogi.notation.csa_writer import write_csa
from keisei.shogi.notation.kif_reader import read_kif
from keisei.shogi.notation.kif_writer import write_kif
from keisei.shogi.notation.position_lines import read_position_lines, write_sfen, write_usi
from keisei.shogi.notation.record_text import decode_record, numbered_lines
from keisei.shogi.notation.records import GameRecord

RecordFormat = Literal["kif", "kifu", "csa", "usi", "sfen"]
RECORD_FORMATS: tuple[RecordFormat, ...] = get_args(RecordFormat)

# The same signs under other numbers: those on the left are not in Microsoft's Shift-JIS.
_SHIFT_JIS_TWINS = str.maketrans("〜−—‖", "～－―∥")
_SFEN_LINE = re.compile(r"(?:sfen\s+)?[1-9+a-zA-Z]+(?:/[1-9+a-zA-Z]+){8}\s+[bw]\s.*")
_CSA_LINE = re.compile(r"V\d.*|N[+-].*|\$\w+:.*|'.*|P[I1-9+-].*|[+-](?:\d{4}[A-Z]{2}.*)?")


def known_format(name: str) -> RecordFormat:
    """The format of that name."""
    if name not in RECORD_FORMATS:
        raise NotationError(f"unknown format {name!r}; use {', '.join(RECORD_FORMATS)}")
    return name


def read_games(path: str | Path) -> list[GameRecord]:
    """The games in a file; the format follows its name, or what it holds if the name tells nothing.

    Whatever is wrong with the file is a `NotationError` that says what and where.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise NotationError(f"cannot read {path}: {error.strerror or error}") from error
    text = decode_record(data)
    suffix = path.suffix.lower().removeprefix(".")
    record_format = suffix if suffix in RECORD_FORMATS else sniff_format(text)
    return _READERS[record_format](text)


def sniff_format(text: str) -> RecordFormat:
    """The format of a text, told by its first line that is not empty or skipped by all formats."""
    lines = (line.strip() for _, line in numbered_lines(text))
    first = next((line for line in lines if line and not line.startswith("#")), "")
    if first.split()[:1] in (["position"], ["startpos"]):
        return "usi"
    if _SFEN_LINE.fullmatch(first):
        return "sfen"
    return "csa" if _CSA_LINE.fullmatch(first) else "kifu"


def write_games(
    records: Sequence[GameRecord],
    record_format: RecordFormat,
    target: str | Path | TextIO | BinaryIO,
) -> list[Path]:
    """Write games to a file or a stream; the paths written.

    A KIF file holds one game: several go to `NAME-1.kif`, `NAME-2.kif` and so on.
    """
    if not records:
        raise NotationError("there is no game to write")
    texts = _texts(records, record_format)
    if not isinstance(target, str | Path):
        _write_to_stream(texts, record_format, target)
        return []
    paths = _paths(Path(target), record_format, len(texts))
    for path, text in zip(paths, texts, strict=True):
        _replace(path, _encode(text, record_format))
    return paths


def _replace(path: Path, data: bytes) -> None:
    """Write a file whole or not at all: a full disk must not cost what was there before."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        unfinished.write_bytes(data)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _texts(records: Sequence[GameRecord], record_format: RecordFormat) -> list[str]:
    """The text of each file needed."""
    if record_format in ("kif", "kifu"):
        encoding = "Shift_JIS" if record_format == "kif" else "UTF-8"
        first_line = f"#KIF version=2.0 encoding={encoding}\n"
        return [first_line + write_kif(record) for record in records]
    return [_WRITERS[record_format](records)]


def _paths(path: Path, record_format: RecordFormat, count: int) -> list[Path]:
    if count == 1:
        return [path]
    suffix = path.suffix or f".{record_format}"
    return [path.with_name(f"{path.stem}-{number}{suffix}") for number in range(1, count + 1)]


def _write_to_stream(
    texts: list[str], record_format: RecordFormat, stream: TextIO | BinaryIO
) -> None:
    if len(texts) > 1:
        raise NotationError(
            f"a KIF file holds one game, and these are {len(texts)}: give the name of a file, "
            "or choose csa, usi or sfen"
        )
    if isinstance(stream, io.TextIOBase):
        stream.write(texts[0])
    else:
        cast(BinaryIO, stream).write(_encode(texts[0], record_format))


def _encode(text: str, record_format: RecordFormat) -> bytes:
    """The bytes of a file. A .kif is for Windows programs: Shift-JIS and CR LF."""
    if record_format != "kif":
        return text.encode("utf-8")
    text = text.replace("\n", "\r\n").translate(_SHIFT_JIS_TWINS)
    try:
        return text.encode("cp932")
    except UnicodeEncodeError as error:
        lost = text[error.start : error.end]
        warnings.warn(f"Shift-JIS has no {lost!r}: written as ?; kifu keeps it", stacklevel=3)
        return text.encode("cp932", errors="replace")


def _read_kif_games(text: str) -> list[GameRecord]:
    return [read_kif(text)]


_READERS: dict[str, Callable[[str], list[GameRecord]]] = {
    "kif": _read_kif_games,
    "kifu": _read_kif_games,
    "csa": read_csa,
    "usi": read_position_lines,
    "sfen": read_position_lines,
}
_WRITERS: dict[str, Callable[[Sequence[GameRecord]], str]] = {
    "csa": write_csa,
    "usi": write_usi,
    "sfen": write_sfen,
}
