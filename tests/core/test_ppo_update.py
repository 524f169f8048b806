"""`PPOAgent.update`: what an agent learns, when it stops, and that it refuses nonsense."""

import math
from itertools import chain

import numpy as np
import pytest
import torch

from keisei.config_schema import PPOConfig
from keisei.core.ppo_agent import NonFiniteLossError, PPOAgent
from tests.core.single_step_rollouts import (
    choose,
    everything,
    probabilities_of,
    rollout,
    single_steps,
    weights,
)
from tests.core.small import computes_as_said, networks, played_games, small_agent

ONLY_POLICY = {"value_coefficient": 0.0, "entropy": 0.0, "final_entropy": 0.0, "weight_decay": 0.0}


@pytest.fixture(params=networks())
def agent_of(request, no_tiles):
    """`small_agent` with a network that is computed by torch or by kernels of our own."""

    def agent_of(**ppo):
        agent = small_agent(**request.param, **ppo)
        assert computes_as_said(agent)
        return agent

    return agent_of


class Elsewhere:
    """A gradient source that notes what it is asked for."""

    def __init__(self, agent):
        self.agent, self.asked = agent, []

    def gradients_in_turn(self, lesson, minibatches):
        for chosen in minibatches:
            self.asked.append(chosen.tolist())
            yield self.agent.gradients(lesson, chosen)


