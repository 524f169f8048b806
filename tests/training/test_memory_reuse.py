"""Freed memory is used again, without new pages of the kernel, and given back when asked."""

import subprocess
import sys

import pytest

CHILD = """
import resource
import torch
from keisei.training.memory_reuse import keep_freed_memory

keep_freed_memory()

def minibatch():
    return [torch.ones(2**20) for _ in range(20)]  # 4 MB each

for _ in range(5):
    minibatch()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    minibatch()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's malloc")
@pytest.mark.parametrize("time", [1, 2])
def test_minibatches_after_the_first_few_need_no_new_pages(time):
    """Without, they need 18,000 each; or none, by luck: it depends on where things lie."""
    child = subprocess.run(
        [sys.executable, "-c", CHILD], capture_output=True, text=True, check=True
    )
    assert int(child.stdout) < 100


HOLES = """
import psutil
import torch
from keisei.training.memory_reuse import give_back_free_memory, keep_freed_memory

keep_freed_memory()
kept = [torch.ones(2**18) for _ in range(200)][::2]  # every other MB is free
before = psutil.Process().memory_info().rss
give_back_free_memory()
print((before - psutil.Process().memory_info().rss) / 2**20, sum(int(t.sum()) for t in kept))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's malloc")
def test_holes_between_what_is_in_use_are_given_back_when_asked():
    child = subprocess.run(
        [sys.executable, "-c", HOLES], capture_output=True, text=True, check=True
    )
    given_back, kept = child.stdout.split()
    assert float(given_back) > 80
    assert int(kept) == 100 * 2**18
