"""What a world looks like: as text, as a picture, as a film."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from keisei.gridworld.world import World

Picture = NDArray[np.uint8]
"""[height, width, 3] red, green and blue of each pixel."""
CELL_PIXELS = 16
MILLISECONDS_A_TURN = 120


def text_of(world: World, copy: int = 0) -> str:
    """A line for each row, a character for each cell: the glyph of the topmost thing in it."""
    glyphs = np.array([kind.glyph for kind in world.kinds])
    return "\n".join("".join(row) for row in glyphs[_topmost(world, copy)])


def picture_of(world: World, copy: int = 0, *, cell: int = CELL_PIXELS) -> Picture:
    """Each cell as a square of `cell` pixels, the layers on top of each other."""
    rows, columns = world.height * cell, world.width * cell
    ground = world.kinds[0]
    picture = np.tile(np.array(ground.colour, np.uint8), (rows, columns, 1))
    tiles = np.stack([_tile(kind.sprite, kind.colour, cell) for kind in world.kinds])
    for layer in range(world.layers):
        kinds = world.map[copy, :, :, layer]
        image = tiles[kinds].transpose(0, 2, 1, 3, 4).reshape(rows, columns, 4)
        shown = image[..., 3:] >= 128
        if layer:  # nothing above the ground hides nothing
            shown = shown & (kinds != 0).repeat(cell, 0).repeat(cell, 1)[..., np.newaxis]
        picture = np.where(shown, image[..., :3], picture)
    return picture


def save_png(picture: Picture, path: Path) -> None:
    """Write one picture."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(picture).save(path)


def save_gif(pictures: Sequence[Picture], path: Path) -> None:
    """Write a film that repeats, a picture for each turn."""
    if not pictures:
        raise ValueError("a film needs at least one picture")
    path.parent.mkdir(parents=True, exist_ok=True)
    first, *others = (Image.fromarray(picture) for picture in pictures)
    first.save(path, save_all=True, append_images=others, duration=MILLISECONDS_A_TURN, loop=0)


class Recorder:
    """Takes a picture of every turn it is shown; give it to `run_experiment` as `watch`."""

    def __init__(self, copy: int = 0, *, cell: int = CELL_PIXELS) -> None:
        self._copy, self._cell = copy, cell
        self.pictures: list[Picture] = []

    def __call__(self, world: World) -> None:
        """Take a picture."""
        self.pictures.append(picture_of(world, self._copy, cell=self._cell))

    def save(self, path: Path) -> None:
        """Write the film, and forget its pictures."""
        save_gif(self.pictures, path)
        self.pictures = []


def _topmost(world: World, copy: int) -> NDArray[np.uint8]:
    """[H, W] the highest kind that is something, or what is on the ground."""
    top = world.map[copy, :, :, 0].copy()
    for layer in range(1, world.layers):
        above = world.map[copy, :, :, layer]
        np.copyto(top, above, where=above != 0)
    return top


@cache
def _tile(sprite: Path | None, colour: tuple[int, int, int], cell: int) -> NDArray[np.uint8]:
    """[cell, cell, 4] a sprite, or else a colour, with how opaque each pixel is."""
    if sprite is None:
        return np.full((cell, cell, 4), (*colour, 255), np.uint8)
    with Image.open(sprite) as image:
        return np.asarray(image.convert("RGBA").resize((cell, cell)), np.uint8)
