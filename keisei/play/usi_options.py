"""The options of the engine: what a graphical program shows, and what it may set."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

UNLIMITED_NODES = 1_000_000_000
NEVER_RESIGNS = 32_000


@dataclass(frozen=True)
class Options:
    """The values that are set; names and meanings are in `OPTIONS`."""

    hash_megabytes: int = 256
    ponder: bool = True
    lines: int = 1
    nodes: int = UNLIMITED_NODES
    temperature: int = 0
    temperature_plies: int = 30
    declaration: str = "27"
    resign_value: int = NEVER_RESIGNS
    margin_ms: int = 300
    seed: int = 0
    threads: int = 1


@dataclass(frozen=True)
class Spin:
    """A whole number between two others."""

    name: str
    field: str
    low: int
    high: int

    def declaration(self, default: object) -> str:
        """The option's type as USI writes it."""
        return f"type spin default {default} min {self.low} max {self.high}"

    def read(self, text: str) -> int:
        """The value of a text."""
        digits = text.removeprefix("-")
        is_number = digits.isascii() and digits.isdigit() and len(digits) <= 12
        if not is_number or not self.low <= int(text) <= self.high:
            raise ValueError(
                f"{self.name} is a whole number from {self.low} to {self.high}, not {text!r}"
            )
        return int(text)


@dataclass(frozen=True)
class Check:
    """True or false."""

    name: str
    field: str

    def declaration(self, default: object) -> str:
        """The option's type as USI writes it."""
        return f"type check default {str(default).lower()}"

    def read(self, text: str) -> bool:
        """The value of a text."""
        if text not in ("true", "false"):
            raise ValueError(f"{self.name} is true or false, not {text!r}")
        return text == "true"


@dataclass(frozen=True)
class Combo:
    """One of a few words."""

    name: str
    field: str
    choices: Sequence[str]

    def declaration(self, default: object) -> str:
        """The option's type as USI writes it."""
        return f"type combo default {default}" + "".join(f" var {word}" for word in self.choices)

    def read(self, text: str) -> str:
        """The value of a text."""
        if text not in self.choices:
            raise ValueError(f"{self.name} is one of {', '.join(self.choices)}, not {text!r}")
        return text


OPTIONS: tuple[Spin | Check | Combo, ...] = (
    Spin("USI_Hash", "hash_megabytes", 1, 65_536),
    Check("USI_Ponder", "ponder"),
    Spin("USI_MultiPV", "lines", 1, 100),
    Spin("Nodes", "nodes", 0, UNLIMITED_NODES),
    Spin("Temperature", "temperature", 0, 1_000),
    Spin("TemperaturePlies", "temperature_plies", 0, 10_000),
    Combo("DeclarationRule", "declaration", ("27", "24", "off")),
    Spin("ResignValue", "resign_value", 1, NEVER_RESIGNS),
    Spin("MarginMs", "margin_ms", 0, 10_000),
    Spin("Seed", "seed", 0, 2**31 - 1),
    Spin("Threads", "threads", 1, 256),
)
_BY_NAME = {option.name.lower(): option for option in OPTIONS}


def option_lines(options: Options) -> list[str]:
    """The answer to `usi` that says what can be set."""
    return [
        f"option name {option.name} {option.declaration(getattr(options, option.field))}"
        for option in OPTIONS
    ]


def with_option(options: Options, name: str, value: str) -> Options:
    """The options with one of them set; a `ValueError` says what is wrong with it."""
    option = _BY_NAME.get(name.lower())
    if option is None:
        raise ValueError(f"there is no option {name!r}")
    change: dict[str, Any] = {option.field: option.read(value)}
    return dataclasses.replace(options, **change)
