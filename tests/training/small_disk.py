"""A filesystem so small that a test can fill it."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = """
mount -t tmpfs -o size=256k,nr_inodes=32 tmpfs "$1" || exit 77
exec "$2" -c "import pathlib, {module} as tests; tests.{function}(pathlib.Path('$1'))"
"""


def call_on_a_small_disk(function: Callable[[Path], None], place: Path) -> None:
    """Call it in a process of its own with `place`, where 256 kB and 32 names fit."""
    script = SCRIPT.format(module=function.__module__, function=function.__name__)
    namespace = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]
    probe = [*namespace[:4], "true"]
    if shutil.which("unshare") is None or subprocess.run(probe, check=False).returncode != 0:
        pytest.skip("needs a mount namespace of its own")
    root = Path(__file__).parents[2]
    done = subprocess.run([*namespace, str(place), sys.executable], cwd=root, check=False)
    if done.returncode == 77:
        pytest.skip("needs leave to mount a small filesystem")
    assert done.returncode == 0
