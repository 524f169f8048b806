"""`keisei usi` as programs start it: a real process with pipes."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from keisei.play.model_choice import choose_model
from keisei.play.usi_launcher import write_launcher
from keisei.shogi.shogi_game import ShogiGame
from tests.play.usi_talk import KEISEI, PATIENCE_S, engine_process, save_small_model

cshogi = pytest.importorskip("cshogi")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_small_model(tmp_path_factory.mktemp("model"))


def test_a_whole_conversation(model, tmp_path):
    log = tmp_path / "log"
    with engine_process(model, "--log", log) as (process, talk):
        talk.say("usi")
        talk.hear("usiok")
        talk.say("setoption name USI_Hash value 16", "isready")
        talk.hear("readyok")
        talk.say("usinewgame")
        answer = talk.ask("position startpos moves 7g7f", "go btime 0 wtime 0 byoyomi 300")
        game = ShogiGame()
        game.make_move("7g7f")
        assert game.is_legal(answer.split()[1])
        talk.say("gameover win", "quit")
        assert process.wait(PATIENCE_S) == 0
        assert process.stderr.read() == b""
    lines = log.read_text().splitlines()
    assert lines[0].endswith(" < usi")
    assert any(line.endswith(f" > {answer}") for line in lines)


def test_twenty_games_against_itself_by_cshogis_client(model, tmp_path, capsys):
    from cshogi import cli

    launcher = tmp_path / "keisei engine"
    write_launcher(launcher, model)
    result = cli.main(
        str(launcher),
        str(launcher),
        options1={"Nodes": 20, "Temperature": 100, "Seed": 1},
        options2={"Nodes": 0, "Temperature": 100, "Seed": 2},
        games=20,
        byoyomi=2000,
        draw=100,
        keep_process=True,
        print_summary=False,
    )
    endings = [line for line in capsys.readouterr().out.splitlines() if line.startswith("まで")]
    assert len(endings) == result["total"] == 20
    fouls = ("反則負け", "切れ負け")
    assert not [line for line in endings if any(foul in line for foul in fouls)]


def seconds_of_moves(model, count):
    """Play both sides of games at 2 s a move; how long each answer took."""
    taken, moves = [], []
    with engine_process(model) as (_, talk):
        talk.say("usi", "isready")
        talk.hear("readyok")
        while len(taken) < count:
            before = time.monotonic()
            answer = talk.ask(
                " ".join(["position startpos moves", *moves]), "go btime 0 wtime 0 byoyomi 2000"
            )
            taken.append(time.monotonic() - before)
            moves.append(answer.split()[1])
            if moves[-1] in ("resign", "win"):
                moves = []
    return taken


@pytest.mark.timeout(900)
def test_two_seconds_are_kept_in_two_hundred_moves_under_load():
    """Four engines with the packaged network, beside as many busy processes as there are cores."""
    busy = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(os.cpu_count() or 1)
    ]
    try:
        with ThreadPoolExecutor(4) as pool:
            taken = list(pool.map(seconds_of_moves, [choose_model(None)] * 4, [50] * 4))
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert [len(times) for times in taken] == [50] * 4
    assert max(max(times) for times in taken) < 2.0


def test_quit_ends_it_in_the_middle_of_a_search(model):
    with engine_process(model) as (process, talk):
        talk.say("isready")
        talk.hear("readyok")
        talk.say("position startpos", "go infinite")
        talk.hear("info depth")
        talk.say("quit")
        assert process.wait(PATIENCE_S) == 0


def test_quit_does_not_wait_for_a_network_that_loads(model):
    with engine_process(model) as (process, talk):
        talk.say("usi", "isready", "quit")
        assert process.wait(PATIENCE_S) == 0
        assert process.stderr.read() == b""


@pytest.mark.parametrize("goes", [[], ["isready", "position startpos", "go infinite"]])
def test_the_end_of_the_input_ends_it(model, goes):
    with engine_process(model) as (process, talk):
        talk.say("usi", *goes)
        talk.hang_up()
        assert process.wait(PATIENCE_S) == 0


def test_a_program_that_went_away_is_no_reason_for_a_traceback(model):
    process = subprocess.Popen(
        [*KEISEI, "usi", str(model)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()
    _, errors = process.communicate(b"usi\nisready\ngo nodes 3\n", timeout=PATIENCE_S)
    assert (process.returncode, errors) == (0, b"")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")
@pytest.mark.parametrize(
    ("said", "heard", "sent", "code"),
    [
        ("isready\ngo infinite", "info depth", signal.SIGINT, 130),
        ("usi", "usiok", signal.SIGINT, 130),
        ("usi", "usiok", signal.SIGTERM, -signal.SIGTERM),
    ],
)
def test_signals_end_it_without_a_traceback(model, said, heard, sent, code):
    with engine_process(model) as (process, talk):
        talk.say(said)
        talk.hear(heard)
        process.send_signal(sent)
        assert process.wait(PATIENCE_S) == code
        assert process.stderr.read() == b""


def keisei_usi(*arguments, folder=None, text=""):
    return subprocess.run(
        [*KEISEI, "usi", *map(str, arguments)],
        input=text,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_model_that_cannot_be_read_is_one_sentence(tmp_path):
    (tmp_path / "state.json").write_text("{}")
    run = keisei_usi(tmp_path, text="usi\nisready\n")
    assert run.returncode == 2
    assert run.stderr.count("\n") == 1
    assert run.stderr.startswith("keisei: ")
    assert run.stdout.splitlines()[-1].startswith("info string the engine ends: ")
    missing = keisei_usi(tmp_path / "nowhere")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "nowhere is not a run" in missing.stderr


@pytest.mark.skipif(os.name == "nt", reason="a shell script")
def test_a_launcher_starts_the_engine_from_anywhere(model, tmp_path):
    launcher = tmp_path / "the engine"
    run = keisei_usi(model, "--launcher", launcher)
    assert (run.returncode, run.stderr) == (0, "")
    answered = subprocess.run(
        [launcher], input="usi\nquit\n", cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert answered.stdout.endswith("usiok\n")


def test_a_launcher_for_windows_is_a_batch_file(model, tmp_path):
    write_launcher(tmp_path / "keisei.bat", model, windows=True)
    text = (tmp_path / "keisei.bat").read_bytes().decode()
    assert text.startswith("@echo off\r\n")
    assert f'usi "{Path(model).resolve()}" %*' in text
    with pytest.raises(ValueError, match=r"use keisei\.bat"):
        write_launcher(tmp_path / "keisei.exe", model, windows=True)
