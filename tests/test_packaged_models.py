"""Models that ship: made by `scripts/package_model.py`, small, whole, and with a card."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from keisei.play.model_choice import PACKAGED
from keisei.shogi.vector_shogi import VectorShogi
from keisei.training.checkpoint_format import load_checkpoint
from keisei.training.trained_models import load_model
from tests.core.small import opinionated, small_config
from tests.training.small_run import RunFolder, Trainer

SCRIPT = Path(__file__).parents[1] / "scripts" / "package_model.py"
CPU = torch.device("cpu")
SHIPPED = sorted(state.parent for state in PACKAGED.glob("*/state.json"))


def test_a_packaged_model_is_the_network_alone_in_half_precision(tmp_path):
    trainer = Trainer(small_config(runs_folder=str(tmp_path)))
    opinionated(trainer.agent)
    folder = RunFolder.create(trainer.config)
    folder.checkpoints(1).save(3, *trainer.state())
    target = tmp_path / "packaged"
    subprocess.run([sys.executable, SCRIPT, folder.path, target], check=True, capture_output=True)
    tensors = load_checkpoint(target).tensors
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float16}
    packaged, weights = load_model(target, CPU), trainer.agent.model.state_dict()
    assert {name.removeprefix("agent.model.") for name in tensors} == set(weights)
    for name, tensor in packaged.model.state_dict().items():
        assert torch.equal(tensor, weights[name].half().float())


def test_there_is_a_model_that_ships():
    assert SHIPPED


@pytest.mark.parametrize("model", SHIPPED, ids=lambda model: model.name)
def test_what_ships_is_small_has_a_card_and_plays(model):
    assert sum(file.stat().st_size for file in model.iterdir()) <= 12e6
    assert "keisei train" in (model / "README.md").read_text("utf-8")
    games = VectorShogi(4, seed=1, threads=1)
    games.play_random(20)
    choice = load_model(model, CPU).select_actions(
        games.positions, games.legal, games.legal_counts, None
    )
    games.step(choice.actions)  # refuses what is illegal
    assert abs(choice.values).max() > 0.01
