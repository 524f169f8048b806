"""Recordings on a GPU answer as the calls that they stand for."""

from __future__ import annotations

import pytest
import torch

from keisei.config_loading import config_of
from keisei.core.recorded_call import RecordedCall
from keisei.training.trainer import Trainer

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


def test_a_recording_reads_its_arguments_and_everything_else_anew():
    factor = torch.ones(3, device="cuda")
    call = RecordedCall(lambda x: x * factor, torch.zeros(3, device="cuda"))
    assert call(torch.arange(3.0, device="cuda")).tolist() == [0, 1, 2]
    factor.fill_(5)
    assert call(torch.arange(3.0, device="cuda")).tolist() == [0, 5, 10]


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize("compiled", ["true", "false"])
def test_a_run_with_recordings_learns_the_same(compiled, optimizer):
    weights = []
    for recorded in ("false", "true"):
        trainer = Trainer(
            config_of(
                [
                    "shogi-gpu",
                    "model.depth=2",
                    "model.width=32",
                    f"ppo.optimizer={optimizer}",
                    "games.count=64",
                    "games.opponent_share=0.25",
                    "games.opponent_interval=1",
                    "ppo.minibatch=256",
                    "ppo.epochs=2",
                    "training.rollout_length=8",
                    f"training.compile={compiled}",
                    f"training.cuda_graphs={recorded}",
                ]
            )
        )
        for _ in range(3):
            trainer.collect()
            figures = trainer.perform_ppo_update()
        weights.append(torch.cat([p.detach().flatten() for p in trainer.agent.model.parameters()]))
        assert figures["grad_norm"] > 0
    difference = (weights[0] - weights[1]).norm() / weights[0].norm()
    assert difference < 1e-3  # 0 where the algorithms of the convolutions repeat to the bit
