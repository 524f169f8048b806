"""`keisei evaluate`: matches that are kept, stopped by Ctrl-C or by a test, and go on."""

import json
import signal
import subprocess
import time

import psutil
import pytest
import torch

from keisei.evaluation.arena import Arena, MatchSettings
from keisei.shogi.notation.conversion import read_games
from tests.evaluation.engines import FAKE_ENGINE, fake_spec
from tests.signals import heed_ctrl_c
from tests.training.command_line import KEISEI, assert_one_sentence, keisei

CPU = torch.device("cpu")


def played(settings, save=None):
    """The arena after its match, and how many games were over whenever some were."""
    told = []
    arena = Arena(settings, save=save)
    assert arena.play(CPU, told.append)
    return arena, told


def engines():
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if str(FAKE_ENGINE) in (process.info["cmdline"] or [])
    ]


def test_a_match_from_the_book_has_even_openings_and_both_colours():
    arena, told = played(MatchSettings("greedy", "random", games=20))
    result = arena.result()
    assert told == sorted(told)
    assert told[-1] == len(result.games) == 20
    for one, other in zip(result.games[::2], result.games[1::2], strict=True):
        assert one.moves[: one.opening_plies] == other.moves[: other.opening_plies]
        assert 8 <= one.opening_plies <= 20
    assert result.tally().wins >= 17


def test_random_openings_are_of_the_lengths_asked_for():
    settings = MatchSettings("random", "random", 20, openings="random", random_plies=4)
    arena, _ = played(settings)
    assert {game.opening_plies for game in arena.result().games} == {2, 3, 4}


def test_the_seed_decides_the_games():
    first, same, other = (
        played(MatchSettings("greedy", "random", 6, seed))[0].result() for seed in (1, 1, 2)
    )
    assert first == same
    assert first != other


def test_a_clear_match_is_stopped_by_the_test_and_stays_stopped(tmp_path):
    settings = MatchSettings("greedy", "random", games=400, sprt=(0, 100))
    arena, _ = played(settings, tmp_path)
    found = arena.report()
    assert found["sprt"]["verdict"] == "stronger"
    assert found["games"] < 200
    assert arena.text().splitlines()[-1].startswith("SPRT +0, +100: stronger after ")
    again, told = played(settings, tmp_path)
    assert (again.report()["sprt"], told) == (found["sprt"], [])


def test_a_kept_match_goes_on_where_it_was(tmp_path):
    settings = MatchSettings("greedy", "random", games=8)
    whole, _ = played(settings, tmp_path)
    lines = (tmp_path / "games.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "games.jsonl").write_text("".join(lines[:5]))
    again, told = played(settings, tmp_path)
    assert told[0] == 6
    assert told[-1] == 8
    kept = [json.loads(line)["game"] - 1 for line in lines[:5]]
    assert all(again.played[number] == whole.played[number] for number in kept)
    assert len(list((tmp_path / "kif").iterdir())) == len(list((tmp_path / "csa").iterdir())) == 8
    assert len(read_games(tmp_path / "kif" / "game-0001.kif")[0].moves) == len(
        again.played[0].moves
    )


def test_a_finished_match_is_read_and_not_played_again(tmp_path):
    settings = MatchSettings("greedy", "random", games=4)
    first, _ = played(settings, tmp_path)
    second, told = played(settings, tmp_path)
    assert told == []
    assert second.report() == first.report()


def test_ctrl_c_keeps_what_is_finished_ends_the_engines_and_says_how_to_go_on(tmp_path):
    folder = tmp_path / "match"
    engine = fake_spec("slow", tmp_path / "mark")
    words = ["evaluate", engine, "--against", "random", "--games", "12", "--save", str(folder)]
    first = subprocess.Popen(
        [KEISEI, *words],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_ctrl_c,  # noqa: PLW1509
    )
    games = folder / "games.jsonl"
    deadline = time.monotonic() + 60
    while not games.exists() or not games.read_text():
        assert first.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    first.send_signal(signal.SIGINT)
    _, said = first.communicate(timeout=60)
    over = len(games.read_text().splitlines())
    assert (first.returncode, 1 <= over < 12) == (130, True)
    assert f"Stopped after {over} of 12 games. They are kept" in said
    assert not any(str(tmp_path / "mark") in process.info["cmdline"] for process in engines())

    second = keisei(*words, "--json")
    assert second.returncode == 0
    assert json.loads(second.stdout)["games"] == 12
    assert len(games.read_text().splitlines()) == 12


def test_other_arguments_for_the_same_folder_are_one_sentence(tmp_path):
    played(MatchSettings("greedy", "random", games=2), tmp_path)
    said = keisei("evaluate", "greedy", "--games", 2, "--save", tmp_path, "--seed", 5)
    assert_one_sentence(said, tmp_path, "another seed (1)")


def test_openings_that_nobody_knows_are_one_sentence():
    said = keisei("evaluate", "greedy", "--openings", "mine")
    assert_one_sentence(said, "openings are book or random, not 'mine'")


def test_an_odd_number_of_games_is_refused():
    with pytest.raises(ValueError, match="games must be an even number"):
        played(MatchSettings("greedy", "random", games=5))
