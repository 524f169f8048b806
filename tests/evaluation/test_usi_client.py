"""Specifications of USI engines, and what is said to them."""

import pytest

from keisei.evaluation import usi_client
from keisei.evaluation.engine_process import EngineError
from keisei.evaluation.players import NoMove
from keisei.evaluation.usi_client import UsiEngine, UsiSettings, parse_usi
from tests.evaluation.engines import fake_spec


def engine(behaviour, file=None, settings="timeout=20"):
    return UsiEngine(parse_usi(fake_spec(behaviour, file, settings).removeprefix("usi:")))


def test_limits_are_told_from_options():
    settings = parse_usi("fairy-stockfish?Skill Level=-10&depth=1&Threads=2&timeout=2.5")
    assert settings == UsiSettings(
        command=("fairy-stockfish",),
        options={"Skill Level": "-10", "Threads": "2"},
        limits={"depth": 1},
        timeout=2.5,
    )


@pytest.mark.parametrize(
    ("text", "go", "timeout"),
    [
        ("engine?depth=3&nodes=500", "go depth 3 nodes 500", 60),
        ("engine?movetime=2000", "go movetime 2000", 12),
        ("engine?byoyomi=500", "go btime 0 wtime 0 byoyomi 500", 10.5),
        ("engine", "go btime 0 wtime 0 byoyomi 1000", 11),
    ],
)
def test_limits_become_the_words_of_go(text, go, timeout):
    settings = parse_usi(text)
    assert (settings.go, settings.timeout) == (go, timeout)


def test_a_command_may_have_arguments():
    assert parse_usi("'my engine' --book none?depth=1").command == ("my engine", "--book", "none")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("?depth=1", "needs a command"),
        ("'engine", "cannot be read"),
        ("engine?depth", "'depth' is not a setting of an engine"),
        ("engine?depth=0", "depth must be a whole number above 0, not '0'"),
        ("engine?nodes=many", "nodes must be a whole number above 0"),
        ("engine?timeout=nan", "timeout must be a number of seconds above 0"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(text, sentence):
    with pytest.raises(ValueError, match=sentence):
        parse_usi(text)


def test_a_game_is_told_from_its_beginning_and_each_game_is_announced(tmp_path):
    log = tmp_path / "log"
    talk = engine("logs", log, "Skill Level=3&depth=2")
    assert talk.answer([]) == "4i4h"
    assert talk.answer(["4i4h", "3c3d"]) == "4h4i"
    assert talk.answer(["7g7f"]) == "6a6b"
    talk.close()
    assert log.read_text().splitlines() == [
        "usi",
        "setoption name Skill Level value 3",
        *["isready", "usinewgame", "position startpos", "go depth 2"],
        *["position startpos moves 4i4h 3c3d", "go depth 2"],
        *["isready", "usinewgame", "position startpos moves 7g7f", "go depth 2"],
    ]


def test_an_option_that_the_engine_does_not_have_is_one_sentence():
    talk = engine("plain", settings="Skil Level=3")
    with pytest.raises(EngineError, match="has no option 'Skil Level'"):
        talk.get_ready()
    talk.close()


def test_an_engine_may_take_long_to_get_ready():
    talk = engine("late", settings="timeout=0.3")
    talk.get_ready()
    talk.close()


def test_everything_but_the_answer_is_skipped():
    talk = engine("noisy")
    assert talk.answer(["7g7f"]) == "6a6b"
    assert talk.answer(["7g7f", "6a6b", "2g2f"]) == "6b6a"
    talk.close()


@pytest.mark.parametrize(
    ("behaviour", "reason"), [("dies", NoMove.CRASHED), ("mute", NoMove.SILENT)]
)
def test_an_engine_that_does_not_start_is_an_error(behaviour, reason, monkeypatch):
    monkeypatch.setattr(usi_client, "START_SECONDS", 20 if behaviour == "dies" else 0.3)
    talk = engine(behaviour)
    with pytest.raises(EngineError) as caught:
        talk.get_ready()
    assert caught.value.reason == reason
    talk.close()
