"""The rungs of the ladder: players of graded strength, and how strong each of them is.

Their ratings follow from games between neighbours that `scripts/measure_ladder.py` played and
`data/ladder.json` keeps. Random is 0.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from keisei.evaluation.ratings import Pairing, Rating, fit_ratings

ANCHOR = "random"
TABLE = "data/ladder.json"


def _fairy(skill: int) -> str:
    return f"usi:fairy-stockfish?Skill Level={skill}&depth=1"


SPECS = {
    ANCHOR: "random",
    "10% fairy -20": f"mix:0.1:{_fairy(-20)}",
    "10% greedy": "mix:0.1:greedy",
    "25% fairy -20": f"mix:0.25:{_fairy(-20)}",
    "50% fairy -20": f"mix:0.5:{_fairy(-20)}",
    "30% greedy": "mix:0.3:greedy",
    "fairy -20": _fairy(-20),
    "fairy -10": _fairy(-10),
    "60% greedy": "mix:0.6:greedy",
    "greedy": "greedy",
    "70% ab:1": "mix:0.7:ab:1",
    "90% ab:1": "mix:0.9:ab:1",
    "ab:1": "ab:1",
    "fairy 0": _fairy(0),
    "ab:2": "ab:2",
    "ab:3": "ab:3",
    "fairy 20": _fairy(20),
    "gnushogi 1": "gnushogi:1",
    "gnushogi 2": "gnushogi:2",
}
"""By name, roughly from weak to strong: how `make_player` is asked for each rung.

`10% greedy` moves greedily in a tenth of its moves and at random else; `fairy 20` is
fairy-stockfish of that skill level, one ply deep; a number after gnushogi is its depth."""

BUILT_IN = (
    "random",
    "10% greedy",
    "30% greedy",
    "60% greedy",
    "greedy",
    "70% ab:1",
    "90% ab:1",
    "ab:1",
    "ab:2",
)
"""The rungs that are cheap and need no other program."""


class Rung(NamedTuple):
    """A player of known strength."""

    name: str
    spec: str
    rating: Rating


@cache
def shipped_games() -> tuple[Pairing, ...]:
    """The games between the rungs."""
    table = json.loads(files("keisei.evaluation").joinpath(TABLE).read_text())
    return tuple(Pairing(**row) for row in table["games"])


def rungs(names: Collection[str] = tuple(SPECS)) -> list[Rung]:
    """The rungs of these names, the weakest first."""
    ratings = fit_ratings(shipped_games(), {ANCHOR: 0.0})
    found = [Rung(name, SPECS[name], ratings[name]) for name in names]
    return sorted(found, key=lambda rung: rung.rating.value)
