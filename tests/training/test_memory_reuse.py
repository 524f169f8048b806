"""Freed memory is used again: the kernel need not hand out new pages for every minibatch."""

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
