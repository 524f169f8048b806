"""Tiny trainings of a world, in this process or one of their own, and how they are refused."""

import io
import os

import pytest
from typer.testing import CliRunner

from keisei.cli import app
from keisei.training_session import Switches
from keisei.training_start import begin, go_on
from tests.training.command_line import training_process

EPOCHS = 70
TINY = [
    "rules.height=7",
    "rules.width=9",
    "rules.max_turns=12",
    "rules.spawn_chance=0.05",
    "copies=6",
    f"epochs={EPOCHS}",
    "learner.settings.minibatch=60",
    "checkpoints.interval=7",
    "name=tiny",
]


def begun(folder, *settings, game="treasurehunt", trace=False):
    """A session in this process; settings that are given win over those of TINY."""
    words = [game, *TINY, f"runs_folder={folder}", *settings]
    return begin(words, Switches(trace=trace, debug_serial=False))


def trained(folder, *settings, game="treasurehunt"):
    """The folder of a run that was trained to its end in this process."""
    assert begun(folder, *settings, game=game).run(io.StringIO())
    return next(folder.iterdir())


def resumed(run, *settings):
    """Train on in this process; what was said."""
    stream = io.StringIO()
    assert go_on(run, list(settings), Switches(trace=False, debug_serial=False)).run(stream)
    return stream.getvalue()


def command(*words):
    """What `keisei` does with these words, in this process."""
    return CliRunner().invoke(app, [str(word) for word in words])


def training(folder, *settings, until):
    """A process of `keisei train` that has logged `until` epochs, and the folder of its run."""
    words = ("treasurehunt", *TINY, *settings)
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    return training_process(folder, *words, until=until, environment=one_thread)


def refusal(folder, *settings, game="treasurehunt"):
    """The sentence for settings that must be refused; nothing is left behind."""
    with pytest.raises(ValueError, match=r".") as refused:
        begun(folder / "runs", *settings, game=game)
    assert not (folder / "runs").exists()
    assert "\n" not in str(refused.value)
    return str(refused.value)
