import errno
import hashlib
import itertools
import json
import multiprocessing
import os
import pickle
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from keisei.training.checkpoint_format import (
    VERSION,
    Checkpoint,
    CheckpointError,
    load_checkpoint,
)
from keisei.training.checkpoints import CheckpointStore

NUMPY_DTYPES = ["float64", "float32", "float16", "bool"]
NUMPY_DTYPES += [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
TORCH_DTYPES = [*NUMPY_DTYPES, "bfloat16"]

# Children are forked from a server that has imported torch once: milliseconds instead of seconds.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload([__name__])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints"


def save(store: CheckpointStore, update: int, *, attempt: int = 0, size: int = 8) -> Path:
    """Save a checkpoint whose parts all tell its update, so that a mixture would show."""
    tensors: dict[str, Any] = {"weight": torch.full((size,), update), "moment": np.full(3, attempt)}
    return store.save(update, tensors, {"update": update, "attempt": attempt})


def contents(checkpoint: Checkpoint | None) -> tuple[int, int]:
    """The update and the attempt of what `save` saved, after checking that all parts agree."""
    assert checkpoint is not None
    update, attempt = checkpoint.state["update"], checkpoint.state["attempt"]
    assert checkpoint.update == update
    assert (checkpoint.tensors["weight"] == update).all()
    assert (checkpoint.tensors["moment"] == attempt).all()
    return update, attempt


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def updates(store: CheckpointStore) -> list[int]:
    return [int(path.name.removeprefix("update-")) for path in store.paths()]


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


def test_negative_updates_and_keeping_nothing_are_refused(folder: Path) -> None:
    with pytest.raises(CheckpointError, match="numbered from 0, not -1"):
        save(CheckpointStore(folder, keep=1), -1)
    with pytest.raises(CheckpointError, match="At least one checkpoint must be kept, not 0"):
        CheckpointStore(folder, keep=0)


# What is kept.


def test_an_empty_store_has_nothing_and_makes_no_folder(folder: Path) -> None:
    store = CheckpointStore(folder, keep=2)
    assert (store.paths(), store.best(), store.newest()) == ([], None, (None, []))
    assert not folder.exists()


def test_the_last_ones_are_kept_in_the_order_of_their_updates(folder: Path) -> None:
    store = CheckpointStore(folder, keep=3)
    for update in (0, 7, 10, 99_999_999, 100_000_000):
        assert save(store, update).name == f"update-{update:08d}"
    assert updates(store) == [10, 99_999_999, 100_000_000]
    assert contents(store.newest()[0]) == (100_000_000, 0)


def test_the_best_survives_until_another_is_marked(folder: Path) -> None:
    store = CheckpointStore(folder, keep=1)
    store.mark_best(save(store, 1))
    save(store, 2)
    third = save(store, 3)
    assert updates(store) == [1, 3]
    assert store.best() == folder / "update-00000001"
    store.mark_best(third)
    save(store, 4)
    assert updates(store) == [3, 4]
    assert store.best() == third


def test_the_mark_of_the_best_changes_in_one_step(folder: Path) -> None:
    store = CheckpointStore(folder, keep=2)
    first, second = save(store, 1), save(store, 2)
    store.mark_best(first)
    with (folder / "best").open() as opened_before:
        store.mark_best(second)
        assert opened_before.read() == "update-00000001\n"  # replaced, not written over
    assert store.best() == second


def test_a_second_store_on_the_folder_goes_on_where_the_first_stopped(folder: Path) -> None:
    first = CheckpointStore(folder, keep=2)
    first.mark_best(save(first, 1))
    save(first, 2)
    second = CheckpointStore(folder, keep=2)
    save(second, 3)
    save(second, 4)
    assert updates(second) == updates(first) == [1, 3, 4]
    assert second.best() == first.best() == folder / "update-00000001"
    assert contents(first.newest()[0]) == (4, 0)


def test_only_a_checkpoint_of_the_store_can_be_best(folder: Path, tmp_path: Path) -> None:
    store, other = CheckpointStore(folder, keep=1), CheckpointStore(tmp_path / "other", keep=1)
    save(store, 1)
    for path in (save(other, 1), folder / "update-00000002", folder, tmp_path):
        with pytest.raises(CheckpointError, match="is not one of the checkpoints in"):
            store.mark_best(path)
    assert store.best() is None


def test_the_best_can_be_named_by_any_path_that_leads_there(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = CheckpointStore(folder, keep=1)
    path = save(store, 1)
    monkeypatch.chdir(folder)
    store.mark_best(Path(path.name))
    assert store.best() == path


def test_a_best_that_was_deleted_is_no_best(folder: Path) -> None:
    store = CheckpointStore(folder, keep=1)
    store.mark_best(save(store, 1))
    shutil.rmtree(folder / "update-00000001")
    assert store.best() is None


@pytest.mark.parametrize("text", ["", "update-1", "../update-00000001", "\0"])
def test_a_damaged_mark_of_the_best_is_announced_and_nothing_is_pruned(
    folder: Path, text: str
) -> None:
    store = CheckpointStore(folder, keep=1)
    store.mark_best(save(store, 1))
    (folder / "best").write_text(text)
    with pytest.raises(CheckpointError, match="does not name a checkpoint: mark the best"):
        store.best()
    with pytest.warns(UserWarning, match="were not removed: .*mark the best one again"):
        save(store, 2)
    assert updates(store) == [1, 2]


def test_saving_an_update_again_replaces_it(folder: Path) -> None:
    store = CheckpointStore(folder, keep=2)
    save(store, 1)
    first = save(store, 2)
    assert save(store, 2, attempt=1) == first
    assert contents(load_checkpoint(first)) == (2, 1)
    assert names(folder) == ["update-00000001", "update-00000002"]


def test_damaged_checkpoints_do_not_push_out_sound_ones(folder: Path) -> None:
    store = CheckpointStore(folder, keep=2)
    save(store, 10)
    truncate(save(store, 20) / "tensors.safetensors", 5)
    save(store, 30)
    assert updates(store) == [10, 20, 30]
    save(store, 40)
    assert updates(store) == [30, 40]


def test_a_run_that_went_back_behind_a_damaged_checkpoint_keeps_what_it_saves(folder: Path) -> None:
    store = CheckpointStore(folder, keep=1)
    save(store, 20)
    later = save(CheckpointStore(folder, keep=2), 30)
    flip(later / "tensors.safetensors", -1)
    save(store, 25)
    assert updates(store) == [25, 30]
    assert contents(store.newest()[0]) == (25, 0)
    save(store, 30, attempt=1)
    assert updates(store) == [30]
    assert contents(store.newest()[0]) == (30, 1)


def test_other_files_in_the_folder_are_left_alone(folder: Path) -> None:
    folder.mkdir()
    strangers = ["update-1", "update-000000001", "update-1.replaced", "notes.txt", ".partial-x"]
    for name in strangers:
        (folder / name).write_text("mine")
    store = CheckpointStore(folder, keep=1)
    save(store, 1)
    save(store, 2)
    assert names(folder) == sorted([*strangers, "update-00000002"])


# Damage is named, and the checkpoint before it is used.


def truncate(file: Path, size: int) -> None:
    os.truncate(file, size)


def flip(file: Path, position: int, mask: int = 0xFF) -> None:
    data = bytearray(file.read_bytes())
    data[position] ^= mask
    file.write_bytes(data)


def edit_manifest(path: Path, **changes: object) -> None:
    manifest = json.loads((path / "state.json").read_text())
    (path / "state.json").write_text(json.dumps(manifest | changes))


def empty(path: Path) -> None:
    shutil.rmtree(path)
    path.mkdir()


def become_a_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("not a folder")


def change_a_state_value(path: Path) -> None:
    text = (path / "state.json").read_text()
    (path / "state.json").write_text(text.replace('"attempt": 0', '"attempt": 1'))


def become_a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def leave_out_all_content(path: Path) -> None:
    edit_manifest(path, content={}, sha256=hashlib.sha256(b"{}").hexdigest())


def swap_tensors_with_the_one_before(path: Path) -> None:
    shutil.copy(path.with_name("update-00000001") / "tensors.safetensors", path)


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "no tensors": (
        lambda path: (path / "tensors.safetensors").unlink(),
        "is damaged: tensors.safetensors is missing",
    ),
    "no state": (
        lambda path: (path / "state.json").unlink(),
        "is damaged: state.json is missing",
    ),
    "empty folder": (empty, "is damaged: state.json is missing"),
    "a file": (become_a_file, "is not a checkpoint: it is not a folder"),
    "a folder": (
        lambda path: become_a_folder(path / "state.json"),
        "cannot be read (state.json: Is a directory)",
    ),
    "truncated": (
        lambda path: truncate(path / "tensors.safetensors", 9),
        "is damaged: tensors.safetensors is truncated, 9 bytes long where",
    ),
    "too long": (
        lambda path: truncate(path / "tensors.safetensors", 999_999),
        "is damaged: tensors.safetensors is too long",
    ),
    "another's tensors": (
        swap_tensors_with_the_one_before,
        "is damaged: tensors.safetensors has the wrong SHA-256",
    ),
    "garbage": (
        lambda path: (path / "state.json").write_bytes(b"\xff\0{"),
        "is damaged: state.json is not JSON",
    ),
    "bottomless": (
        lambda path: (path / "state.json").write_text("[" * 100_000),
        "is damaged: state.json is not JSON",
    ),
    "other JSON": (
        lambda path: (path / "state.json").write_text("[1, 2]"),
        "is not a checkpoint: state.json does not say 'keisei-checkpoint'",
    ),
    "other format": (
        lambda path: edit_manifest(path, format="else"),
        "is not a checkpoint: state.json does not say 'keisei-checkpoint'",
    ),
    "the future": (
        lambda path: edit_manifest(path, version=VERSION + 1),
        f"has format version {VERSION + 1}, and this Keisei reads {VERSION}",
    ),
    "no content": (
        lambda path: edit_manifest(path, content=None),
        "is damaged: state.json has the wrong SHA-256",
    ),
    "empty content": (
        leave_out_all_content,
        "is not a checkpoint of this kind: KeyError('tensors')",
    ),
    "NaN": (
        lambda path: edit_manifest(path, content={"state": float("nan")}),
        "is damaged: state.json has the wrong SHA-256",
    ),
    "changed state": (change_a_state_value, "is damaged: state.json has the wrong SHA-256"),
}


@pytest.fixture
def pair(folder: Path) -> CheckpointStore:
    """A store of updates 1 and 2."""
    store = CheckpointStore(folder, keep=2)
    save(store, 1)
    save(store, 2)
    return store


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_named_and_the_checkpoint_before_is_used(
    pair: CheckpointStore, folder: Path, kind: str
) -> None:
    damage, sentence = DAMAGE[kind]
    path = folder / "update-00000002"
    damage(path)
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(path)
    assert str(caught.value).startswith(f"{path} {sentence}")
    checkpoint, problems = pair.newest()
    assert contents(checkpoint) == (1, 0)
    assert problems == [f"{str(caught.value)[:-1]}; update-00000001 is used instead."]
    save(pair, 2, attempt=1)
    assert contents(load_checkpoint(path)) == (2, 1)


@pytest.mark.parametrize("name", ["tensors.safetensors", "state.json"])
def test_truncation_at_any_byte_is_noticed(pair: CheckpointStore, folder: Path, name: str) -> None:
    file = folder / "update-00000002" / name
    whole = file.read_bytes().rstrip()
    for size in range(len(whole)):
        file.write_bytes(whole[:size])
        checkpoint, problems = pair.newest()
        assert contents(checkpoint) == (1, 0)
        assert len(problems) == 1


def test_a_flipped_bit_in_any_byte_of_the_tensors_is_noticed(
    pair: CheckpointStore, folder: Path
) -> None:
    file = folder / "update-00000002" / "tensors.safetensors"
    for position in range(file.stat().st_size):
        flip(file, position, 1 << position % 8)
        checkpoint, problems = pair.newest()
        assert contents(checkpoint) == (1, 0)
        assert len(problems) == 1
        flip(file, position, 1 << position % 8)
    assert contents(pair.newest()[0]) == (2, 0)


def test_a_flipped_bit_in_any_byte_of_the_state_is_noticed_or_changes_nothing(
    pair: CheckpointStore, folder: Path
) -> None:
    file = folder / "update-00000002" / "state.json"
    unnoticed = 0
    for position, bit in itertools.product(range(file.stat().st_size), (0, 5)):
        flip(file, position, 1 << bit)
        checkpoint, problems = pair.newest()
        unnoticed += not problems
        assert contents(checkpoint) == ((1, 0) if problems else (2, 0))
        flip(file, position, 1 << bit)
    assert unnoticed <= 1  # the last byte is a line end, and a space there is JSON too


def test_every_damaged_checkpoint_is_named_newest_first(folder: Path) -> None:
    store = CheckpointStore(folder, keep=3)
    for update in (1, 2, 3):
        save(store, update)
    for update in (2, 3):
        (folder / f"update-{update:08d}" / "state.json").unlink()
    problems = store.newest()[1]
    assert [problem.split()[0] for problem in problems] == [
        str(folder / "update-00000003"),
        str(folder / "update-00000002"),
    ]
    assert all(problem.endswith("; update-00000001 is used instead.") for problem in problems)


def test_when_all_are_damaged_there_is_none(pair: CheckpointStore, folder: Path) -> None:
    for path in pair.paths():
        empty(path)
    checkpoint, problems = pair.newest()
    assert checkpoint is None
    assert len(problems) == 2
    assert all(problem.endswith("; no other is left to use instead.") for problem in problems)


def test_a_missing_checkpoint_is_said_to_be_missing(folder: Path) -> None:
    with pytest.raises(CheckpointError, match="update-00000009 does not exist"):
        load_checkpoint(folder / "update-00000009")


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.abort, ()


@pytest.mark.parametrize("name", ["tensors.safetensors", "state.json"])
def test_a_pickle_is_never_opened(pair: CheckpointStore, folder: Path, name: str) -> None:
    (folder / "update-00000002" / name).write_bytes(pickle.dumps(Bomb()))
    assert contents(pair.newest()[0]) == (1, 0)


# Kills.


def save_in_a_loop(folder: Path, keep: int, first: int, reports: Connection) -> None:
    """Save each update twice, mark some best, and report each save that is complete."""
    torch.set_num_threads(1)
    store = CheckpointStore(folder, keep=keep)
    for update in itertools.count(first):
        for attempt in (0, 1):
            path = save(store, update, attempt=attempt, size=20_000)
            reports.send((update, attempt))
        if update % 3 == 0:
            store.mark_best(path)


@contextmanager
def saving(folder: Path, *, keep: int, first: int) -> Iterator[tuple[BaseProcess, Connection]]:
    """A child that saves until it is killed, at the latest here; its first save is complete."""
    reports, child_end = PROCESSES.Pipe(duplex=False)
    child = PROCESSES.Process(target=save_in_a_loop, args=(folder, keep, first, child_end))
    child.start()
    child_end.close()
    try:
        reports.poll(None)
        yield child, reports
    finally:
        child.kill()
        child.join()
        reports.close()


def everything_reported(reports: Connection) -> Iterator[tuple[int, int]]:
    """What a child that is no more has sent."""
    with suppress(EOFError):
        while True:
            yield reports.recv()


def test_after_kill_9_at_any_moment_the_last_reported_save_or_a_newer_one_is_there(
    folder: Path,
) -> None:
    moments = random.Random(20)
    store = CheckpointStore(folder, keep=2)
    first, interrupted = 1, 0
    for _ in range(40):
        with saving(folder, keep=2, first=first) as (child, reports):
            time.sleep(moments.uniform(0, 0.03))
            child.kill()
            reported = list(everything_reported(reports))
        interrupted += any(not name.startswith(("update-", "best")) for name in names(folder))
        checkpoint, problems = store.newest()
        assert problems == []
        assert contents(checkpoint) >= reported[-1]
        best = store.best()
        assert best is None or load_checkpoint(best).update % 3 == 0
        first = contents(checkpoint)[0] + 1
    assert interrupted > 0  # or the kills never met a save
    save(store, first)
    assert all(name.startswith(("update-", "best")) for name in names(folder))


FILE_EVENTS = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.scandir", "os.listdir")


def save_and_die(folder: Path, update: int, events_before_death: int) -> None:
    countdown = itertools.count(events_before_death, -1)

    def die_in_time(event: str, _: tuple[Any, ...]) -> None:
        if event in FILE_EVENTS and next(countdown) == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    store = CheckpointStore(folder, keep=1)
    sys.addaudithook(die_in_time)
    save(store, update, attempt=1)
    store.mark_best(folder / f"update-{update:08d}")


@pytest.mark.parametrize("update", [2, 3], ids=["replacing", "adding"])
def test_killed_before_any_one_file_operation_the_old_or_the_new_checkpoint_is_there(
    tmp_path: Path, update: int
) -> None:
    outcomes = []
    for events_before_death in itertools.count():
        folder = tmp_path / f"{events_before_death}"
        store = CheckpointStore(folder, keep=1)
        store.mark_best(save(store, 1))
        save(store, 2)
        args = (folder, update, events_before_death)
        child = PROCESSES.Process(target=save_and_die, args=args)
        child.start()
        child.join()
        checkpoint, problems = store.newest()
        assert problems == []
        outcomes.append(contents(checkpoint))
        assert all(contents(load_checkpoint(path)) for path in store.paths())
        assert store.best() in (folder / "update-00000001", store.paths()[-1])
        assert contents(load_checkpoint(save(store, update, attempt=2))) == (update, 2)
        assert {"update-00000001", "best", f"update-{update:08d}"} >= set(names(folder))
        if child.exitcode == 0:
            break
        assert child.exitcode == -signal.SIGKILL
    saved = outcomes.index((update, 1))
    assert 5 < saved < len(outcomes) - 5  # kills both before and after the rename
    assert outcomes == [(2, 0)] * saved + [(update, 1)] * (len(outcomes) - saved)


def test_a_reader_never_sees_what_the_writer_is_replacing_or_removing(folder: Path) -> None:
    reader = CheckpointStore(folder, keep=1)
    seen: list[tuple[int, int]] = []
    with saving(folder, keep=1, first=1):
        end = time.monotonic() + 10
        while len(set(seen)) < 50 and time.monotonic() < end:
            checkpoint, problems = reader.newest()
            assert problems == []
            seen.append(contents(checkpoint))
    assert seen == sorted(seen)
    assert len(set(seen)) > 2  # or they never met


# What killed processes leave behind.


def partial_folder(folder: Path, pid: int) -> Path:
    path = folder / f".partial-{pid}-0123abcd"
    path.mkdir(parents=True)
    (path / "tensors.safetensors").write_bytes(b"half")
    return path


@pytest.fixture
def living() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def test_the_leftovers_of_a_dead_process_go_at_the_next_save(
    folder: Path, living: subprocess.Popen[bytes]
) -> None:
    leftover = partial_folder(folder, living.pid)
    store = CheckpointStore(folder, keep=1)
    save(store, 1)
    assert leftover.exists()  # its process may still be writing
    living.kill()
    living.wait()
    save(store, 2)
    assert names(folder) == ["update-00000002"]


def test_leftovers_go_when_their_process_number_is_now_another_process(
    folder: Path, living: subprocess.Popen[bytes]
) -> None:
    partial_folder(folder, os.getpid())
    old = partial_folder(folder, living.pid)
    two_days_ago = time.time() - 2 * 24 * 3600
    os.utime(old, (two_days_ago, two_days_ago))
    partial_folder(folder, 10**30)
    save(CheckpointStore(folder, keep=1), 1)
    assert names(folder) == ["update-00000001"]


def test_a_checkpoint_whose_replacement_was_cut_short_is_still_there(folder: Path) -> None:
    store = CheckpointStore(folder, keep=1)
    path = save(store, 2)
    store.mark_best(path)
    aside = path.rename(folder / "update-00000002.replaced")
    assert store.paths() == [aside]
    assert store.best() == aside
    assert contents(store.newest()[0]) == (2, 0)
    save(store, 3)
    assert names(folder) == ["best", "update-00000002", "update-00000003"]


# A disk that is full, or forgets what was not synced.


def save_with_a_limit_on_file_size(folder: Path, reports: Connection) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # the write then fails with an OSError
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    store = CheckpointStore(folder, keep=2)
    for update in (2, 3):
        try:
            save(store, update, attempt=1, size=10_000)
        except CheckpointError as error:
            reports.send(str(error))


def test_a_write_that_the_kernel_refuses_leaves_the_earlier_checkpoints(
    pair: CheckpointStore, folder: Path
) -> None:
    reports, child_end = PROCESSES.Pipe(duplex=False)
    child = PROCESSES.Process(target=save_with_a_limit_on_file_size, args=(folder, child_end))
    child.start()
    for update in (2, 3):
        assert reports.recv() == (
            f"Update {update} was not saved (File too large); "
            f"the earlier checkpoints in {folder} are intact."
        )
    child.join()
    assert names(folder) == ["update-00000001", "update-00000002"]
    assert [contents(load_checkpoint(path)) for path in pair.paths()] == [(1, 0), (2, 0)]


SMALL_DISK = """
mount -t tmpfs -o size=256k,nr_inodes=32 tmpfs "$1" || exit 77
exec "$2" -c "import pathlib, {module} as tests; tests.fill_the_disk(pathlib.Path('$1'))"
"""


def fill_the_disk(disk: Path) -> None:
    """Runs on a small filesystem: let saves fail for want of each page in turn, then of a name."""
    folder = disk / "checkpoints"
    store = CheckpointStore(folder, keep=2)
    save(store, 1)
    save(store, 2)
    for pages_left in range(5):  # four of tensors and one of state are needed
        free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
        (disk / "filler").write_bytes(bytes(free - 4096 * pages_left))
        with pytest.raises(CheckpointError, match=r"Update 2 was not saved \(the disk is full\)"):
            save(store, 2, attempt=1, size=2_000)
        assert names(folder) == ["update-00000001", "update-00000002"]
        assert [contents(load_checkpoint(path)) for path in store.paths()] == [(1, 0), (2, 0)]
        (disk / "filler").unlink()
    (disk / "filler").write_bytes(bytes(free - 4096 * 5))
    save(store, 2, attempt=1, size=2_000)
    assert contents(store.newest()[0]) == (2, 1)

    (disk / "filler").unlink()
    try:
        for number in itertools.count():
            (disk / f"name{number}").touch()
    except OSError:
        pass
    with pytest.raises(CheckpointError, match=r"Update 3 was not saved \(the disk is full\)"):
        save(store, 3)
    with pytest.raises(CheckpointError, match=r"was not marked best \(the disk is full\)"):
        store.mark_best(folder / "update-00000001")
    assert contents(store.newest()[0]) == (2, 1)


def test_a_full_disk_leaves_the_earlier_checkpoints_and_nothing_else(tmp_path: Path) -> None:
    script = SMALL_DISK.format(module=__name__)
    namespace = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]
    probe = [*namespace[:4], "true"]
    if shutil.which("unshare") is None or subprocess.run(probe, check=False).returncode != 0:
        pytest.skip("needs a mount namespace of its own")
    root = Path(__file__).parents[2]
    done = subprocess.run([*namespace, str(tmp_path), sys.executable], cwd=root, check=False)
    if done.returncode == 77:
        pytest.skip("needs leave to mount a small filesystem")
    assert done.returncode == 0


