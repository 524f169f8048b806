"""Play the rungs of the ladder against their neighbours: keisei/evaluation/data/ladder.json.

    python scripts/measure_ladder.py --games 60

needs fairy-stockfish and gnushogi. The table is written after every match, and matches that it
holds already are not played again: delete it to begin anew.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from keisei.evaluation import ladder_rungs
from keisei.evaluation.ladder_rungs import ANCHOR, SPECS, TABLE
from keisei.evaluation.match import play_match
from keisei.evaluation.opponents import make_player
from keisei.evaluation.players import close_player
from keisei.evaluation.ratings import Pairing, fit_ratings

TARGET = Path(ladder_rungs.__file__).parent / TABLE


def pairs(reach: int) -> list[tuple[str, str]]:
    """Rungs up to `reach` places apart, the stronger first: direct neighbours before others."""
    names = list(SPECS)
    return [
        (names[place + distance], names[place])
        for distance in range(1, reach + 1)
        for place in range(len(names) - distance)
    ]


def play(stronger: str, weaker: str, games: int, seed: int) -> Pairing:
    """One match."""
    player, opponent = make_player(SPECS[stronger], seed), make_player(SPECS[weaker], seed + 1)
    try:
        tally = play_match(player, opponent, games=games, seed=seed).tally()
    finally:
        close_player(player)
        close_player(opponent)
    return Pairing(stronger, weaker, tally.wins, tally.draws, tally.losses)


def read() -> list[Pairing]:
    """What was measured already."""
    if not TARGET.is_file():
        return []
    return [Pairing(**row) for row in json.loads(TARGET.read_text())["games"]]


def write(results: list[Pairing]) -> None:
    """Replace the table."""
    table: dict[str, Any] = {
        "command": "python scripts/measure_ladder.py",
        "games": [result._asdict() for result in results],
    }
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(json.dumps(table, indent=1) + "\n")


def main() -> None:
    """Play what is missing, then print the ratings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", type=int, default=60, help="of each pair")
    parser.add_argument("--reach", type=int, default=2, help="how far apart neighbours are")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    results = read()
    known = {frozenset(result[:2]) for result in results}
    for number, (stronger, weaker) in enumerate(pairs(options.reach)):
        if frozenset((stronger, weaker)) not in known:
            begun = time.monotonic()
            results.append(play(stronger, weaker, options.games, options.seed + 10 * number))
            write(results)
            sys.stdout.write(f"{results[-1]} {time.monotonic() - begun:.0f} s\n")
            sys.stdout.flush()
    ratings = fit_ratings(results, {ANCHOR: 0.0})
    for name, rating in sorted(ratings.items(), key=lambda item: item[1].value):
        sys.stdout.write(f"{name:<14} {rating.value:>5.0f} [{rating.low:.0f}, {rating.high:.0f}]\n")


if __name__ == "__main__":
    main()
