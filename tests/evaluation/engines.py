"""Engines for tests: fake ones that misbehave, and the real ones."""

import os
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

from keisei.evaluation.openings import Openings
from keisei.shogi.policy_output_mapper import PolicyOutputMapper

FAKE_ENGINE = Path(__file__).with_name("fake_engine.py")

real_engines = pytest.mark.skipif(
    "KEISEI_NO_ENGINES" in os.environ, reason="KEISEI_NO_ENGINES says that there are no engines"
)
"""For tests that need fairy-stockfish and gnushogi: they fail where these are not installed."""


def fake_command(behaviour, file=None):
    """The command of a fake engine, as words."""
    # -I and -S: it starts in a third of the time
    words = [sys.executable, "-I", "-S", str(FAKE_ENGINE), behaviour]
    return words if file is None else [*words, str(file)]


def fake_spec(behaviour, file=None, settings="timeout=20"):
    """The specification of a fake engine as a player."""
    return f"usi:{shlex.join(fake_command(behaviour, file))}?{settings}"


def openings_of(*lines):
    """Openings from USI moves."""
    actions = [
        [PolicyOutputMapper.action_of(move, ply % 2) for ply, move in enumerate(line.split())]
        for line in lines
    ]
    lengths = np.array([len(opening) for opening in actions])
    padded = np.zeros((len(actions), lengths.max()), np.int64)
    for row, opening in zip(padded, actions, strict=True):
        row[: len(opening)] = opening
    return Openings(padded, lengths)
