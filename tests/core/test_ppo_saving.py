"""`PPOAgent.state`: an agent that is loaded continues exactly."""

import numpy as np
import pytest
import torch

from tests.core.single_step_rollouts import everything, rollout
from tests.core.small import opinionated, small_agent


class TestState:
    def copies(self, agent):
        tensors, state = agent.state()
        return {name: tensor.clone() for name, tensor in tensors.items()}, dict(state)

    @pytest.mark.parametrize("optimizer", ["adamw", "muon"])
    @pytest.mark.parametrize("mixed_precision", [False, True])
    def test_a_loaded_agent_continues_exactly(self, mixed_precision, optimizer):
        settings = {"epochs": 2, "minibatch": 4, "learning_rate": 0.01, "target_kl": 10.0}
        settings["optimizer"] = optimizer
        one = small_agent(seed=1, mixed_precision=mixed_precision, **settings)
        rollouts = [rollout(one, seed=seed) for seed in (1, 2, 3)]
        one.update(rollouts[0], 0.0)
        other = small_agent(seed=2, mixed_precision=mixed_precision, **settings)
        other.load_state(*self.copies(one))
        assert everything(other) == everything(one)
        for number, buffer in enumerate(rollouts[1:], 1):
            assert other.update(buffer, number / 4) == one.update(buffer, number / 4)
        assert everything(other) == everything(one)
        assert other.version == 3

    def test_agents_that_were_loaded_from_each_other_learn_apart(self):
        one, other = small_agent(seed=1), small_agent(seed=2)
        one.update(rollout(one), 0.0)
        other.load_state(*one.state())
        before = everything(other)
        one.update(rollout(one), 0.0)
        assert everything(other) == before != everything(one)

    def test_a_loaded_agent_takes_minibatches_in_the_same_order(self):
        one, other = small_agent(seed=1, minibatch=4), small_agent(seed=2, minibatch=4)
        buffer = rollout(one)
        buffer.returns[0] = np.arange(16)

        def order(agent):
            return [batch.returns.int().tolist() for batch in agent.minibatches(buffer)]

        order(one)
        other.load_state(*self.copies(one))
        assert order(other) == order(one)
        assert order(other) != order(small_agent(seed=2, minibatch=4))

    def test_an_agent_that_has_not_learnt_yet_can_be_loaded(self):
        one, other = small_agent(seed=1), small_agent(seed=2)
        other.update(rollout(other), 0.0)
        other.load_state(*self.copies(one))
        buffer = rollout(one)
        assert other.update(buffer, 0.0) == one.update(buffer, 0.0)
        assert everything(other) == everything(one)

    def test_a_state_is_tensors_and_plain_numbers(self):
        agent = opinionated(small_agent())
        agent.update(rollout(agent), 0.0)
        tensors, state = agent.state()
        assert all(isinstance(tensor, torch.Tensor) for tensor in tensors.values())
        assert state == {"version": 1}
        names = {name for name in tensors if name.startswith("model.")}
        assert names == {f"model.{name}" for name in agent.model.state_dict()}
        moments = [name for name in tensors if name.startswith("optimizer.")]
        assert len(moments) == 3 * len(names)
