"""`Entity`: a kind of thing in a world. The class is the kind; there are no objects of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from keisei.gridworld.cells import Cells
    from keisei.gridworld.world import World


class Entity:
    """What all things of one kind have in common.

    A world keeps a number for each cell, so a million gems cost a million bytes. What happens to
    things by themselves, growing or spreading or drying up, is a `transition`.
    """

    value: ClassVar[float] = 0.0
    """What an agent gets that moves against it or onto it."""
    passable: ClassVar[bool] = False
    """Whether an agent can move onto it, which removes it."""
    glyph: ClassVar[str] = "?"
    """One character, for pictures in the terminal."""
    colour: ClassVar[tuple[int, int, int]] = (128, 128, 128)
    """Red, green and blue from 0 to 255, for pictures and RGB observations."""
    sprite: ClassVar[Path | None] = None
    """An image file to draw instead of a coloured cell."""

    @classmethod
    def transition(cls, world: World, where: Cells) -> None:
        """Once a turn, before the agents: `where` holds every cell of this kind in all copies."""

    @classmethod
    def has_transition(cls) -> bool:
        """Whether this kind does anything by itself."""
        return cls.transition.__func__ is not Entity.transition.__func__  # type: ignore[attr-defined]


class Empty(Entity):
    """Nothing: what a cell holds when nothing was put there."""

    passable = True
    glyph = "."
    colour = (230, 220, 190)


class Wall(Entity):
    """Stops whoever moves against it."""

    glyph = "#"
    colour = (90, 90, 90)
