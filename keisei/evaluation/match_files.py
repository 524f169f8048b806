"""The folder of a match: its settings, every finished game, and the games as KIF and CSA.

`games.jsonl` has one line for each game, written when it is over; a match that was stopped goes on
from there. `kif/game-0001.kif` and `csa/game-0001.csa` are game number 1, the first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keisei.evaluation.match_result import PlayedGame, as_record
from keisei.evaluation.players import NoMove
from keisei.shogi.judging import Reason
from keisei.shogi.notation.conversion import write_games

_SETTINGS = "match.json"
_GAMES = "games.jsonl"


class MatchFolder:
    """Where the games of one match are kept."""

    def __init__(self, path: Path, settings: Mapping[str, Any], names: tuple[str, str]) -> None:
        """Begin a match in a new folder, or go on with the one that is there.

        names: of the player and the opponent, for the records.
        """
        self._path = path
        self._names = names
        for folder in (path, path / "kif", path / "csa"):
            folder.mkdir(parents=True, exist_ok=True)
        self.played = self._read_games()
        """The games that are over, by number."""
        self._check_settings(json.loads(json.dumps(settings)))

    def _check_settings(self, settings: dict[str, Any]) -> None:
        """Keep the settings of a new match; those of one with games must be the same."""
        file = self._path / _SETTINGS
        if not self.played:
            file.write_text(json.dumps(settings, indent=1) + "\n", "utf-8")
            return
        before = _json_of(file, file.read_text("utf-8") if file.exists() else "")
        changed = [name for name in settings if settings[name] != before.get(name)]
        if changed:
            raise ValueError(
                f"{self._path} holds a match with another {changed[0]} "
                f"({before.get(changed[0])}): give the same arguments, or another folder"
            )

    def _read_games(self) -> dict[int, PlayedGame]:
        """The games on file; a last line that was cut short by a kill is removed from it."""
        file = self._path / _GAMES
        text = file.read_text("utf-8") if file.exists() else ""
        whole = text[: text.rfind("\n") + 1]
        if whole != text:
            file.write_text(whole, "utf-8")
        return dict(_read_game(file, line) for line in whole.splitlines())

    def add(self, number: int, game: PlayedGame) -> None:
        """Keep a game; its line comes last, so that a game with a line has all its files."""
        record = as_record(game, *self._names)
        name = f"game-{number + 1:04}"
        write_games([record], "kif", self._path / "kif" / f"{name}.kif")
        write_games([record], "csa", self._path / "csa" / f"{name}.csa")
        with (self._path / _GAMES).open("a", encoding="utf-8") as file:
            file.write(json.dumps(_as_json(number, game)) + "\n")
        self.played[number] = game


def _as_json(number: int, game: PlayedGame) -> dict[str, Any]:
    return {
        "game": number + 1,
        "player_colour": game.player_colour,
        "winner": game.winner,
        "outcome": game.outcome,
        "reason": game.reason.name.lower(),
        "opening_plies": game.opening_plies,
        "moves": " ".join(game.moves),
    }


def _read_game(file: Path, line: str) -> tuple[int, PlayedGame]:
    entry = _json_of(file, line)
    try:
        name = entry["reason"].upper()
        return entry["game"] - 1, PlayedGame(
            moves=tuple(entry["moves"].split()),
            opening_plies=entry["opening_plies"],
            player_colour=entry["player_colour"],
            winner=entry["winner"],
            reason=Reason[name] if name in Reason.__members__ else NoMove[name],
        )
    except (KeyError, AttributeError, TypeError):
        raise ValueError(f"{file} has a line that is not a game: {line[:60]}") from None


def _json_of(file: Path, text: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise ValueError(f"{file} does not hold a JSON object where one should be: {text[:60]!r}")
    return content
