"""Settings by name, such as those of a configuration file, as an object of a dataclass."""

from __future__ import annotations

import dataclasses
import difflib
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from keisei.gridworld.errors import WorldError

Kind = TypeVar("Kind")
_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def dataclass_of(kind: type[Kind], values: Mapping[str, Any], what: str) -> Kind:
    """An object of a dataclass with these fields, the others by default.

    what: the settings in words, for the sentence about a name or a type that is wrong.
    """
    types = typing.get_type_hints(kind)
    known = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    for name, value in values.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            advice = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
            raise WorldError(f"{name} is not among {what}; {advice}")
        wanted = types[name]
        if wanted in _NAMES and not _fits(value, wanted):
            raise WorldError(f"{name} of {what} is {value!r}, but must be {_NAMES[wanted]}")
    return kind(**{name: _converted(value, types[name]) for name, value in values.items()})


def _fits(value: object, wanted: type) -> bool:
    if isinstance(value, bool):
        return wanted is bool
    return isinstance(value, (int, float) if wanted is float else wanted)


def _converted(value: Any, wanted: Any) -> Any:
    return float(value) if wanted is float else value
