"""Who writes down what happened when; a run's timeline, or nobody."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class TimelineLike(Protocol):
    """What one thread writes to a timeline."""

    def span(self, name: str) -> AbstractContextManager[None]:
        """What happens while it is entered, as a bar."""

    def close(self) -> None:
        """Write what is left."""


TimelineMaker = Callable[[str], TimelineLike]
"""Makes the timeline of a thread of this name; called in that thread."""


class NoTimeline:
    """Nothing is written."""

    def __init__(self, name: str) -> None:
        """Whatever the thread is called."""

    def span(self, name: str) -> AbstractContextManager[None]:
        """Nothing."""
        return nullcontext()

    def close(self) -> None:
        """Nothing is left."""
