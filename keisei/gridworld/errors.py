"""`WorldError`: a game that cannot be right."""

from __future__ import annotations


class WorldError(ValueError):
    """A game asks for what cannot be; the message says what and what would be right."""