class TestLearning:
    def test_good_moves_become_likelier_and_bad_ones_less_likely(self, agent_of):
        agent = agent_of(learning_rate=0.01, **ONLY_POLICY)
        games = played_games(8, plies=0)
        good, bad = (int(action) for action in games.legal[0, [3, 11]])
        actions = np.array([good, bad] * 4)
        buffer = single_steps(agent, games, actions)
        buffer.advantages[0] = [1.0, -1.0] * 4
        before = probabilities_of(agent, games, actions)
        agent.update(buffer, 0.0)
        change = probabilities_of(agent, games, actions) / before
        assert change[0] > 1.005
        assert change[1] < 0.995

    def test_moves_of_a_past_self_teach_nothing(self, agent_of):
        agent = agent_of(learning_rate=1e-3, **ONLY_POLICY)
        games = played_games(8, plies=0)
        good = np.full(8, int(games.legal[0, 3]))
        buffer = single_steps(agent, games, good, trains=np.array([True, False] * 4))
        buffer.advantages[0] = [0.0, 5.0] * 4
        before = weights(agent)
        agent.update(buffer, 0.0)
        assert weights(agent) == before

    def test_the_value_follows_the_returns(self, agent_of):
        agent = agent_of(learning_rate=3e-3, value_coefficient=1.0, epochs=20)
        buffer = rollout(agent, 8)
        buffer.advantages[0] = 0
        buffer.returns[0] = 0.5
        before = agent.evaluate_positions(buffer.positions[0])
        agent.update(buffer, 0.0)
        after = agent.evaluate_positions(buffer.positions[0])
        assert np.abs(after - 0.5).mean() < 0.5 * np.abs(before - 0.5).mean()

    def test_the_bonus_raises_the_entropy_and_nothing_else_moves_the_weights(self, agent_of):
        def entropy_after(weight):
            settings = {**ONLY_POLICY, "entropy": weight, "target_kl": 10.0}
            agent = agent_of(learning_rate=1e-3, epochs=10, **settings)
            buffer = rollout(agent, 8)
            buffer.advantages[0] = 0
            before = weights(agent)
            first = agent.update(buffer, 0.0)["entropy"]
            return weights(agent) != before, first

        changed, entropy = entropy_after(0.5)
        unchanged, without = entropy_after(0.0)
        assert changed
        assert not unchanged
        assert entropy > without + 0.01

    def test_a_rollout_of_past_selves_only_is_no_lesson(self):
        agent = small_agent()
        buffer = single_steps(agent, played_games(4), trains=np.zeros(4, np.bool_))
        before = weights(agent)
        figures = agent.update(buffer, 0.0)
        assert (figures["minibatches"], figures["explained_variance"]) == (0, 0)
        assert weights(agent) == before
        assert agent.version == 1

    def test_gradients_may_come_from_elsewhere(self, agent_of):
        settings = {"epochs": 2, "minibatch": 4, "learning_rate": 0.01, "target_kl": 100.0}
        agent, plain = agent_of(**settings), agent_of(**settings)
        elsewhere = Elsewhere(agent)
        agent.gradient_source = elsewhere
        buffer = rollout(agent)
        assert agent.update(buffer, 0.0) == plain.update(buffer, 0.0)
        assert everything(agent) == everything(plain)
        assert sorted(chain(*elsewhere.asked)) == sorted([*range(16)] * 2)

    def test_it_stops_when_the_policy_has_moved_too_far(self, agent_of):
        agent = agent_of(learning_rate=0.01, epochs=5, minibatch=4, target_kl=1e-4)
        figures = agent.update(rollout(agent), 0.0)
        # The first minibatch still meets the policy that played; its step is what moves it.
        assert (figures["minibatches"], figures["stopped_early"]) == (2, 1)

    def test_it_stops_after_one_minibatch_of_another_policy(self):
        agent = small_agent(epochs=5, minibatch=4, target_kl=1e-4)
        buffer = rollout(agent)
        buffer.log_probs[:] -= 0.5
        figures = agent.update(buffer, 0.0)
        assert (figures["minibatches"], figures["stopped_early"]) == (1, 1)

    def test_it_takes_all_epochs_when_the_policy_moves_little(self):
        agent = small_agent(learning_rate=1e-6, final_learning_rate=1e-6, epochs=3, minibatch=4)
        figures = agent.update(rollout(agent), 0.0)
        assert (figures["minibatches"], figures["stopped_early"]) == (12, 0)
        assert figures["kl"] < 1e-6

    @pytest.mark.parametrize(
        ("progress", "learning_rate", "entropy"),
        [(0.0, 0.01, 0.02), (0.25, 0.008, 0.0175), (1.0, 0.002, 0.01), (1.5, 0.002, 0.01)],
    )
    def test_learning_rate_and_bonus_follow_the_progress(self, progress, learning_rate, entropy):
        agent = small_agent(
            learning_rate=0.01, final_learning_rate=0.002, entropy=0.02, final_entropy=0.01
        )
        figures = agent.update(rollout(agent), progress)
        assert figures["learning_rate"] == pytest.approx(learning_rate)
        assert figures["entropy_weight"] == pytest.approx(entropy)
        assert agent.optimizer.param_groups[0]["lr"] == pytest.approx(learning_rate)

    def test_a_learning_rate_of_0_at_the_end_changes_nothing(self):
        agent = small_agent(learning_rate=0.01, final_learning_rate=0.0)
        before = weights(agent)
        agent.update(rollout(agent), 1.0)
        assert weights(agent) == before

    @pytest.mark.parametrize("limit", [0.01, 1000.0])
    def test_gradients_are_clipped_to_their_norm(self, agent_of, limit):
        agent = agent_of(minibatch=1000, max_grad_norm=limit)
        figures = agent.update(rollout(agent), 0.0)
        squares = [float(p.grad.double().square().sum()) for p in agent.model.parameters()]
        assert 0.01 < figures["grad_norm"] < 1000  # as it was before
        assert math.sqrt(sum(squares)) == pytest.approx(min(limit, figures["grad_norm"]), rel=1e-3)

    def test_the_figures_are_means_over_the_minibatches(self):
        agent = small_agent(learning_rate=1e-9, final_learning_rate=0.0, minibatch=4, epochs=1)
        buffer = rollout(agent)
        figures = agent.update(buffer, 0.0)
        expected = np.square(buffer.values - buffer.returns).mean()
        assert figures["value_loss"] == pytest.approx(expected, rel=1e-3)
        with torch.no_grad():
            entropies = [agent.losses(batch, 0.0)["entropy"] for batch in agent.minibatches(buffer)]
        assert figures["entropy"] == pytest.approx(float(sum(entropies)) / 4, rel=1e-3)

    def test_explained_variance_is_1_for_a_prophet_and_0_for_a_constant(self):
        agent = small_agent()
        buffer = rollout(agent)
        buffer.values[:] = buffer.returns
        assert agent.update(buffer, 0.0)["explained_variance"] == pytest.approx(1)
        buffer.values[:] = 0.3
        assert agent.update(buffer, 0.0)["explained_variance"] == pytest.approx(0, abs=1e-5)
        buffer.returns[:] = 0.5
        assert agent.update(buffer, 0.0)["explained_variance"] == 0

    @pytest.mark.usefixtures("no_tiles")
    @pytest.mark.parametrize("network", networks())
    def test_it_finds_the_one_move_that_wins(self, network):
        config = PPOConfig(learning_rate=3e-3, minibatch=64, epochs=4, target_kl=0.1)
        model, mixed_precision = network.values()
        agent = PPOAgent(model, config, seed=1, mixed_precision=mixed_precision)
        games = played_games(128, plies=0)
        wins = int(games.legal[0, 17])
        assert probabilities_of(agent, games, [wins] * 128)[0] == pytest.approx(1 / 30)
        for _ in range(30):
            actions = choose(agent, games, games.random_fractions()).actions
            rewards = (actions == wins).astype(np.float32)
            buffer = single_steps(agent, games, actions, rewards=rewards)
            buffer.compute_advantages_and_returns(
                np.zeros(128), gamma=1.0, gae_lambda=0.95, cut_games="draw"
            )
            agent.update(buffer, 0.0)
        assert probabilities_of(agent, games, [wins] * 128)[0] > 0.9
        assert choose(agent, games, None).actions[0] == wins
        assert agent.version == 30


