"""A record file as a reader meets it: bytes, text, numbered lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from keisei.shogi.errors import NotationError

_LINE_BREAK = re.compile(r"\r\n|\r|\n")
_HALFWIDTH_KATAKANA = re.compile("[\uff61-\uff9f]")
_EXCERPT_LENGTH = 40


def decode_record(data: bytes) -> str:
    """The text of a file in UTF-8 (with or without a byte order mark), Shift-JIS or EUC-JP.

    What a file says about its own encoding is not trusted: files are often converted without
    touching that line, and valid UTF-8 is never Japanese Shift-JIS by accident.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        first_bad_byte = error.start
    shift_jis = _decode_or_none(data, "cp932")
    euc = _decode_or_none(data, "euc_jp")
    # EUC-JP often passes for Shift-JIS, but as a salad of half-width katakana.
    if euc is not None and (shift_jis is None or _HALFWIDTH_KATAKANA.search(shift_jis)):
        return euc
    if shift_jis is None:
        line = data.count(b"\n", 0, first_bad_byte) + 1
        raise NotationError("neither UTF-8 nor Shift-JIS nor EUC-JP text", line=line)
    return shift_jis


def _decode_or_none(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        return None


def split_lines(text: str) -> list[str]:
    """Lines as an editor counts them; `str.splitlines` would also break at form feeds and such."""
    return _LINE_BREAK.split(text)


def numbered_lines(text: str) -> list[tuple[int, str]]:
    """Each line of a file with its number, from 1; a byte order mark is no part of the first."""
    return list(enumerate(split_lines(text.removeprefix("\ufeff")), start=1))


@contextmanager
def errors_at(line: int) -> Iterator[None]:
    """Give errors their line: those who read part of a line do not know where it stands."""
    try:
        yield
    except NotationError as error:
        if error.line is not None:
            raise
        raise NotationError(error.reason, line=line) from error


def excerpt(text: str) -> str:
    """A quotation short enough for an error message."""
    text = text.strip()
    return repr(text if len(text) <= _EXCERPT_LENGTH else text[:_EXCERPT_LENGTH] + "…")
