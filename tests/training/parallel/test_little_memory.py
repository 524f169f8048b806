"""Little room in /dev/shm does not matter; too little memory to share is said, and pipes are used.

Both need a process of its own.
"""

import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.core.small import one_thread
from tests.training.parallel.collecting import Learner, parallel_config
from tests.training.parallel.surviving import PAST_SELVES, collect_in_both_ways

NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount"]
SCRIPT = f"""
mount -t tmpfs -o size=64k tmpfs /dev/shm || exit 77
exec "$0" -m {__name__}
"""


def collect_with(*, shared_memory):
    config = parallel_config(games=PAST_SELVES)
    with Learner(config).serial() as serial, Learner(config).parallel() as parallel:
        collect_in_both_ways(serial, parallel, 3)
        assert parallel.collector.get_statistics()["shared_memory"] is shared_memory
        return parallel.news


def collect_with_less_and_less():
    """What the process of its own does."""
    assert collect_with(shared_memory=True) == []
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))  # of memory files too
    (news,) = collect_with(shared_memory=False)
    resource.setrlimit(resource.RLIMIT_FSIZE, before)  # coverage has more to write
    assert "memory to share with workers cannot be had (File too large)" in news
    assert "Experience travels through pipes instead" in news


def test_a_small_dev_shm_does_not_matter_and_pipes_do_without_shared_memory():
    probe = [*NAMESPACE, "true"]
    if shutil.which("unshare") is None or subprocess.run(probe, check=False).returncode != 0:
        pytest.skip("needs a mount namespace of its own")
    root = Path(__file__).parents[3]
    command = [*NAMESPACE, "sh", "-c", SCRIPT, sys.executable]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode == 77:
        pytest.skip("needs leave to mount a small /dev/shm")
    assert (done.returncode, done.stderr) == (0, "")


if __name__ == "__main__":
    with one_thread():
        collect_with_less_and_less()
