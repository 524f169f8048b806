"""The ladder: a player meets rungs near its own strength until its rating is known well enough.

The rungs' ratings make the scale and stay as they are, so that players rated on different days can
be compared; the interval of a rating says how sure it is on that scale.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from statistics import median
from typing import Any

from keisei.core.ppo_agent import PPOAgent
from keisei.evaluation.ladder_rungs import BUILT_IN, Rung, rungs
from keisei.evaluation.match import play_match
from keisei.evaluation.model_player import ModelPlayer
from keisei.evaluation.opponents import make_player
from keisei.evaluation.players import Player, close_player
from keisei.evaluation.ratings import Pairing, Rating, expected_score, fit_ratings
from keisei.training.evaluator import Evaluation

GAMES_A_VISIT = 10
_SEEDS_A_VISIT = 1000  # the openings of two visits come from seeds this far apart


@dataclass(frozen=True)
class Visit:
    """All games against one rung."""

    rung: Rung
    results: Pairing


@dataclass(frozen=True)
class LadderResult:
    """Where a player stands on the ladder."""

    player: str
    rating: Rating
    visits: tuple[Visit, ...]
    """Weakest rung first."""

    @property
    def games(self) -> int:
        """How many games were played."""
        return sum(visit.results.games for visit in self.visits)


class LadderError(ValueError):
    """A ladder that cannot be played."""


def climb(
    player: Player,
    ladder: Sequence[Rung],
    *,
    games: int,
    seed: int,
    precision: float = 0.0,
    on_visit: Callable[[LadderResult], None] = lambda result: None,
    on_missing: Callable[[str], None] = lambda sentence: None,
) -> LadderResult:
    """Play up to `games` games, ten at a time, from the middle of the ladder up or down.

    It ends early when the rating is known to `precision` points either side. The next rung is the
    one whose games say most: near the player's strength, and not met too often. `on_missing` is
    told of rungs that were wanted and cannot be played here.
    """
    if games < GAMES_A_VISIT:
        raise LadderError(f"a ladder takes at least {GAMES_A_VISIT} games, not {games}")
    with closing(_Climb(player, ladder, seed, on_missing)) as climber:
        for _ in range(games // GAMES_A_VISIT):
            climber.visit()
            standing = climber.standing()
            on_visit(standing)
            if standing.rating.high - standing.rating.value <= precision:
                break
    return standing


class _Climb:
    """A player on its way, the rungs it met and those that it still may meet."""

    def __init__(
        self, player: Player, ladder: Sequence[Rung], seed: int, on_missing: Callable[[str], None]
    ) -> None:
        self._player, self._seed, self._on_missing = player, seed, on_missing
        self._ladder = list(ladder)
        self._opponents: dict[str, Player] = {}
        self._results: dict[str, Pairing] = {}
        self._visits = 0

    def visit(self) -> None:
        """Play some games against the rung that tells most."""
        rung = self._next_rung()
        tally = play_match(
            self._player,
            self._opponents[rung.name],
            games=GAMES_A_VISIT,
            seed=self._seed + _SEEDS_A_VISIT * self._visits,
        ).tally()
        self._visits += 1
        before = self._results.get(rung.name, Pairing("", rung.name, 0, 0, 0))
        self._results[rung.name] = before._replace(
            wins=before.wins + tally.wins,
            draws=before.draws + tally.draws,
            losses=before.losses + tally.losses,
        )

    def _next_rung(self) -> Rung:
        """The rung that tells most of those whose player can be had."""
        while self._ladder:
            rung = max(self._ladder, key=self._told_by_a_visit())
            if rung.name in self._opponents:
                return rung
            try:
                self._opponents[rung.name] = make_player(rung.spec, self._seed)
                return rung
            except ValueError as error:
                self._ladder.remove(rung)
                self._on_missing(f"The rung {rung.name} is left out: {error}")
        raise LadderError("no rung of the ladder can be played here")

    def _told_by_a_visit(self) -> Callable[[Rung], float]:
        """How much games against a rung say, and less the more there were."""
        if self._results:
            estimate = self._rating().value
        else:
            estimate = median(rung.rating.value for rung in self._ladder)

        def told(rung: Rung) -> float:
            score = expected_score(estimate, rung.rating.value)
            met = self._results[rung.name].games if rung.name in self._results else 0
            return score * (1 - score) / (met + GAMES_A_VISIT)

        return told

    def _rating(self) -> Rating:
        """The player's rating, the rungs' being given."""
        scale = {rung.name: rung.rating.value for rung in self._ladder}
        return fit_ratings(self._results.values(), scale)[""]  # a name that no rung has

    def standing(self) -> LadderResult:
        """Where the player stands now."""
        met = [rung for rung in self._ladder if rung.name in self._results]
        visits = [Visit(rung, self._results[rung.name]) for rung in met]
        return LadderResult(self._player.name, self._rating(), tuple(visits))

    def close(self) -> None:
        """End the processes of the rungs."""
        for opponent in self._opponents.values():
            close_player(opponent)


def rate_for_training(agent: PPOAgent, *, games: int, seed: int) -> Evaluation:
    """A rating from the cheap rungs, for the curve of a training run."""
    result = climb(ModelPlayer(agent, "keisei"), rungs(BUILT_IN), games=games, seed=seed)
    value, low, high = result.rating
    return Evaluation(
        opponent="ladder",
        line=standing_line(result),
        figures={"rating": value, "rating_low": low, "rating_high": high},
    )


def standing_line(result: LadderResult) -> str:
    """`rating 812 [760, 864] after 60 games`."""
    value, low, high = result.rating
    return f"rating {value:.0f} [{low:.0f}, {high:.0f}] after {result.games} games"


def ladder_text(result: LadderResult) -> str:
    """A table for people: every rung that was met, then the rating."""
    lines = [
        f"{'rung':<14} {'rating':>6} {'won':>5} {'drawn':>5} {'lost':>5} {'score':>6}  expected"
    ]
    for rung, met in ((visit.rung, visit.results) for visit in result.visits):
        expected = expected_score(result.rating.value, rung.rating.value)
        lines.append(
            f"{rung.name:<14} {rung.rating.value:>6.0f} {met.wins:>5} {met.draws:>5} "
            f"{met.losses:>5} {met.points / met.games:>6.0%}  {expected:>8.0%}"
        )
    return "\n".join([*lines, f"{result.player}: {standing_line(result)}; random is 0"])


def ladder_report(result: LadderResult) -> dict[str, Any]:
    """Everything, ready for JSON."""
    return {
        "player": result.player,
        "rating": result.rating._asdict(),
        "games": result.games,
        "rungs": [
            {
                "name": visit.rung.name,
                "spec": visit.rung.spec,
                "rating": visit.rung.rating._asdict(),
                "wins": visit.results.wins,
                "draws": visit.results.draws,
                "losses": visit.results.losses,
            }
            for visit in result.visits
        ],
    }
