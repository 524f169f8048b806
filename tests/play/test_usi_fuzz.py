"""Nonsense of all kinds, as `scripts/fuzz_usi.py` talks it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "fuzz_usi.py"


@pytest.mark.timeout(1500)
def test_a_million_lines_of_nonsense_get_sound_answers():
    # Without coverage, which would take it twice as long.
    environment = {name: os.environ[name] for name in os.environ if not name.startswith("COVERAGE")}
    run = subprocess.run(
        [sys.executable, SCRIPT, "--lines", "1000000"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("1,000,000 lines in ")
    answers = {kind: int(count) for kind, count in re.findall(r"'(\w+)': (\d+)", run.stdout)}
    assert answers["bestmove"] > 5000
    assert answers["checkmate"] > 500
