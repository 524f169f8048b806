"""Drawings of lines, dots and words, written as SVG and as PNG without any plotting library."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

from PIL import Image, ImageDraw, ImageFont

Point = tuple[float, float]
_ANCHORS = {"start": "lm", "middle": "mm", "end": "rm"}
_PIXELS = 4  # a PNG is drawn this much larger and scaled down to half of it: smooth and sharp


class Line(NamedTuple):
    """Straight lines from point to point."""

    points: tuple[Point, ...]
    colour: str
    width: float


class Dot(NamedTuple):
    """A filled circle."""

    at: Point
    radius: float
    colour: str


class Words(NamedTuple):
    """Text, its height centred on `at`; `anchor` says which end of it is there."""

    at: Point
    text: str
    anchor: str
    size: float
    colour: str


class Area(NamedTuple):
    """A filled rectangle between two corners."""

    corner: Point
    other: Point
    colour: str


class Chart:
    """A white sheet to draw on; (0, 0) is its upper left corner."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._shapes: list[Line | Dot | Words | Area] = []

    def line(self, points: Sequence[Point], *, colour: str = "#888888", width: float = 1) -> None:
        """Join the points."""
        self._shapes.append(Line(tuple(points), colour, width))

    def dot(self, at: Point, *, colour: str, radius: float = 4) -> None:
        """Mark a point."""
        self._shapes.append(Dot(at, radius, colour))

    def words(
        self,
        at: Point,
        text: str,
        *,
        anchor: str = "start",
        size: float = 12,
        colour: str = "#222222",
    ) -> None:
        """Write; `anchor` is start, middle or end."""
        self._shapes.append(Words(at, text, anchor, size, colour))

    def area(self, corner: Point, other: Point, *, colour: str) -> None:
        """Fill a rectangle."""
        self._shapes.append(Area(corner, other, colour))

    def save(self, target: Path) -> list[Path]:
        """Write `target`.png and `target`.svg; the two paths."""
        png, svg = (target.with_name(f"{target.name}.{kind}") for kind in ("png", "svg"))
        svg.write_text(self._as_svg())
        self._as_image().save(png)
        return [png, svg]

    def _as_svg(self) -> str:
        size = f'width="{self.width}" height="{self.height}"'
        body = "\n".join(_svg_of(shape) for shape in self._shapes)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} '
            f'viewBox="0 0 {self.width} {self.height}">\n'
            f'<rect {size} fill="#ffffff"/>\n{body}\n</svg>\n'
        )

    def _as_image(self) -> Image.Image:
        image = Image.new("RGB", (self.width * _PIXELS, self.height * _PIXELS), "#ffffff")
        pen = ImageDraw.Draw(image)
        for shape in self._shapes:
            _paint(pen, shape)
        return image.resize((self.width * 2, self.height * 2), Image.Resampling.LANCZOS)


def _svg_of(shape: Line | Dot | Words | Area) -> str:
    if isinstance(shape, Line):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in shape.points)
        style = f'fill="none" stroke={quoteattr(shape.colour)} stroke-width="{shape.width}"'
        return f'<polyline points="{points}" {style}/>'
    if isinstance(shape, Dot):
        x, y = shape.at
        fill = quoteattr(shape.colour)
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{shape.radius}" fill={fill}/>'
    if isinstance(shape, Area):
        x, y, width, height = _box(shape)
        place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
        return f"<rect {place} fill={quoteattr(shape.colour)}/>"
    x, y = shape.at
    style = f'font-family="sans-serif" font-size="{shape.size}" text-anchor="{shape.anchor}"'
    fill = quoteattr(shape.colour)
    place = f'x="{x:.1f}" y="{y + 0.35 * shape.size:.1f}"'
    return f"<text {place} {style} fill={fill}>{escape(shape.text)}</text>"


def _box(area: Area) -> tuple[float, float, float, float]:
    """(left, top, width, height)."""
    (x, y), (other_x, other_y) = area.corner, area.other
    return min(x, other_x), min(y, other_y), abs(other_x - x), abs(other_y - y)


def _paint(pen: ImageDraw.ImageDraw, shape: Line | Dot | Words | Area) -> None:
    if isinstance(shape, Line):
        points = [(x * _PIXELS, y * _PIXELS) for x, y in shape.points]
        pen.line(points, shape.colour, max(round(shape.width * _PIXELS), 1), joint="curve")
    elif isinstance(shape, Dot):
        x, y, radius = shape.at[0] * _PIXELS, shape.at[1] * _PIXELS, shape.radius * _PIXELS
        pen.ellipse((x - radius, y - radius, x + radius, y + radius), shape.colour)
    elif isinstance(shape, Area):
        x, y, width, height = (_PIXELS * number for number in _box(shape))
        pen.rectangle((x, y, x + width, y + height), shape.colour)
    else:
        font = ImageFont.load_default(shape.size * _PIXELS)
        place = (shape.at[0] * _PIXELS, shape.at[1] * _PIXELS)
        pen.text(place, shape.text, shape.colour, font, anchor=_ANCHORS[shape.anchor])
