"""`LearningRecord`: how the learning of one agent stands, and who is next where not all can be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from keisei.gridworld.stack import Figures

LONGEST_REST = 64
"""Epochs that an agent whose training fails again and again rests at most."""


@dataclass
class LearningRecord:
    """Of one agent."""

    failures: int = 0
    """How often in a row its training has failed."""
    rests_until: int = 0
    """The epoch in which it is trained again."""
    learned_epoch: int = 0
    """The last epoch that it has learned from."""
    new_steps: int = 0
    """Agent-steps since its last lesson: its new experience, remembered or forgotten."""
    owed_epochs: int = 0
    owed_steps: int = 0
    """Epochs and agent-steps that it remembers and has not learned from."""
    figures: Figures = field(default_factory=dict)
    """Of its last lesson."""

    def rests(self, epoch: int) -> bool:
        """Whether it is left alone because its training has failed."""
        return epoch < self.rests_until

    def lived(self, steps: int) -> None:
        """Note an epoch that was played."""
        self.owed_epochs += 1
        self.owed_steps += steps
        self.new_steps += steps

    def settle(self) -> None:
        """Owe nothing any more: it is learned from now, or forgotten."""
        self.owed_epochs = self.owed_steps = 0

    def learned(self, figures: Figures, epoch: int) -> None:
        """Note a lesson from what was played up to this epoch."""
        self.failures, self.figures, self.learned_epoch = 0, figures, epoch

    def failed(self, epoch: int) -> int:
        """Note a failure: a rest from this epoch on, twice as long each time; its length."""
        self.failures += 1
        rest: int = min(2 ** (self.failures - 1), LONGEST_REST)
        self.rests_until = epoch + rest
        return rest

    def told(self, epoch: int) -> Figures:
        """Its figures, with how many epochs old what its weights have learned from is."""
        staleness = {"staleness": float(epoch - self.learned_epoch)} if self.figures else {}
        return {**self.figures, **staleness}


def most_experienced(
    records: Sequence[LearningRecord], due: Iterable[int], most: int | None
) -> list[int]:
    """At most so many of those due, the ones with most new experience, in their order.

    Of two with as much the first is taken. An agent that is left out gains on the others with
    every epoch, also if it has to forget some of it, so that all have their turn.
    """
    first = sorted(due, key=lambda number: (-records[number].new_steps, number))
    return sorted(first[:most])
