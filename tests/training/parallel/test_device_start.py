"""What is compiled before a run on a GPU begins; here on the CPU."""

import logging
import signal
import subprocess
import sys

import pytest
import torch

from keisei.config_loading import config_of
from keisei.core.device_policy import DevicePolicy
from keisei.core.ppo_agent import PPOAgent
from keisei.training.parallel import device_start
from keisei.training.parallel.device_start import (
    PARTS,
    compile_learning,
    compile_playing,
    compiled_beside,
    seconds_in_log,
)
from tests.core.small import bits, opinionated, small_config

COUNT_KERNELS = """
import gc, sys
from numba.core.dispatcher import Dispatcher
from keisei.config_loading import config_of
from keisei.config_schema import ModelConfig
from keisei.training.parallel.device_start import small_run
from keisei.training.trainer import Trainer

def signatures():
    found = [o for o in gc.get_objects() if isinstance(o, Dispatcher)]
    return sorted((o.py_func.__qualname__, len(o.signatures)) for o in found if o.signatures)

config = config_of(["shogi-gpu", "games.rewind_share=0.5", "training.threads=4"])
Trainer(small_run(config)).collect()
before = signatures()
few = {"count": 64, "max_moves": 50}
larger = config.model_copy(
    update={
        "device": "cpu",
        "model": ModelConfig(depth=1, width=8, features="attack"),
        "games": config.games.model_copy(update=few),
        "training": config.training.model_copy(update={"collector": "device"}),
    }
)
trainer = Trainer(larger)
trainer.collect()
trainer.collect()
assert len(before) > 5
assert signatures() == before, set(signatures()) - set(before)
"""


def test_a_small_run_compiles_all_that_a_large_one_needs():
    done = subprocess.run(
        [sys.executable, "-c", COUNT_KERNELS], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_nothing_is_learned_by_compiling_ahead():
    config = small_config()
    agent = opinionated(PPOAgent(config.model, config.ppo))
    policy = DevicePolicy(agent)
    before = bits(agent.state()[0])
    compile_playing(agent, policy, policy, games=2, opponent_games=1)
    compile_learning(config, agent, policy)
    assert bits(agent.state()[0]) == before
    assert all(parameter.grad is None for parameter in agent.model.parameters())


@pytest.fixture
def children(monkeypatch):
    """The processes that are started, in a list."""
    started, start = [], subprocess.Popen

    def noting(*arguments, **options):
        started.append(start(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(device_start.subprocess, "Popen", noting)
    return started


def test_children_play_and_learn_with_the_config_they_are_told(children):
    settings = ["device=cpu", "games.count=4", "training.rollout_length=2"]
    with compiled_beside(config_of(["shogi-gpu", *settings])):
        assert [child.poll() for child in children] == [None, None]
    assert [child.returncode for child in children] == [0, 0]


def test_the_log_tells_how_long_a_part_took(caplog):
    with caplog.at_level(logging.INFO), seconds_in_log("what plays is compiled"):
        pass
    assert caplog.messages == ["what plays is compiled in 0.0 s"]


def test_a_child_that_fails_is_told_of(children, caplog):
    with compiled_beside(config_of(["shogi-gpu"]), ["what nobody knows"]):
        pass
    assert children[0].returncode not in (0, None)
    assert "compiles the what nobody knows failed" in caplog.text


def test_an_error_beside_them_ends_the_children(children):
    with pytest.raises(torch.OutOfMemoryError), compiled_beside(config_of(["shogi-gpu"])):
        raise torch.OutOfMemoryError
    assert [child.returncode for child in children] == [-signal.SIGKILL] * len(PARTS)


def test_a_child_that_takes_too_long_is_not_waited_for(children, monkeypatch):
    monkeypatch.setattr(device_start, "_LONGEST_SECONDS", 0.0)
    with compiled_beside(config_of(["shogi-gpu"])):
        pass
    assert children[0].returncode == -signal.SIGKILL
