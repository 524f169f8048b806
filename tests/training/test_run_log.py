"""The log of a run: every line says who wrote it, however many write at once."""

import logging
import re
import subprocess
import sys
from collections import Counter

from keisei.training.run_log import close_run_log, open_run_log

LINE = re.compile(
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} INFO \[(worker \d), pid (\d+)\] line (\d+) (x*) end"
)
LINES = 200
CHILD = """
import logging, pathlib, sys
from keisei.training.run_log import open_run_log
path, who, lines = sys.argv[1:]
handler = open_run_log(pathlib.Path(path), who)
log = logging.getLogger("keisei.training.somewhere")
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(lines)):
    log.info("line %d %s end", number, "x" * (number * 97 % 20_000))
"""


def test_lines_of_several_processes_do_not_mix_and_say_whose_they_are(tmp_path):
    path = tmp_path / "run.log"
    children = [
        subprocess.Popen(
            [sys.executable, "-c", CHILD, path, f"worker {number}", str(LINES)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(3)
    ]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        child.communicate(timeout=60)
        assert child.returncode == 0
    lines = [LINE.fullmatch(line) for line in path.read_text().splitlines()]
    assert all(lines)
    assert all(len(line[4]) == int(line[3]) * 97 % 20_000 for line in lines)
    written = Counter((line[1], int(line[2])) for line in lines)
    assert written == {
        (f"worker {number}", child.pid): LINES for number, child in enumerate(children)
    }


def test_a_closed_log_is_not_written_any_more(tmp_path):
    path = tmp_path / "run.log"
    log = logging.getLogger("keisei.training.somewhere")
    handler = open_run_log(path, "main")
    log.info("first")
    close_run_log(handler)
    log.info("second")
    handler = open_run_log(path, "main")  # the next sitting appends
    log.warning("third")
    close_run_log(handler)
    words = [line.split("] ")[1] for line in path.read_text().splitlines()]
    assert words == ["first", "third"]
    assert "WARNING [main, pid " in path.read_text()
