"""The lines of USI, the protocol between shogi programs: what a line asks for.

Reading is total: any line is a command or None, and None is to be ignored, as the protocol wants.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

_LARGEST = 10**12
_START = "lnsgkgsnl/1r5b1/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL b - 1"


class Word(Enum):
    """Commands that are one word; what follows it says nothing that an engine needs."""

    USI = "usi"
    ISREADY = "isready"
    NEW_GAME = "usinewgame"
    STOP = "stop"
    PONDERHIT = "ponderhit"
    GAME_OVER = "gameover"
    QUIT = "quit"


@dataclass(frozen=True)
class SetOption:
    """`setoption name NAME value VALUE`; a button has no value."""

    name: str
    value: str


@dataclass(frozen=True)
class Position:
    """`position`: a start position and the moves since, neither of them checked yet."""

    sfen: str = _START
    moves: tuple[str, ...] = ()


@dataclass(frozen=True)
class Go:
    """`go`: times in milliseconds, None where the line says nothing."""

    btime: int | None = None
    wtime: int | None = None
    byoyomi: int | None = None
    binc: int | None = None
    winc: int | None = None
    movetime: int | None = None
    nodes: int | None = None
    depth: int | None = None
    ponder: bool = False
    infinite: bool = False
    is_for_mate: bool = False
    mate_time: int | None = None
    """How long to look for a mate; None is for ever."""


Command = Word | SetOption | Position | Go

_WORDS = {word.value: word for word in Word}
_NUMBERS = ("btime", "wtime", "byoyomi", "binc", "winc", "movetime", "nodes", "depth")


def parse(line: str) -> Command | None:
    """The command of a line, None for one that is to be ignored."""
    words = line.split()
    if not words:
        return None
    match words[0]:
        case "setoption":
            return _parse_option(words[1:])
        case "position":
            return _parse_position(words[1:])
        case "go":
            return _parse_go(words[1:])
        case word:
            return _WORDS.get(word)


def _parse_option(words: list[str]) -> SetOption | None:
    if len(words) < 2 or words[0] != "name":
        return None
    split = words.index("value") if "value" in words else len(words)
    return SetOption(" ".join(words[1:split]), " ".join(words[split + 1 :]))


def _parse_position(words: list[str]) -> Position:
    """What is neither `startpos` nor `sfen` becomes a SFEN that nobody can read.

    To keep the position before would have the engine move in one that the other side left.
    """
    split = words.index("moves") if "moves" in words else len(words)
    start, moves = words[:split], tuple(words[split + 1 :])
    if start == ["startpos"]:
        return Position(moves=moves)
    return Position(" ".join(start[1:] if start[:1] == ["sfen"] else start), moves)


def _parse_go(words: list[str]) -> Go:
    numbers: dict[str, int] = {}
    for name, value in pairwise(words):
        number = _number(value)
        if name in _NUMBERS and number is not None:
            numbers[name] = number
    is_for_mate = "mate" in words
    after_mate = words[words.index("mate") + 1 :][:1] if is_for_mate else []
    return Go(
        **numbers,
        ponder="ponder" in words,
        infinite="infinite" in words and not is_for_mate,
        is_for_mate=is_for_mate,
        mate_time=_number(after_mate[0]) if after_mate else None,
    )


def _number(word: str) -> int | None:
    """A whole number of at least 0, for clocks have been seen below it; None for other text."""
    digits = word.removeprefix("-").removeprefix("+")
    if not (digits.isascii() and digits.isdigit()):
        return None
    if word.startswith("-"):
        return 0
    return min(int(digits[:15]), _LARGEST)
