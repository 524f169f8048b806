"""Pictures of ratings: a PNG that can be opened, an SVG that says what is in it."""

from xml.etree import ElementTree

import pytest
from PIL import Image

from keisei.evaluation.ladder import LadderResult, Visit
from keisei.evaluation.ladder_plot import draw_curve, draw_ladder
from keisei.evaluation.ladder_rungs import Rung
from keisei.evaluation.ratings import Pairing, Rating

SVG = "{http://www.w3.org/2000/svg}"
LADDER = [
    Rung("random", "random", Rating(0.0, 0.0, 0.0)),
    Rung("greedy", "greedy", Rating(900.0, 820.0, 980.0)),
    Rung("ab:1 & more", "ab:1", Rating(1500.0, 1400.0, 1600.0)),
]
RESULT = LadderResult(
    "my <model>",
    Rating(1000.0, 900.0, 1100.0),
    (Visit(LADDER[1], Pairing("my <model>", "greedy", 12, 2, 6)),),
)


def words(svg):
    return [element.text for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


@pytest.fixture
def pictures(tmp_path):
    return draw_ladder(RESULT, LADDER).save(tmp_path / "v1.2")


def test_a_picture_is_saved_as_png_and_svg_whatever_dots_its_name_has(pictures):
    assert [path.name for path in pictures] == ["v1.2.png", "v1.2.svg"]


def test_the_svg_names_the_player_every_rung_and_the_score(pictures):
    found = words(pictures[1].read_text())
    assert "my <model>: 1000 [900, 1100]" in found
    assert [text for text in found if text in {rung.name for rung in LADDER}] == [
        "ab:1 & more",
        "greedy",
        "random",
    ]
    assert "65% (20)" in found


def test_stronger_rungs_are_further_right_and_further_up(pictures):
    dots = list(ElementTree.fromstring(pictures[1].read_text()).iter(f"{SVG}circle"))
    across = [float(dot.get("cx")) for dot in dots]
    down = [float(dot.get("cy")) for dot in dots]
    assert across == sorted(across, reverse=True)
    assert down == sorted(down)


def test_the_png_shows_the_same_in_twice_the_size(pictures):
    svg = ElementTree.fromstring(pictures[1].read_text())
    with Image.open(pictures[0]) as image:
        assert image.size == (2 * int(svg.get("width")), 2 * int(svg.get("height")))
        dot = next(svg.iter(f"{SVG}circle"))
        at = (round(2 * float(dot.get("cx"))), round(2 * float(dot.get("cy"))))
        assert image.getpixel(at) == (0x1F, 0x5F, 0xA8)
        assert image.getpixel((2, 2)) == (255, 255, 255)


def test_a_curve_joins_the_ratings_over_the_steps(tmp_path):
    steps, ratings = [0, 1000, 3000], [Rating(0.0, 0.0, 0.0), Rating(200.0, 150.0, 250.0)]
    chart = draw_curve("a run", steps, [*ratings, Rating(350.0, 300.0, 400.0)])
    svg = chart.save(tmp_path / "curve")[1].read_text()
    line = next(
        element
        for element in ElementTree.fromstring(svg).iter(f"{SVG}polyline")
        if len(element.get("points").split()) == 3
    )
    points = [tuple(map(float, point.split(","))) for point in line.get("points").split()]
    assert points[1][0] - points[0][0] == pytest.approx((points[2][0] - points[1][0]) / 2, abs=0.2)
    assert points[0][1] > points[1][1] > points[2][1]
    assert "a run" in words(svg)


def test_a_curve_of_equal_ratings_can_be_drawn(tmp_path):
    flat = [Rating(0.0, 0.0, 0.0)] * 2
    assert all(path.is_file() for path in draw_curve("flat", [5, 5], flat).save(tmp_path / "flat"))
