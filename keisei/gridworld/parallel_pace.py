"""`Pace`: how slowly epochs are played so that a learner beside the collection keeps up.

To learn from a turn takes several times as long as to play it. A collection that ran on would have
to forget most of what it played, and one that waited for each lesson would stand still for long.
This one waits a little before every turn.
"""

from __future__ import annotations

import struct
import time
from typing import NamedTuple

_MARGIN = 1.1
"""An epoch lasts so many times as long as a lesson from it: a late lesson costs more than this."""
_OF_BEFORE = 0.8
"""How much of what was known weighs against a lesson that took less time."""
_LEFT_OF_A_LATE_ONE = 0.5
"""Epochs that are guessed to be left of a lesson that should be done."""
_UNKNOWN_SECONDS = 3600.0
"""Of the first lesson: all waits are as long as they may be."""
_FORMAT = struct.Struct("<dd")


class EpochPace(NamedTuple):
    """How slowly one epoch is played."""

    seconds: float = 0.0
    """How long it lasts at least."""
    longest_wait: float = 0.0
    """Seconds before any one turn."""

    def wait_before(self, share: float, elapsed: float) -> float:
        """Seconds to wait when this share of the turns took so many seconds."""
        return min(max(self.seconds * share - elapsed, 0.0), self.longest_wait)

    def encode(self) -> bytes:
        """As bytes."""
        return _FORMAT.pack(*self)

    @classmethod
    def decode(cls, data: bytes) -> EpochPace:
        """What `encode` gave; no pace at all of nothing."""
        return cls(*_FORMAT.unpack(data)) if data else FULL_SPEED


FULL_SPEED = EpochPace()


class Pace:
    """What is known of the lessons, each about `interval` epochs or more."""

    def __init__(self, interval: int) -> None:
        self._interval = interval
        self._epoch_seconds = 0.0  # that it takes to learn from an epoch
        self._taught_epochs, self._taught_at = 1, 0.0
        self.longest_wait = 0.0
        """Seconds before any one turn: no pause should be longer than a snapshot."""

    def taught(self, epochs: int) -> None:
        """A lesson about so many epochs begins."""
        self._taught_epochs, self._taught_at = epochs, time.perf_counter()

    def learned(self, seconds: float) -> None:
        """Note how long the lesson took."""
        lately, before = seconds / self._taught_epochs, self._epoch_seconds
        self._epoch_seconds = max(lately, _OF_BEFORE * before + (1 - _OF_BEFORE) * lately)

    def of_epoch(self, owed: int, *, busy: bool) -> EpochPace:
        """Of the next epoch, when so many are waiting to be learned from.

        busy: a lesson is under way, which should be done when the next is due; else one about
        those that are waiting and one more will be, as soon as that one has been read.
        """
        if busy and not self._epoch_seconds:
            return EpochPace(_UNKNOWN_SECONDS, self.longest_wait)
        if busy:
            elapsed = time.perf_counter() - self._taught_at
            left = self._epoch_seconds * self._taught_epochs - elapsed
            left = max(left, self._epoch_seconds * _LEFT_OF_A_LATE_ONE)
            epochs = max(self._interval - owed, 1)
        else:
            left, epochs = self._epoch_seconds * (owed + 1), self._interval
        return EpochPace(_MARGIN * left / epochs, self.longest_wait)
