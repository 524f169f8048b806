"""The compiled code on disk belongs to the sources as they are."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from keisei.compiled import kernels

CALLEE = "from {package}.kernels import kernel\n@kernel\ndef callee(x):\n    return x + {value}\n"
CALLER = """
from {package}.kernels import kernel
from {package}.callee import callee
@kernel(entry=True)
def caller(x):
    return callee(x) * 10
"""


@pytest.fixture
def package(tmp_path):
    """A package of its own with the same decorator, a caller and a callee in two files."""
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "kernels.py").write_text(Path(kernels.__file__).read_text())
    (folder / "caller.py").write_text(CALLER.format(package="package"))

    def run(value):
        (folder / "callee.py").write_text(CALLEE.format(package="package", value=value))
        code = textwrap.dedent("""
            from package.caller import caller
            print(caller(1), sum(caller.stats.cache_hits.values()))
        """)
        output = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env={**os.environ, "KEISEI_CACHE": str(tmp_path / "cache")},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        result, hits = map(int, output.split())
        return result, hits

    return run


def test_an_edited_callee_is_recompiled_and_an_unchanged_one_comes_from_the_cache(package):
    assert package(1) == (20, 0)
    assert package(1) == (20, 1)
    assert package(5) == (60, 0)
    assert package(1) == (20, 1)


def test_only_the_most_recent_folders_are_kept(package, tmp_path):
    compiled = tmp_path / "cache" / "compiled"
    for number in range(20):
        (compiled / f"older{number:02}").mkdir(parents=True)
        os.utime(compiled / f"older{number:02}", (number, number))
    package(1)
    assert len(list(compiled.iterdir())) == 16
    assert (compiled / "older19").exists()
    assert not (compiled / "older00").exists()


def test_the_users_own_numba_functions_keep_their_cache_folder():
    from numba import config

    before = config.CACHE_DIR
    kernels.kernel(lambda x: x)
    assert before == config.CACHE_DIR


def test_an_unwritable_cache_folder_is_replaced_by_a_temporary_one(tmp_path):
    blocked = tmp_path / "a-file"
    blocked.write_text("not a folder")
    code = "from keisei.compiled.kernels import cache_folder; print(cache_folder())"
    output = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "KEISEI_CACHE": str(blocked), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert output.startswith(str(tmp_path / f"keisei-{os.getuid()}"))


def test_the_hash_depends_on_names_and_texts(tmp_path):
    (tmp_path / "a.py").write_text("x = 1")
    first = kernels.source_hash(tmp_path)
    assert kernels.source_hash(tmp_path) == first
    (tmp_path / "a.py").write_text("x = 2")
    second = kernels.source_hash(tmp_path)
    (tmp_path / "a.py").rename(tmp_path / "b.py")
    assert len({first, second, kernels.source_hash(tmp_path)}) == 3
