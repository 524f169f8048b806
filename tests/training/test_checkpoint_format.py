"""What is saved comes back bit for bit, or is refused."""

import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from keisei.training.checkpoint_format import Checkpoint, CheckpointError, load_checkpoint
from keisei.training.checkpoints import CheckpointStore

NUMPY_DTYPES = ["float64", "float32", "float16", "bool"]
NUMPY_DTYPES += [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
TORCH_DTYPES = [*NUMPY_DTYPES, "bfloat16"]


def bits(value: torch.Tensor | np.ndarray[Any, Any]) -> tuple[object, ...]:
    """Everything that makes two arrays the same, NaNs and signs of zero too."""
    if isinstance(value, torch.Tensor):
        flat = value.detach().contiguous().reshape(-1).view(torch.uint8)
        return torch.Tensor, value.dtype, tuple(value.shape), flat.numpy().tobytes()
    return np.ndarray, value.dtype, value.shape, value.tobytes()


def round_trip(
    tensors: dict[str, Any] | None = None, state: dict[str, Any] | None = None
) -> Checkpoint:
    with tempfile.TemporaryDirectory() as folder:
        store = CheckpointStore(Path(folder), keep=1)
        return load_checkpoint(store.save(3, tensors or {}, state or {}))


def make_array(library: str, dtype: str, raw: bytes) -> torch.Tensor | np.ndarray[Any, Any]:
    if dtype == "bool":
        raw = bytes(byte & 1 for byte in raw)
    if library == "numpy":
        return np.frombuffer(raw, dtype)
    return torch.tensor(list(raw), dtype=torch.uint8).view(getattr(torch, dtype))


# What is saved comes back.


@pytest.mark.parametrize("dtype", TORCH_DTYPES)
def test_torch_tensors_come_back_bit_for_bit(dtype: str) -> None:
    tensor = make_array("torch", dtype, bytes(range(48, 256)))
    assert bits(round_trip({"x": tensor}).tensors["x"]) == bits(tensor)


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_numpy_arrays_come_back_as_numpy_arrays(dtype: str) -> None:
    array = make_array("numpy", dtype, bytes(range(48, 256)))
    assert bits(round_trip({"x": array}).tensors["x"]) == bits(array)


@st.composite
def arrays(draw: st.DrawFn) -> torch.Tensor | np.ndarray[Any, Any]:
    library = draw(st.sampled_from(["numpy", "torch"]))
    dtype = draw(st.sampled_from(NUMPY_DTYPES if library == "numpy" else TORCH_DTYPES))
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    count = int(np.prod(shape, dtype=int))
    width = getattr(torch, dtype).itemsize
    raw = draw(st.binary(min_size=count * width, max_size=count * width))
    return make_array(library, dtype, raw).reshape(shape)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(st.text().filter(lambda name: name != "__metadata__"), arrays(), max_size=5),
    st.dictionaries(st.text(), JSON, max_size=5),
)
def test_any_tensors_and_any_state_come_back_in_their_order(
    tensors: dict[str, Any], state: dict[str, Any]
) -> None:
    checkpoint = round_trip(tensors, state)
    assert list(checkpoint.tensors) == list(tensors)
    assert {k: bits(v) for k, v in checkpoint.tensors.items()} == {
        k: bits(v) for k, v in tensors.items()
    }
    assert repr(checkpoint.state) == repr(state)


def test_awkward_state_comes_back_exactly() -> None:
    state: dict[str, Any] = {
        "generator": np.random.default_rng(5).bit_generator.state,
        "python": [*random.Random(5).getstate()[1]],
        "floats": [0.1, -0.0, 5e-324, 1.7976931348623157e308, 1 / 3],
        "integers": [2**64, -(2**1000), 10**4000],
        "texts": ["", "形勢\0\n", "\ud800", "__metadata__"],
        "empty": [{}, [], None, True, False],
    }
    assert repr(round_trip(state=state).state) == repr(state)


def test_tuples_come_back_as_lists() -> None:
    assert round_trip(state={"shape": (1, (2, 3))}).state == {"shape": [1, [2, 3]]}