class TestNonsense:
    def assert_refused(self, agent, buffer, cause):
        before = everything(agent)[0]
        del before["generator"]  # the order of an update that failed is spent
        version = agent.version
        with pytest.raises(NonFiniteLossError, match=cause):
            agent.update(buffer, 0.0)
        after = everything(agent)[0]
        del after["generator"]
        assert after == before
        assert agent.version == version

    @pytest.mark.parametrize("value", [math.nan, math.inf])
    @pytest.mark.parametrize(
        ("array", "cause"), [("advantages", "policy_loss is "), ("returns", "value_loss is ")]
    )
    def test_a_buffer_with_nonsense_is_refused_and_the_cause_named(
        self, agent_of, array, cause, value
    ):
        agent = agent_of(minibatch=1000)
        agent.update(rollout(agent), 0.0)
        buffer = rollout(agent)
        getattr(buffer, array)[0, 5] = value
        with np.errstate(invalid="ignore"):
            self.assert_refused(agent, buffer, cause)
        agent.update(rollout(agent), 0.0)  # and the next one is as good as any
        assert all(torch.isfinite(parameter).all() for parameter in agent.model.parameters())

    def test_nonsense_in_a_late_minibatch_leaves_the_weights_of_before_the_update(self, agent_of):
        agent = agent_of(minibatch=4, epochs=2, target_kl=100.0)
        buffer = rollout(agent)
        (*_, last) = agent_of(minibatch=4, epochs=1).minibatches(buffer)
        # The agent's first order is that of any agent with its seed.
        late = int(np.flatnonzero(buffer.returns[0] == float(last.returns[-1]))[0])
        buffer.returns[0, late] = math.nan
        self.assert_refused(agent, buffer, "value_loss is nan")

    def test_a_weight_that_is_not_a_number_is_noticed(self, agent_of):
        agent = agent_of()
        buffer = rollout(agent)
        with torch.no_grad():
            agent.model.stem.weight[0, 0, 0, 0] = math.nan
        self.assert_refused(agent, buffer, "policy_loss is nan and value_loss is nan")

    def test_a_gradient_that_is_not_a_number_is_noticed(self):
        agent = small_agent()
        agent.model.stem.weight.register_hook(lambda gradient: gradient * math.nan)
        self.assert_refused(agent, rollout(agent), "gradient norm is nan")

    def test_the_message_says_what_was_done_and_what_may_help(self):
        agent = small_agent(minibatch=1000)
        buffer = rollout(agent)
        buffer.returns[0, 0] = math.nan
        with pytest.raises(NonFiniteLossError, match="weights before it kept; a lower ppo"):
            agent.update(buffer, 0.0)
