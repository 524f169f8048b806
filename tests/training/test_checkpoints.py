"""Which checkpoints a store keeps, which is the best, and which is the newest."""

import os
import shutil
from pathlib import Path

import pytest

from keisei.training.checkpoint_format import CheckpointError, load_checkpoint
from keisei.training.checkpoints import CheckpointStore
from tests.training.checkpoint_samples import contents, flip, names, save, updates


def test_negative_updates_and_keeping_nothing_are_refused(folder: Path) -> None:
    with pytest.raises(CheckpointError, match="numbered from 0, not -1"):
        save(CheckpointStore(folder, keep=1), -1)
    with pytest.raises(CheckpointError, match="At least one checkpoint must be kept, not 0"):
        CheckpointStore(folder, keep=0)


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
    os.truncate(save(store, 20) / "tensors.safetensors", 5)
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
