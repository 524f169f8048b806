"""`LessonPool`: where models that compute by themselves learn, if not in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from keisei.gridworld.stack import Figures, LearningModel

Recipe = Callable[[], Any]
"""Makes a model of the same kind as an agent's; it can be pickled."""


class LessonPool(Protocol):
    """Processes that learn; threads may ask it at the same time."""

    @property
    def processes(self) -> int:
        """How many lessons it takes at once."""

    def learn(self, recipe: Recipe, model: LearningModel, lesson: Any) -> Figures:
        """What `model.learn` would do: afterwards the model is as if it had learned here.

        What goes wrong there is raised here, and leaves the model as it was.
        """

    def close(self) -> None:
        """End the processes; the next lesson starts them anew."""