def test_when_a_replacement_cannot_be_put_in_place_the_old_checkpoint_is_put_back(
    pair: CheckpointStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = os.rename

    def full_after_one(source: Path, target: Path) -> None:
        if source.name.startswith(".partial"):
            raise OSError(errno.ENOSPC, "No space left on device")
        rename(source, target)

    monkeypatch.setattr(os, "rename", full_after_one)
    with pytest.raises(CheckpointError, match=r"Update 2 was not saved \(the disk is full\)"):
        save(pair, 2, attempt=1)
    assert names(folder) == ["update-00000001", "update-00000002"]
    assert contents(pair.newest()[0]) == (2, 0)


def test_all_is_synced_before_the_rename_and_the_folder_after_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = CheckpointStore(folder, keep=2)
    save(store, 1)
    calls: list[object] = []
    sync, rename = os.fsync, os.rename

    def recorded_sync(descriptor: int) -> None:
        calls.append(os.fstat(descriptor).st_ino)
        sync(descriptor)

    def recorded_rename(source: Path, target: Path) -> None:
        calls.append(target.name)
        rename(source, target)

    monkeypatch.setattr(os, "fsync", recorded_sync)
    monkeypatch.setattr(os, "rename", recorded_rename)
    path = save(store, 2)
    parts = (path / "tensors.safetensors", path / "state.json", path)
    assert calls == [*(part.stat().st_ino for part in parts), path.name, folder.stat().st_ino]
