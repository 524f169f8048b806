"""Models from checkpoints: exactly the saved weights, and a sentence where there are none."""

import numpy as np
import pytest
import torch

from keisei.config_schema import ModelConfig
from keisei.training.checkpoint_format import CheckpointError
from keisei.training.run_folder import RunFolder
from keisei.training.trained_models import find_checkpoint, load_model
from keisei.training.trainer import Trainer
from tests.core.small import bits, one_thread, opinionated, small_config

CPU = torch.device("cpu")


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with one_thread():
        yield


class SavedRun:
    """A run with checkpoints of updates 1, 2 and 3, whose weights all differ."""

    def __init__(self, folder):
        self.trainer = Trainer(small_config(runs_folder=str(folder)))
        opinionated(self.trainer.agent)
        self.folder = RunFolder.create(self.trainer.config)
        self.store = self.folder.checkpoints(10)
        self.weights = {}
        for update in (1, 2, 3):
            self.trainer.collect()
            self.trainer.perform_ppo_update()
            self.store.save(update, *self.trainer.state())
            self.weights[update] = bits(self.trainer.agent.model.state_dict())

    def checkpoint(self, update):
        return self.folder.path / "checkpoints" / f"update-{update:08}"

    def damage(self, update):
        (self.checkpoint(update) / "tensors.safetensors").write_bytes(b"")


@pytest.fixture
def run(tmp_path):
    return SavedRun(tmp_path)


def weights(agent):
    return bits(agent.model.state_dict())


def test_a_checkpoint_gives_exactly_its_weights(run):
    assert len({str(sorted(weights.items())) for weights in run.weights.values()}) == 3
    for update, expected in run.weights.items():
        assert weights(load_model(run.checkpoint(update), CPU)) == expected


def test_a_run_gives_its_newest_model_until_one_is_the_best(run):
    assert find_checkpoint(run.folder.path).update == 3
    assert weights(load_model(run.folder.path, CPU)) == run.weights[3]
    run.store.mark_best(run.checkpoint(2))
    assert find_checkpoint(run.folder.path).update == 2
    assert weights(load_model(run.folder.path, CPU)) == run.weights[2]


def test_a_loaded_model_says_what_the_trained_one_said(run):
    games = run.trainer.collector.groups[0].games
    expected = run.trainer.agent.evaluate_positions(games.positions)
    loaded = load_model(run.folder.path, CPU)
    assert loaded.evaluate_positions(games.positions) == pytest.approx(expected, abs=0.02)
    assert np.abs(expected).max() > 0.01


@pytest.mark.parametrize(
    "config",
    [
        ModelConfig(depth=2, width=4, squeeze_excitation=True),
        ModelConfig(depth=0, width=12, features="attack", value_width=3),
    ],
    ids=str,
)
def test_the_checkpoint_knows_the_shape_of_its_network(config, tmp_path):
    trainer = Trainer(small_config(runs_folder=str(tmp_path)).model_copy(update={"model": config}))
    folder = RunFolder.create(trainer.config)
    path = folder.checkpoints(1).save(0, *trainer.state())
    assert weights(load_model(path, CPU)) == weights(trainer.agent)


def test_a_path_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(CheckpointError, match="nothing does not exist"):
        load_model(tmp_path / "nothing", CPU)


@pytest.mark.parametrize("folder_exists", [False, True])
def test_a_run_without_checkpoints_says_so(folder_exists, tmp_path):
    folder = RunFolder.create(small_config(runs_folder=str(tmp_path)))
    if folder_exists:
        (folder.path / "checkpoints").mkdir()
    with pytest.raises(CheckpointError, match="has no checkpoint yet"):
        load_model(folder.path, CPU)


def test_a_damaged_best_model_is_not_replaced_by_another_in_silence(run):
    run.store.mark_best(run.checkpoint(2))
    run.damage(2)
    with pytest.raises(CheckpointError, match="update-00000002 is damaged"):
        load_model(run.folder.path, CPU)


def test_a_run_with_damaged_checkpoints_only_says_that_they_are_damaged(run):
    for update in (1, 2, 3):
        run.damage(update)
    with pytest.raises(CheckpointError, match="update-00000003 is damaged"):
        load_model(run.folder.path, CPU)
