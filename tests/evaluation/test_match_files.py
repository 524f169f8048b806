"""The folder of a match: every game in three forms, and back."""

import json

import pytest

from keisei.evaluation.match_files import MatchFolder
from keisei.evaluation.match_result import PlayedGame, as_record
from keisei.evaluation.players import NoMove
from keisei.shogi.judging import Reason
from keisei.shogi.notation.conversion import read_games

NAMES = ("ours", "usi:fairy-stockfish?Skill Level=-20&depth=1")
SETTINGS = {"player": "ours", "games": 4, "sprt": (0, 50), "random_plies": None}
GAMES = {
    2: PlayedGame(("7g7f", "3c3d", "2g2f"), 2, 0, 0, NoMove.CRASHED),
    0: PlayedGame(("7g7f", "3c3d"), 2, 0, None, Reason.MAX_MOVES),
    1: PlayedGame(("2g2f",), 1, 1, 0, Reason.CHECKMATE),
}


@pytest.fixture
def folder(tmp_path):
    kept = MatchFolder(tmp_path / "match", SETTINGS, NAMES)
    for number, game in GAMES.items():
        kept.add(number, game)
    return tmp_path / "match"


def test_the_games_are_there_when_the_match_goes_on(folder):
    assert MatchFolder(folder, SETTINGS, NAMES).played == GAMES


@pytest.mark.parametrize("record_format", ["kif", "csa"])
def test_each_game_is_a_record_that_can_be_read(folder, record_format):
    for number, game in GAMES.items():
        path = folder / record_format / f"game-{number + 1:04}.{record_format}"
        (record,) = read_games(path)
        written = as_record(game, *NAMES)
        assert [move.usi for move in record.moves] == list(game.moves)
        assert record.winner == written.winner == game.winner
        assert record.headers["black"] == written.headers["black"]


def test_a_line_says_what_happened(folder):
    lines = (folder / "games.jsonl").read_text().splitlines()
    assert json.loads(lines[0]) == {
        "game": 3,
        "player_colour": 0,
        "winner": 0,
        "outcome": "win",
        "reason": "crashed",
        "opening_plies": 2,
        "moves": "7g7f 3c3d 2g2f",
    }


@pytest.mark.parametrize("lost", [1, 20])
def test_a_line_that_was_cut_short_is_a_game_to_be_played_again(folder, lost):
    file = folder / "games.jsonl"
    file.write_bytes(file.read_bytes()[:-lost])
    kept = MatchFolder(folder, SETTINGS, NAMES)
    assert set(kept.played) == {2, 0}
    kept.add(1, GAMES[1])
    assert MatchFolder(folder, SETTINGS, NAMES).played == GAMES


def test_another_match_in_the_same_folder_is_one_sentence(folder):
    with pytest.raises(ValueError, match=r"holds a match with another games \(4\)"):
        MatchFolder(folder, {**SETTINGS, "games": 6}, NAMES)


def test_a_folder_without_games_takes_any_match(tmp_path):
    MatchFolder(tmp_path, SETTINGS, NAMES)
    kept = MatchFolder(tmp_path, {**SETTINGS, "games": 6}, NAMES)
    kept.add(0, GAMES[0])
    assert MatchFolder(tmp_path, {**SETTINGS, "games": 6}, NAMES).played == {0: GAMES[0]}


def test_games_without_their_settings_are_one_sentence(folder):
    (folder / "match.json").unlink()
    with pytest.raises(ValueError, match=r"match\.json does not hold a JSON object"):
        MatchFolder(folder, SETTINGS, NAMES)


@pytest.mark.parametrize("line", ["{}", "[1]", "nonsense", '{"game": 1, "reason": "boredom"}'])
def test_a_damaged_line_is_one_sentence(folder, line):
    file = folder / "games.jsonl"
    file.write_text(line + "\n" + file.read_text())
    with pytest.raises(
        ValueError,
        match=r"games\.jsonl (has a line that is not a game|does not hold a JSON object)",
    ):
        MatchFolder(folder, SETTINGS, NAMES)
