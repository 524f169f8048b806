"""Worlds as text, pictures and films that other programs can open."""

import numpy as np
import pytest
from PIL import Image

from keisei.gridworld.entity import Empty, Entity
from keisei.gridworld.model import RandomModel
from keisei.gridworld.pictures import Recorder, picture_of, save_gif, save_png, text_of
from keisei.gridworld.world import World
from tests.gridworld.small_worlds import KINDS, Coin, Hedge, Meadow, MeadowRules, Soil, walkers


@pytest.fixture
def world():
    """2 copies of 3 x 4 cells in 2 layers; a coin lies above a hedge, in copy 1 only."""
    world = World(3, 4, KINDS, layers=2, copies=2)
    world.place(Hedge, world.cells_at(0, [0, 1, 2, 3]))
    world.place(Coin, world.cells_at(0, 1, layer=1, copies=1))
    walkers(world, (2, 3))
    return world


def test_as_text_each_cell_is_the_glyph_of_the_topmost_thing(world):
    assert text_of(world) == "####\n    \n   @"
    assert text_of(world, 1) == "#o##\n    \n   @"


def test_as_a_picture_each_cell_is_a_square_in_the_colour_of_the_topmost_thing(world):
    picture = picture_of(world, 1, cell=3)
    assert (picture.shape, picture.dtype) == ((9, 12, 3), np.uint8)
    colours = {" ": Soil.colour, "#": Hedge.colour, "o": Coin.colour, "@": (0, 0, 250)}
    for row, line in enumerate(text_of(world, 1).split("\n")):
        for column, glyph in enumerate(line):
            square = picture[3 * row : 3 * row + 3, 3 * column : 3 * column + 3]
            assert (square == colours[glyph]).all()


def test_a_cell_has_16_pixels_a_side_unless_told(world):
    assert picture_of(world).shape == (48, 64, 3)


@pytest.fixture
def sprite(tmp_path):
    """An image of 2 x 2 pixels: the left half red, the right half transparent."""
    pixels = np.zeros((2, 2, 4), np.uint8)
    pixels[:, 0] = (255, 0, 0, 255)
    Image.fromarray(pixels).save(tmp_path / "half.png")
    return tmp_path / "half.png"


def test_a_sprite_is_drawn_instead_of_a_colour_and_what_is_below_shows_through(sprite):
    half = type("Half", (Entity,), {"sprite": sprite})
    world = World(1, 2, (Empty, Hedge, half), layers=2)
    world.place(Hedge, world.cells_at(0, 0))
    world.place(half, world.cells_at(0, [0, 1], layer=1))
    picture = picture_of(world, cell=2)
    assert (picture[:, [0, 2]] == (255, 0, 0)).all()
    assert (picture[:, 1] == Hedge.colour).all()
    assert (picture[:, 3] == Empty.colour).all()


def test_a_transparent_sprite_on_the_ground_shows_the_ground(sprite):
    half = type("Half", (Entity,), {"sprite": sprite})
    world = World(1, 1, (Empty, half))
    world.place(half, world.cells())
    assert (picture_of(world, cell=2)[:, 1] == Empty.colour).all()


def test_a_sprite_of_any_size_is_fitted_to_the_cell(sprite):
    half = type("Half", (Entity,), {"sprite": sprite})
    assert picture_of(World(2, 3, (half,)), cell=5).shape == (10, 15, 3)


def test_a_png_is_the_picture(world, tmp_path):
    path = tmp_path / "new" / "folder" / "world.png"
    save_png(picture_of(world), path)
    with Image.open(path) as image:
        assert image.format == "PNG"
        assert np.array_equal(np.asarray(image.convert("RGB")), picture_of(world))


def test_a_film_has_a_frame_for_each_picture_and_repeats(world, tmp_path):
    pictures = [picture_of(world, copy, cell=4) for copy in (0, 1, 0)]
    save_gif(pictures, tmp_path / "new" / "film.gif")
    with Image.open(tmp_path / "new" / "film.gif") as film:
        assert (film.format, film.n_frames, film.info["loop"]) == ("GIF", 3, 0)
        for number, picture in enumerate(pictures):
            film.seek(number)
            assert np.array_equal(np.asarray(film.convert("RGB")), picture)


def test_a_film_of_a_world_in_which_nothing_happens_is_as_long(world, tmp_path):
    save_gif([picture_of(world, cell=2)] * 5, tmp_path / "film.gif")
    with Image.open(tmp_path / "film.gif") as film:
        milliseconds = 0
        for number in range(film.n_frames):
            film.seek(number)
            milliseconds += film.info["duration"]
    assert milliseconds == 5 * 120


def test_a_film_without_pictures_is_refused(tmp_path):
    with pytest.raises(ValueError, match="at least one picture"):
        save_gif([], tmp_path / "film.gif")


def test_a_recorder_takes_a_picture_of_every_turn(tmp_path):
    recorder = Recorder(1, cell=2)
    game = Meadow(RandomModel, MeadowRules(max_turns=5, coin_chance=0.3), copies=2)
    game.run_experiment(1, watch=recorder)
    assert len(recorder.pictures) == 5
    assert recorder.pictures[0].shape == (14, 16, 3)
    recorder.save(tmp_path / "film.gif")
    assert recorder.pictures == []
    with Image.open(tmp_path / "film.gif") as film:
        assert film.n_frames == 5