def test_awkward_layouts_are_saved_as_the_values_they_show() -> None:
    grid = torch.arange(24.0).reshape(4, 6)
    read_only = np.arange(6)
    read_only.setflags(write=False)
    tensors: dict[str, Any] = {
        "transposed": grid.T,
        "every other": grid[:, ::2],
        "expanded": torch.tensor([7]).expand(3, 4),
        "channels last": torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "parameter": torch.nn.Parameter(grid),
        "scalar": torch.tensor(3),
        "numpy scalar": np.array(3.5),
        "no rows": torch.empty(0, 5),
        "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "reversed": np.arange(6)[::-1],
        "read only": read_only,
    }
    loaded = round_trip(tensors).tensors
    assert {k: bits(v) for k, v in loaded.items()} == {k: bits(v) for k, v in tensors.items()}


def test_foreign_byte_order_becomes_the_native_one() -> None:
    loaded = round_trip({"x": np.array([1, 258], dtype=">u2")}).tensors["x"]
    assert loaded.dtype == np.uint16
    assert loaded.tolist() == [1, 258]


def test_tensors_that_share_memory_come_back_as_separate_copies() -> None:
    weight = torch.arange(6.0)
    tensors = {"input": weight, "output": weight, "part": weight[2:4], "grid": weight.view(2, 3)}
    loaded = round_trip(tensors).tensors
    assert {k: bits(v) for k, v in loaded.items()} == {k: bits(v) for k, v in tensors.items()}
    loaded["input"].zero_()
    assert bits(loaded["output"]) == bits(weight)


def test_neither_later_changes_nor_removal_of_the_folder_touch_what_is_loaded(folder: Path) -> None:
    tensor, array = torch.ones(4), np.ones(4, np.uint64)
    path = CheckpointStore(folder, keep=1).save(1, {"t": tensor, "n": array}, {})
    tensor.zero_()
    array[:] = 0
    loaded = load_checkpoint(path).tensors
    shutil.rmtree(folder)
    assert loaded["t"].tolist() == loaded["n"].tolist() == [1] * 4
    loaded["t"] += 1
    loaded["n"] += 1
    assert loaded["t"].tolist() == loaded["n"].tolist() == [2] * 4


# What cannot be saved faithfully is refused.


def circular() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        ({"loss": float("nan")}, r"state\['loss'\] is nan: JSON has only finite numbers."),
        ({"a": [1, {"b": -float("inf")}]}, r"state\['a'\]\[1\]\['b'\] is -inf: JSON has only"),
        ({"ratings": {7: 1500}}, r"state\['ratings'\] has the key 7: JSON keys are text."),
        ({"seen": {1, 2}}, r"state\['seen'\] is a set, which JSON does not have."),
        ({"value": np.float32(1)}, r"state\['value'\] is a float32, which JSON does not have."),
        ({"weight": torch.ones(1)}, r"state\['weight'\] is a Tensor, which JSON does not have."),
        ({"huge": 10**5000}, r"The state cannot be written as JSON: Exceeds the limit"),
        ({"loop": circular()}, r"The state is nested too deeply or contains itself."),
    ],
)
def test_state_that_json_would_change_is_refused(
    folder: Path, state: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(CheckpointError, match=sentence):
        CheckpointStore(folder, keep=1).save(1, {}, state)
    assert not folder.exists()


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("x", torch.ones(2, dtype=torch.complex64), "it is torch.complex64, torch.strided, on cpu"),
        ("x", torch.ones(2).to_sparse(), "it is torch.float32, torch.sparse_coo, on cpu"),
        ("x", torch.ones(2, device="meta"), "it is torch.float32, torch.strided, on meta"),
        ("x", np.array([None]), "it is of type object"),
        ("x", np.array(["text"]), "it is of type <U4"),
        ("x", [1.0, 2.0], "it is of type list"),
        ("__metadata__", torch.ones(2), "A tensor cannot be named '__metadata__'"),
        (7, torch.ones(2), "A tensor cannot be named 7"),
        ("\ud800", torch.ones(2), "The tensors cannot be written: .*surrogates not allowed"),
    ],
)
def test_tensors_that_the_format_cannot_hold_are_refused(
    folder: Path, name: Any, value: Any, sentence: str
) -> None:
    with pytest.raises(CheckpointError, match=sentence):
        CheckpointStore(folder, keep=1).save(1, {name: value}, {})
    assert not folder.exists()
