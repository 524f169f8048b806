"""`Pauses`: how long the collection stands still for the learner beside it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from keisei.gridworld.quick_switching import QUICK_SWITCHING
from keisei.gridworld.spans import NoTimeline, TimelineLike


class Pauses:
    """Bars on the collection's timeline, and how long the longest of each name was.

    A `pause` is all of what the collection waits for at once. Inside it may lie: `snapshot`, what
    the agents learn from is copied; `publish`, new weights are copied to the agents; `pace`, so
    that the learner keeps up; and where weights are taken up at fixed times `wait`, until the
    learner has them.
    """

    def __init__(self) -> None:
        self.timeline: TimelineLike = NoTimeline("environment")
        self.longest: dict[str, float] = {}
        """Seconds of the longest so far, by name."""
        self.last: dict[str, float] = {}
        """Seconds of the last one, by name."""
        self._lately: dict[str, float] = {}
        self._paced_seconds = 0.0

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Stand still; whoever learns hands the interpreter over sooner meanwhile."""
        with QUICK_SWITCHING, self.span("pause"):
            yield

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        """What happens while it is entered, as a bar that is measured."""
        started = time.perf_counter()
        try:
            with self.timeline.span(name):
                yield
        finally:
            self.last[name] = seconds = time.perf_counter() - started
            for longest in (self.longest, self._lately):
                longest[name] = max(longest.get(name, 0.0), seconds)
            if name == "pace":
                self._paced_seconds += seconds

    def figures(self) -> dict[str, float]:
        """Of the time since they were last asked for; nothing if there was no pause."""
        lately, self._lately = self._lately, {}
        figures = {}
        if "pause" in lately:
            figures["longest_pause"] = lately["pause"]
        if "snapshot" in lately:
            figures["snapshot_seconds"] = lately["snapshot"]
        if "pace" in lately:
            figures["pace_seconds"], self._paced_seconds = self._paced_seconds, 0.0
        return figures
