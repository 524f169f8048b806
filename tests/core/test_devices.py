"""Where networks compute, as a config says."""

import pytest
import torch

from keisei.core.devices import pick_device


def test_the_cpu_is_always_there():
    assert pick_device("cpu").type == "cpu"


def test_auto_takes_a_gpu_where_there_is_one():
    assert pick_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_missing_is_told_in_one_sentence():
    with pytest.raises(ValueError, match="device is cuda, but no GPU is available"):
        pick_device("cuda")
