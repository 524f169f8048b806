"""A tournament of a run's checkpoints: how the run's own strength grew."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import torch

from keisei.evaluation.match import play_match
from keisei.evaluation.model_player import ModelPlayer
from keisei.evaluation.players import Player
from keisei.evaluation.ratings import Pairing, Rating, fit_ratings
from keisei.training.checkpoint_format import load_checkpoint
from keisei.training.run_folder import RunFolder
from keisei.training.trained_models import load_model


class TournamentError(ValueError):
    """A tournament that cannot be held."""


@dataclass(frozen=True)
class Entrant:
    """A checkpoint that plays."""

    player: Player
    steps: int
    """How many steps the run had trained by then."""


@dataclass(frozen=True)
class Tournament:
    """Who played, oldest first, all results, and the ratings; the oldest has 0."""

    entrants: tuple[Entrant, ...]
    results: tuple[Pairing, ...]
    ratings: tuple[Rating, ...]


def entrants_of(run: Path, *, most: int, device: torch.device) -> list[Entrant]:
    """The checkpoints of a run, oldest first; if there are more than `most`, evenly spread ones."""
    paths = RunFolder.open(run).checkpoints(keep=1).paths()
    if len(paths) < 2 or most < 2:
        raise TournamentError(
            f"a tournament takes at least two checkpoints, and {run} has {len(paths)}: "
            "a run keeps more with checkpoints.keep"
        )
    entrants = []
    for path in _evenly(paths, most):
        steps = int(load_checkpoint(path).state["steps"])
        entrants.append(Entrant(ModelPlayer(load_model(path, device), path.name), steps))
    return entrants


def _evenly(paths: Sequence[Path], most: int) -> list[Path]:
    """At most `most` of the paths: the first, the last, and those between at equal distances."""
    if len(paths) <= most:
        return list(paths)
    last = len(paths) - 1
    return [paths[round(number * last / (most - 1))] for number in range(most)]


def play_round_robin(
    entrants: Sequence[Entrant],
    *,
    games: int,
    seed: int,
    on_match: Callable[[Pairing], None] | None = None,
) -> Tournament:
    """Everyone plays `games` games against everyone else, an even number."""
    results = []
    for number, (one, other) in enumerate(combinations(entrants, 2)):
        tally = play_match(other.player, one.player, games=games, seed=seed + number).tally()
        names = (other.player.name, one.player.name)
        results.append(Pairing(*names, tally.wins, tally.draws, tally.losses))
        if on_match is not None:
            on_match(results[-1])
    ratings = fit_ratings(results, {entrants[0].player.name: 0.0})
    in_order = [ratings[entrant.player.name] for entrant in entrants]
    return Tournament(tuple(entrants), tuple(results), tuple(in_order))


def _score_of(tournament: Tournament, name: str) -> tuple[float, int]:
    """(points, games) of an entrant."""
    as_first = [met for met in tournament.results if met.player == name]
    as_second = [met for met in tournament.results if met.opponent == name]
    points = sum(met.points for met in as_first)
    points += sum(met.games - met.points for met in as_second)
    return points, sum(met.games for met in as_first + as_second)


def match_line(met: Pairing) -> str:
    """`update-00000200 against update-00000100: 12 won, 1 drawn, 7 lost`."""
    counts = f"{met.wins} won, {met.draws} drawn, {met.losses} lost"
    return f"{met.player} against {met.opponent}: {counts}"


def tournament_text(tournament: Tournament) -> str:
    """A table for people, oldest first."""
    lines = [f"{'checkpoint':<16} {'steps':>14} {'score':>6} {'rating':>7}  interval"]
    for entrant, rating in zip(tournament.entrants, tournament.ratings, strict=True):
        points, games = _score_of(tournament, entrant.player.name)
        lines.append(
            f"{entrant.player.name:<16} {entrant.steps:>14,} {points / games:>6.0%} "
            f"{rating.value:>7.0f}  [{rating.low:.0f}, {rating.high:.0f}]"
        )
    return "\n".join([*lines, "The oldest checkpoint is 0."])


def tournament_report(tournament: Tournament) -> dict[str, Any]:
    """Everything, ready for JSON."""
    return {
        "checkpoints": [
            {"name": entrant.player.name, "steps": entrant.steps, "rating": rating._asdict()}
            for entrant, rating in zip(tournament.entrants, tournament.ratings, strict=True)
        ],
        "results": [met._asdict() for met in tournament.results],
    }
