"""A game's state as bytes: what comes back is what was given, and damage is told."""

import numpy as np
import pytest

from keisei.training.parallel.world_state import pack_state, unpack_state

ARRAYS = {
    "random_state": np.arange(5, dtype=np.uint64),
    "agent0.memory.dones": np.array([[True, False]]),
    "agent0.memory.states": np.ones((2, 0, 3), np.float32),
    "agent0.step": np.array(2.5, np.float32),
}
VALUES = {"epoch": 3, "agents": [{"random": {"state": 2**127 + 1}}]}


def test_arrays_and_values_come_back_as_they_were():
    arrays, values = unpack_state(pack_state(ARRAYS, VALUES))
    assert values == VALUES
    assert list(arrays) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        assert arrays[name].shape == array.shape
        assert arrays[name].tolist() == array.tolist()


def test_transposed_arrays_are_packed_as_they_read():
    turned = np.arange(6).reshape(2, 3).T
    arrays, _ = unpack_state(pack_state({"turned": turned}, {}))
    assert arrays["turned"].tolist() == turned.tolist()


@pytest.mark.parametrize("length", [0, 5, 40, -1])
def test_bytes_that_are_cut_off_are_refused(length):
    with pytest.raises(ValueError, match="the state of a shard is damaged or of another version"):
        unpack_state(pack_state(ARRAYS, VALUES)[:length])


def test_a_zip_archive_is_refused():
    with pytest.raises(ValueError, match="of another version"):
        unpack_state(np.frombuffer(b"PK\x03\x04" + bytes(400), np.uint8))
