"""What `keisei evaluate` does: a match from its settings, kept, resumed and stopped early."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

import torch

from keisei.evaluation.match import play_match
from keisei.evaluation.match_files import MatchFolder
from keisei.evaluation.match_result import MatchResult, PlayedGame
from keisei.evaluation.openings import Openings, book_openings, random_openings
from keisei.evaluation.opponents import checkpoint_of, make_player
from keisei.evaluation.players import Player, close_player
from keisei.evaluation.sprt import Sprt
from keisei.evaluation.statistics import report, summary_text

OpeningKind = Literal["book", "random"]
_RANDOM_OPENING_PLIES = 8
_ROWS_FOR_SPRT = 32
"""Games that run when a test ends are lost, so fewer run side by side."""


def opening_kind(name: str) -> OpeningKind:
    """The kind of openings of that name."""
    if name not in get_args(OpeningKind):
        raise ValueError(f"openings are {' or '.join(get_args(OpeningKind))}, not {name!r}")
    return cast(OpeningKind, name)


@dataclass(frozen=True)
class MatchSettings:
    """All that decides which games are played."""

    player: str
    opponent: str
    games: int
    seed: int = 1
    openings: OpeningKind = "book"
    random_plies: int | None = None
    """Random plies after an opening of the book; how many random openings have at most."""
    max_moves: int = 512
    sprt: tuple[float, float] | None = None

    def make_openings(self) -> Openings:
        """One opening for each two games."""
        pairs = max(1, self.games // 2)
        if self.openings == "book":
            return book_openings(pairs, random_plies=self.random_plies, seed=self.seed)
        plies = _RANDOM_OPENING_PLIES if self.random_plies is None else self.random_plies
        return random_openings(pairs, most_plies=plies, seed=self.seed)


class Arena:
    """One match and what is known of it so far."""

    def __init__(self, settings: MatchSettings, *, save: Path | None = None) -> None:
        self._settings = settings
        self._sprt = None if settings.sprt is None else Sprt(*settings.sprt)
        self._folder = None if save is None else _folder(settings, save)
        self.played: dict[int, PlayedGame] = {}
        for number, game in ({} if self._folder is None else self._folder.played).items():
            self._count(number, game)

    def play(
        self, device: torch.device, on_progress: Callable[[int], None], *, threads: int = 1
    ) -> bool:
        """Play what is left to play; False when Ctrl-C ended it.

        on_progress: told how many games are over whenever some are. threads: what a model computes
        with on a CPU.
        """
        if len(self.played) == self._settings.games or self._is_decided:
            return True
        players: list[Player] = []
        threads_before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            for index, spec in enumerate((self._settings.player, self._settings.opponent)):
                players.append(make_player(spec, self._settings.seed + index, device))
            self._play(players[0], players[1], on_progress)
        except KeyboardInterrupt:
            return False
        finally:
            for player in players:
                close_player(player)
            torch.set_num_threads(threads_before)
        return True

    def _play(self, player: Player, opponent: Player, on_progress: Callable[[int], None]) -> None:
        def on_game(number: int, game: PlayedGame) -> bool:
            if self._folder is not None:
                self._folder.add(number, game)
            self._count(number, game)
            on_progress(len(self.played))
            return self._is_decided

        play_match(
            player,
            opponent,
            games=self._settings.games,
            seed=self._settings.seed,
            openings=self._settings.make_openings(),
            max_moves=self._settings.max_moves,
            rows=_ROWS_FOR_SPRT if self._sprt is not None else None,
            played=dict(self.played),
            on_game=on_game,
        )

    def _count(self, number: int, game: PlayedGame) -> None:
        self.played[number] = game
        if self._sprt is not None:
            self._sprt.add(number, game)

    @property
    def _is_decided(self) -> bool:
        return self._sprt is not None and self._sprt.verdict is not None

    def result(self) -> MatchResult:
        """The games that are over."""
        games = tuple(self.played[number] for number in sorted(self.played))
        return MatchResult(self._settings.player, self._settings.opponent, games)

    def words_when_stopped(self) -> str:
        """What a person who pressed Ctrl-C wants to know."""
        over = f"Stopped after {len(self.played)} of {self._settings.games} games. "
        if self._folder is None:
            return over + "They are not kept; with --save FOLDER a match can go on.\n"
        return over + "They are kept; give the same command again to go on.\n"

    def text(self) -> str:
        """A few lines for people."""
        lines = [summary_text(self.result())]
        return "\n".join(lines if self._sprt is None else [*lines, self._sprt.text()])

    def report(self) -> dict[str, Any]:
        """The same and more, ready for JSON."""
        test = {} if self._sprt is None else {"sprt": self._sprt.report()}
        return {**report(self.result()), **test}


def _folder(settings: MatchSettings, path: Path) -> MatchFolder:
    """The folder of a match; the weights of a run's best checkpoint are part of its settings."""
    specs = (settings.player, settings.opponent)
    weights = {"weights": [checkpoint_of(spec) for spec in specs]}
    return MatchFolder(path, {**asdict(settings), **weights}, specs)
