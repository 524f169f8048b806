"""The losses of a minibatch, against the formula and against finite differences."""

import math

import numpy as np
import pytest
import torch

from keisei.shogi.policy_output_mapper import PolicyOutputMapper
from tests.core.reference import softmax_over_legal
from tests.core.single_step_rollouts import rollout
from tests.core.small import small_agent


class TestLosses:
    def minibatch(self, agent):
        """Five steps: a ratio within the clip, and each way beyond it with either advantage."""
        buffer = rollout(agent, 5)
        (batch,) = agent.minibatches(buffer)
        shift = torch.tensor([0.05, -0.6, 0.6, -0.6, 0.6])
        advantages = torch.tensor([1.0, 0.7, -2.0, -0.5, 0.3])
        return batch._replace(log_probs=batch.log_probs + shift, advantages=advantages)

    def test_they_are_those_of_the_formula(self):
        agent = small_agent(clip=0.2, value_coefficient=0.3)
        batch = self.minibatch(agent)
        with torch.no_grad():
            logits, values = (out.double().numpy() for out in agent.model(batch.positions))
            losses = agent.losses(batch, 0.05)
        gains, errors, entropies, kls, clips = [], [], [], [], []
        for row in range(5):
            legal = batch.legal[row, : int(batch.counts[row])].numpy()
            p = softmax_over_legal(logits[row], legal)
            new = p[legal.tolist().index(int(batch.actions[row]))]
            ratio, advantage = new / math.exp(batch.log_probs[row]), float(batch.advantages[row])
            gains.append(min(ratio * advantage, float(np.clip(ratio, 0.8, 1.2)) * advantage))
            errors.append((values[row] - float(batch.returns[row])) ** 2)
            entropies.append(-(p * np.log(p)).sum())
            kls.append(ratio - 1 - math.log(ratio))
            clips.append(abs(ratio - 1) > 0.2)
        expected = {
            "policy_loss": -np.mean(gains),
            "value_loss": np.mean(errors),
            "entropy": np.mean(entropies),
            "kl": np.mean(kls),
            "clip_share": np.mean(clips),
        }
        expected["loss"] = (
            expected["policy_loss"] + 0.3 * expected["value_loss"] - 0.05 * expected["entropy"]
        )
        assert {name: float(value) for name, value in losses.items()} == pytest.approx(
            expected, abs=1e-4
        )
        assert expected["clip_share"] == 0.8

    def losses_and_gradient(self, agent, batch):
        losses = agent.losses(batch, 0.05)
        parameters = list(agent.model.parameters())
        return losses, torch.autograd.grad(losses["loss"], parameters)

    def test_steps_of_older_weights_are_clipped_around_where_the_update_began(self):
        agent = small_agent(clip=0.2)
        batch = self.minibatch(agent)
        lags = torch.tensor([0.0, 1.0, 3.0, 1.0, 3.0])
        shift = torch.tensor([-0.05, 0.6, -0.6, 0.6, -0.6])
        began = shift * lags / (1 + lags)
        weights = began.exp().clamp(max=2.0)
        same = batch._replace(
            log_probs=batch.log_probs + began, advantages=batch.advantages * weights
        )
        old, old_gradient = self.losses_and_gradient(agent, batch._replace(lags=lags))
        new, new_gradient = self.losses_and_gradient(agent, same)
        assert {name: float(value.detach()) for name, value in old.items()} == pytest.approx(
            {name: float(value.detach()) for name, value in new.items()}, abs=1e-5
        )
        for mine, theirs in zip(old_gradient, new_gradient, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-5)

    def test_no_step_of_older_weights_counts_more_than_twice(self):
        agent = small_agent(clip=0.2)
        batch = self.minibatch(agent)
        unlikely = batch._replace(
            log_probs=batch.log_probs - 8.0,
            advantages=torch.ones(5),
            lags=torch.full((5,), 1.0),
        )
        with torch.no_grad():
            gain = -float(agent.losses(unlikely, 0.0)["policy_loss"])
        assert gain == pytest.approx(2.0 * 1.2)

    def test_its_gradient_equals_finite_differences(self):
        agent = small_agent(clip=0.2)
        batch = self.minibatch(agent)
        exact = batch._replace(
            log_probs=batch.log_probs.double(),
            advantages=batch.advantages.double(),
            returns=batch.returns.double(),
        )
        with torch.no_grad():
            logits, values = (out.double() for out in agent.model(batch.positions))
        table = torch.from_numpy(PolicyOutputMapper.plane_indices.astype(np.int64))
        planes = table[batch.legal.long()].unique()

        def loss(chosen, values):
            agent._forward = lambda _: (logits.index_copy(1, planes, chosen), values)
            return agent.losses(exact, 0.05)["loss"]

        inputs = (logits[:, planes].clone().requires_grad_(), values.clone().requires_grad_())
        assert torch.autograd.gradcheck(loss, inputs)
