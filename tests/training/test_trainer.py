"""`Trainer`: what is resumed goes on exactly as what was never stopped."""

import math
import os
import subprocess
import sys

import numpy as np
import pytest

from keisei.core.ppo_agent import NonFiniteLossError
from keisei.training.checkpoints import CheckpointStore
from keisei.training.trainer import Trainer
from tests.core.small import (
    SMALL_MODEL,
    bits,
    computes_as_said,
    networks,
    one_thread,
    opinionated,
    small_config,
)


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with one_thread():
        yield


def everything_on(*, model=SMALL_MODEL, mixed_precision=False, **others):
    """A config with all that has a state of its own, and games that end within a few updates."""
    return small_config(
        model=model,
        games={
            "count": 48,
            "random_start_share": 1.0,
            "random_start_plies": 400,
            "rewind_share": 0.8,
            "opponent_share": 0.25,
            "opponent_interval": 2,
            "opponent_ring": 3,
        },
        ppo={"epochs": 2, "minibatch": 128, "cut_games": "bootstrap", "learning_rate": 0.01},
        training={"total_steps": 48 * 8 * 20, "mixed_precision": mixed_precision},
        **others,
    )


def started(config):
    """A trainer whose network has opinions, so that there is something to learn at once."""
    trainer = Trainer(config)
    opinionated(trainer.agent)
    return trainer


def train(trainer, updates):
    """The figures of each update."""
    figures = []
    for _ in range(updates):
        trainer.collect()
        figures.append(trainer.perform_ppo_update())
    return figures


def exactly(trainer):
    tensors, state = trainer.state()
    return bits(tensors), state


def resumed(trainer, folder):
    """Another trainer, from a checkpoint of this one on disk."""
    store = CheckpointStore(folder, keep=1)
    store.save(trainer.updates, *trainer.state())
    checkpoint, damaged = store.newest()
    assert damaged == []
    other = Trainer(trainer.config)
    other.load_checkpoint(checkpoint)
    return other


@pytest.mark.usefixtures("no_tiles")
@pytest.mark.parametrize("network", networks())
def test_a_resumed_run_equals_one_that_was_never_stopped(network, tmp_path):
    config = everything_on(**network)
    whole, first_half = started(config), started(config)
    assert computes_as_said(whole.agent)
    figures = train(whole, 12)
    assert train(first_half, 6) == figures[:6]
    second_half = resumed(first_half, tmp_path)
    del first_half
    assert train(second_half, 6) == figures[6:]
    tensors, state = exactly(whole)
    resumed_tensors, resumed_state = exactly(second_half)
    assert resumed_state == state
    assert resumed_tensors.keys() == tensors.keys()
    assert [name for name in tensors if tensors[name] != resumed_tensors[name]] == []
    assert bits(vars_of(second_half.buffer)) == bits(vars_of(whole.buffer))
    # And the comparison was of runs in which something happened.
    assert (state["updates"], state["steps"]) == (12, 12 * 8 * 48)
    assert state["games"] > 0
    assert state["pool"]["snapshots"] == 3
    assert whole.buffer.advantages.std() > 0.01
    assert not whole.buffer.trains.all()


def vars_of(buffer):
    return {**buffer.get_serializable_batch(), "advantages": buffer.advantages}


def test_another_seed_is_another_run():
    one, other = (started(everything_on(seed=seed)) for seed in (1, 2))
    assert train(one, 2) != train(other, 2)


def test_a_checkpoint_restores_counters_and_the_best_score(tmp_path):
    trainer = started(everything_on())
    train(trainer, 3)
    trainer.best_score = 0.75
    other = resumed(trainer, tmp_path)
    assert (other.updates, other.steps, other.best_score) == (3, 3 * 8 * 48, 0.75)
    assert other.games == trainer.games
    assert other.agent.version == 3
    assert other.progress == trainer.progress == 3 / 20


def test_progress_goes_from_0_to_1_and_no_further():
    trainer = Trainer(small_config(training={"total_steps": 100}))
    seen = [trainer.progress]
    for _ in range(3):
        trainer.collect()
        seen.append(trainer.progress)
    assert seen == [0, 0.64, 1, 1]


def test_a_rollout_has_advantages_by_the_settings():
    trainer = started(small_config(ppo={"gamma": 0.5, "gae_lambda": 0.0}))
    trainer.collect()
    buffer = trainer.buffer
    assert not buffer.ends.any()
    expected = -0.5 * buffer.values[1:] - buffer.values[:-1]
    np.testing.assert_allclose(buffer.advantages[:-1], expected, atol=1e-6)
    assert np.abs(expected).max() > 0.01


@pytest.mark.parametrize(("cut_games", "same"), [("draw", True), ("bootstrap", False)])
def test_cut_games_are_worth_what_the_settings_say(cut_games, same):
    games = {"max_moves": 8, "random_start_share": 0.0}
    trainer = started(small_config(games=games, ppo={"cut_games": cut_games, "gae_lambda": 0.0}))
    trainer.collect()
    buffer = trainer.buffer
    assert buffer.truncations[-1].all()
    assert np.allclose(buffer.advantages[-1], -buffer.values[-1], atol=1e-6) == same


def test_an_update_that_fails_counts_and_leaves_the_weights():
    trainer = started(everything_on())
    trainer.collect()
    trainer.buffer.returns[:] = math.nan
    before = bits(trainer.agent.model.state_dict())
    with pytest.raises(NonFiniteLossError):
        trainer.perform_ppo_update()
    assert trainer.updates == 1
    assert bits(trainer.agent.model.state_dict()) == before
    train(trainer, 1)
    assert trainer.updates == 2


def test_there_is_no_pool_without_games_against_past_selves():
    trainer = Trainer(small_config())
    assert trainer.pool is None
    assert "pool" not in trainer.state()[1]
    trainer.collect()
    assert trainer.buffer.trains.all()


def test_the_network_computes_with_the_threads_of_the_settings():
    child = """
import torch
from keisei.config_schema import Config, GamesConfig, ModelConfig, TrainingConfig
from keisei.training.trainer import Trainer
Trainer(Config(
    device="cpu",
    model=ModelConfig(depth=2, width=64),
    games=GamesConfig(count=8),
    training=TrainingConfig(threads=2, rollout_length=1),
)).collect()
print(torch.get_num_threads())
"""
    run = subprocess.run(
        [sys.executable, "-c", child],
        env={**os.environ, "NUMBA_NUM_THREADS": "4"},  # as on a machine with four cores
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == "2\n"
