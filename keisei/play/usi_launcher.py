"""A file that starts the engine, for graphical programs that want to be shown an executable."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

_START = "from keisei.cli import main; main()"


def write_launcher(target: Path, model: Path, *, windows: bool = os.name == "nt") -> None:
    """Write a script that runs `keisei usi MODEL` with this Python, wherever it is called from.

    On Windows its name has to end in .bat, elsewhere any name will do.
    """
    if windows and target.suffix.lower() != ".bat":
        raise ValueError(f"a launcher on Windows is a .bat file: use {target.stem}.bat")
    text = _batch_file(model.resolve()) if windows else _shell_script(model.resolve())
    with target.open("w", encoding="utf-8", newline="") as file:
        file.write(text)
    if not windows:
        target.chmod(target.stat().st_mode | 0o111)


def _shell_script(model: Path) -> str:
    command = [sys.executable, "-P", "-c", _START, "usi", str(model)]
    return f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n'


def _batch_file(model: Path) -> str:
    python, quoted_model = (str(path).replace("%", "%%") for path in (sys.executable, model))
    return f'@echo off\r\n"{python}" -P -c "{_START}" usi "{quoted_model}" %*\r\n'
