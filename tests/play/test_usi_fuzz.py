"""Nonsense of all kinds, as `scripts/fuzz_usi.py` talks it."""

import importlib.util
from pathlib import Path

from keisei.play.engine_player import EnginePlayer
from tests.core.small import small_agent

SCRIPT = Path(__file__).parents[2] / "scripts" / "fuzz_usi.py"


def test_twenty_thousand_lines_of_nonsense_get_sound_answers():
    spec = importlib.util.spec_from_file_location("fuzz_usi", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    said, answered = script.fuzz(EnginePlayer(small_agent()), 20_000, seed=11)
    assert said.total() == 20_000
    assert answered["bestmove"] > 100
    assert answered["checkmate"] > 10
