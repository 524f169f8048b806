"""Names with a prefix, where arrays of several owners share one table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

Value = TypeVar("Value")


def below(prefix: str, table: Mapping[str, Value]) -> dict[str, Value]:
    """The entries whose names begin with `prefix`, by the rest of their names."""
    return {
        name.removeprefix(prefix): value for name, value in table.items() if name.startswith(prefix)
    }
