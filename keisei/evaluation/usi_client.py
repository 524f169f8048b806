"""Engines that speak USI: `usi:COMMAND?Option=value&depth=1` and the talk that follows."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from keisei.evaluation.engine_process import EngineError, EngineProcess
from keisei.evaluation.players import NoMove

START_SECONDS = 60.0
"""So long an engine may take to get ready: large networks and tables load slowly."""
_ANSWER_SECONDS = 60.0
_SPARE_SECONDS = 10.0
_DEFAULT_LIMITS: Mapping[str, int] = {"byoyomi": 1000}
_LIMITS = ("depth", "nodes", "movetime", "byoyomi")
_UNLISTED_OPTIONS = {"usi_hash", "usi_ponder"}
"""The protocol has every engine know these, and leaves it free to say so."""
_OPTION = re.compile(r"option name (.+?) type \w+.*")


@dataclass(frozen=True)
class UsiSettings:
    """What `usi:` is followed by."""

    command: tuple[str, ...]
    options: Mapping[str, str]
    limits: Mapping[str, int]
    """At least one of depth, nodes, movetime and byoyomi (both milliseconds)."""
    timeout: float
    """Seconds after which an engine that has not answered has lost."""

    @property
    def go(self) -> str:
        """The command that has it think."""
        words = [f"{name} {number}" for name, number in self.limits.items()]
        clock = "btime 0 wtime 0 " if "byoyomi" in self.limits else ""
        return f"go {clock}{' '.join(words)}"


def parse_usi(text: str) -> UsiSettings:
    """Read `COMMAND?name=value&name=value`.

    The names depth, nodes, movetime, byoyomi and timeout are limits, all others are options of the
    engine. Without a limit it gets a second for each move (byoyomi=1000).
    """
    command, _, settings = text.partition("?")
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise ValueError(f"the command {command!r} cannot be read: {error}") from None
    if not words:
        raise ValueError("usi: needs a command, as in usi:fairy-stockfish?depth=1")
    options: dict[str, str] = {}
    limits: dict[str, int] = {}
    timeout: float | None = None
    for setting in filter(None, settings.split("&")):
        name, equals, value = setting.partition("=")
        if not name or not equals:
            raise ValueError(f"{setting!r} is not a setting of an engine: write name=value")
        if name in _LIMITS:
            limits[name] = int(_positive(name, value, whole=True))
        elif name == "timeout":
            timeout = _positive(name, value, whole=False)
        else:
            options[name] = value
    limits = limits or dict(_DEFAULT_LIMITS)
    return UsiSettings(words, options, limits, timeout or _patience(limits))


def _positive(name: str, value: str, *, whole: bool) -> float:
    try:
        number = int(value) if whole else float(value)
    except ValueError:
        number = 0
    if not 0 < number < float("inf"):
        kind = "whole number" if whole else "number of seconds"
        raise ValueError(f"{name} must be a {kind} above 0, not {value!r}")
    return number


def _patience(limits: Mapping[str, int]) -> float:
    """The seconds an engine gets for a move when the specification does not say."""
    thinking = (limits.get("movetime", 0) + limits.get("byoyomi", 0)) / 1000
    return thinking + _SPARE_SECONDS if thinking else _ANSWER_SECONDS


class UsiEngine:
    """One process that plays one game at a time."""

    def __init__(self, settings: UsiSettings) -> None:
        self._settings = settings
        self._process = EngineProcess(settings.command)
        self._moves: list[str] | None = None
        self._is_ready = False

    def get_ready(self) -> None:
        """Greet it and set its options; `answer` does so itself when nobody has."""
        deadline = time.monotonic() + START_SECONDS
        self._process.send("usi")
        names = set(_UNLISTED_OPTIONS)
        while (line := self._process.read_line(deadline)) != "usiok":
            option = _OPTION.fullmatch(line)
            if option is not None:
                names.add(option[1].lower())
        for name, value in self._settings.options.items():
            if name.lower() not in names:
                raise EngineError(
                    NoMove.CRASHED, f"{self._settings.command[0]} has no option {name!r}"
                )
            self._process.send(f"setoption name {name} value {value}")
        self._is_ready = True

    def answer(self, moves: Sequence[str]) -> str:
        """What it plays after these moves from the start position: a move, `resign` or `win`."""
        if not self._is_ready:
            self.get_ready()
        known = self._moves
        if known is None or list(moves[: len(known)]) != known:
            self._begin_game()
        self._moves = list(moves)
        position = "position startpos" + (" moves " + " ".join(moves) if moves else "")
        self._process.send(position, self._settings.go)
        words = self._wait_for("bestmove", time.monotonic() + self._settings.timeout)
        return words[1] if len(words) > 1 else ""

    def _begin_game(self) -> None:
        self._process.send("isready")
        self._wait_for("readyok", time.monotonic() + START_SECONDS)
        self._process.send("usinewgame")

    def _wait_for(self, first_word: str, deadline: float) -> list[str]:
        """The words of the next line that begins with this one; all lines before it are skipped."""
        while True:
            words = self._process.read_line(deadline).split()
            if words[:1] == [first_word]:
                return words

    def kill(self) -> None:
        """End its process at once, from any thread."""
        self._process.kill()

    def close(self) -> None:
        """End its process."""
        self._process.close()
