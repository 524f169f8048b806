"""The two ways in which shogi input can be wrong."""


class NotationError(ValueError):
    """A position, move or game record that cannot be read.

    `line` is the number of the offending line (from 1) where the input has lines.
    """

    def __init__(self, reason: str, *, line: int | None = None) -> None:
        super().__init__(reason if line is None else f"line {line}: {reason}")
        self.reason = reason
        self.line = line


class IllegalMoveError(ValueError):
    """A move that is well written but breaks the rules in this position."""
