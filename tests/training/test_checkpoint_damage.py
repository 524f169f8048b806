"""Damage is named, and the checkpoint before it is used."""

import hashlib
import itertools
import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keisei.training.checkpoint_format import VERSION, CheckpointError, load_checkpoint
from keisei.training.checkpoints import CheckpointStore
from tests.training.checkpoint_samples import contents, flip, save


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
        lambda path: os.truncate(path / "tensors.safetensors", 9),
        "is damaged: tensors.safetensors is truncated, 9 bytes long where",
    ),
    "too long": (
        lambda path: os.truncate(path / "tensors.safetensors", 999_999),
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
