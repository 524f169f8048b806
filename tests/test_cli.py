"""The `keisei` command as people run it: real processes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from keisei.bench.verbs import bench_app
from keisei.cli import app
from keisei.shogi.sfen import START_SFEN
from tests.signals import heed_ctrl_c

KEISEI = Path(sys.executable).parent / "keisei"
SECONDS_TO_START = 2.5
"""Of processor time; it counts by then."""
RECORDS = Path(__file__).parent / "shogi" / "notation" / "records"


def keisei(*arguments, text=None):
    return subprocess.run(
        [KEISEI, *map(str, arguments)], input=text, capture_output=True, text=True, check=False
    )


def assert_one_sentence(run):
    assert run.returncode == 2
    assert run.stdout == ""
    assert run.stderr.startswith("keisei: ")
    assert run.stderr.count("\n") == 1
    assert "Traceback" not in run.stderr


def test_perft_prints_the_count():
    assert keisei("perft", "--depth", 5).stdout == "19861490\n"
    sfen = "4k4/9/9/9/9/9/9/9/4K4 w 2r2b4g4s4n4l18p 1"
    assert keisei("perft", "--sfen", sfen, "--depth", 2).stdout == "2410\n"


def test_a_bad_position_gets_one_sentence():
    run = keisei("perft", "--sfen", "nonsense", "--depth", 2)
    assert_one_sentence(run)
    assert "nonsense" in run.stderr


def test_position_answers_line_by_line_and_goes_on_after_errors():
    questions = [
        {},
        {"moves": ["7g7f"]},
        {"moves": ["7g7e"]},
        {"sfen": "bad"},
        {"sfen": "7lk/9/8G/9/9/9/9/9/4K4 b L 1", "moves": ["L*1b"]},
        {"sfen": "k8/9/G8/9/9/9/9/9/1R2K4 b - 1", "moves": ["5i5h"]},
        {"moves": ["2h3h", "8b7b", "3h2h", "7b8b"] * 3},
        {
            "sfen": "4k4/9/9/9/5R3/9/9/9/4K4 b - 1",
            "moves": ["4e5e", "5a4a", "5e4e", "4a5a"] * 3,
        },
        {"sfen": 3},
        {"moves": "7g7f"},
        {"move": ["7g7f"]},
        [],
    ]
    lines = [json.dumps(question) for question in questions] + ["not json", "", "{}"]
    run = keisei("position", text="\n".join(lines) + "\n")
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    assert run.returncode == 0
    assert len(answers) == len(questions) + 2
    first = answers[0]
    assert first["sfen"] == START_SFEN
    assert len(first["legal"]) == 30
    assert first["legal"] == sorted(first["legal"])
    assert {key: first[key] for key in ("in_check", "over", "winner", "reason")} == {
        "in_check": False,
        "over": False,
        "winner": None,
        "reason": None,
    }
    assert first["declaration"] == {"27": "none", "24": "none"}
    assert answers[1]["sfen"].endswith("w - 2")
    assert "7g7e" in answers[2]["error"]
    assert "error" in answers[3]
    verdicts = [(a["over"], a["winner"], a["reason"]) for a in answers[4:8]]
    assert verdicts == [
        (True, "black", "checkmate"),
        (True, "black", "no_legal_moves"),
        (True, None, "repetition"),
        (True, "white", "perpetual_check"),
    ]
    assert all(list(answer) == ["error"] for answer in answers[8:13])
    assert answers[13] == first


def test_position_reports_the_move_limit():
    question = wandering_kings(512)
    answer = json.loads(keisei("position", text=json.dumps(question) + "\n").stdout)
    assert (answer["over"], answer["winner"], answer["reason"]) == (True, None, "max_moves")


def wandering_kings(plies):
    """Two kings, each on a long closed walk through its own half, of different lengths."""
    black = [
        f"{file}{rank}"
        for rank, files in (("i", range(1, 10)), ("h", range(9, 0, -1)))
        for file in files
    ]
    white = [
        f"{file}{rank}"
        for rank, files in (("a", range(1, 9)), ("b", range(8, 0, -1)))
        for file in files
    ]
    walks = (black, white)
    moves = []
    for ply in range(plies):
        walk, step = walks[ply % 2], ply // 2
        moves.append(walk[step % len(walk)] + walk[(step + 1) % len(walk)])
    return {"sfen": "8k/9/9/9/9/9/9/9/8K b - 1", "moves": moves}


def test_convert_turns_a_record_into_every_format(tmp_path):
    source = sorted(RECORDS.glob("*.kifu"))[0]
    usi = keisei("convert", source, "--to", "usi").stdout
    assert usi.startswith("position ")
    for name in ("kif", "kifu", "csa", "usi", "sfen"):
        target = tmp_path / f"game.{name}"
        assert keisei("convert", source, "--to", name, target).returncode == 0
        assert keisei("convert", target, "--to", "usi").stdout == usi


@pytest.mark.parametrize(
    "arguments",
    [
        ("missing.kif", "--to", "csa"),
        (Path(__file__), "--to", "csa"),
        (Path(__file__).parent, "--to", "csa"),
        ("record", "--to", "pgn"),
        ("record", "--to", "csa", "/no/such/folder/out.csa"),
    ],
)
def test_convert_refuses_bad_input_in_one_sentence(arguments):
    record = sorted(RECORDS.glob("*.kifu"))[0]
    assert_one_sentence(keisei("convert", *(record if a == "record" else a for a in arguments)))


def every_verb():
    """The words of each command that the command line has."""
    for application, words in ((app, ()), (bench_app, ("bench",))):
        for command in application.registered_commands:
            yield *words, command.name or command.callback.__name__


@pytest.mark.parametrize("verb", list(every_verb()), ids=" ".join)
def test_every_verb_has_help_with_an_example(verb):
    result = CliRunner().invoke(app, [*verb, "--help"])
    assert result.exit_code == 0
    assert f"Example: keisei {' '.join(verb)}" in result.output or "| keisei" in result.output


def test_ctrl_c_ends_a_long_perft_quietly():
    process = subprocess.Popen(
        [KEISEI, "perft", "--depth", "8"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_ctrl_c,  # noqa: PLW1509
    )
    while sum(psutil.Process(process.pid).cpu_times()[:2]) < SECONDS_TO_START:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert output == ""
    assert "Traceback" not in errors
