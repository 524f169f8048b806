"""Which model plays when none is named."""

import os

import pytest

from keisei.play.model_choice import choose_model


def make_run(runs, name, *, saved=None, config="name: shogi-laptop\n"):
    run = runs / name
    run.mkdir(parents=True)
    (run / "config.yaml").write_text(config)
    if saved is not None:
        make_checkpoint(run / "checkpoints" / "update-00000001", saved)
    return run


def make_checkpoint(folder, saved):
    folder.mkdir(parents=True)
    (folder / "state.json").write_text("{}")
    os.utime(folder / "state.json", (saved, saved))
    return folder


def test_the_named_one_comes_first(tmp_path):
    make_run(tmp_path, "other", saved=1)
    named = make_run(tmp_path, "named")
    assert choose_model(named, runs=tmp_path) == named


def test_a_name_of_nothing_is_a_sentence(tmp_path):
    with pytest.raises(ValueError, match="missing is not a run or one of its checkpoints"):
        choose_model(tmp_path / "missing", runs=tmp_path)


def test_the_packaged_one_comes_before_runs(tmp_path):
    make_run(tmp_path / "runs", "some", saved=1)
    packaged = make_checkpoint(tmp_path / "models" / "shogi", 1)
    chosen = choose_model(None, packaged=tmp_path / "models", runs=tmp_path / "runs")
    assert chosen == packaged


def test_else_the_run_that_saved_last_plays(tmp_path):
    make_run(tmp_path, "b-old", saved=100)
    newest = make_run(tmp_path, "a-new", saved=200)
    make_run(tmp_path, "c-nothing-saved-yet")
    make_run(tmp_path, "d-world", saved=300, config="name: cleanup\ngame: cleanup\n")
    assert choose_model(None, packaged=tmp_path / "models", runs=tmp_path) == newest


def test_without_any_the_sentence_says_what_to_do(tmp_path):
    with pytest.raises(ValueError, match="name one, or run keisei train"):
        choose_model(None, packaged=tmp_path / "models", runs=tmp_path / "runs")
