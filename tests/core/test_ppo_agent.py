"""`PPOAgent`: how it chooses, how it learns, and that it does not learn from nonsense."""

import math
from itertools import chain

import numpy as np
import pytest
import torch

from keisei.config_schema import PPOConfig
from keisei.core.experience_buffer import ExperienceBuffer
from keisei.core.ppo_agent import NonFiniteLossError, PPOAgent
from keisei.shogi.policy_output_mapper import PolicyOutputMapper
from keisei.shogi.vector_shogi import VectorShogi
from tests.core.reference import softmax_over_legal
from tests.core.small import SMALL_MODEL, bits, opinionated, played_games, small_agent

ONLY_POLICY = {"value_coefficient": 0.0, "entropy": 0.0, "final_entropy": 0.0, "weight_decay": 0.0}


def choose(agent, games, fractions):
    return agent.select_actions(games.positions, games.legal, games.legal_counts, fractions)


def logits_of(agent, games):
    with torch.no_grad():
        return agent.model(torch.from_numpy(games.positions))[0].numpy()


def probabilities_of(agent, games, actions):
    """[B] how likely the agent plays an action of each game, by the plain softmax."""
    logits = logits_of(agent, games)
    answer = []
    for row, action in enumerate(actions):
        legal = games.legal[row, : games.legal_counts[row]]
        answer.append(softmax_over_legal(logits[row], legal)[legal.tolist().index(int(action))])
    return np.array(answer)


def single_steps(agent, games, actions=None, **arrays):
    """A buffer of one step of each game, played by the agent or as given."""
    choice = choose(agent, games, games.random_fractions())
    actions = choice.actions if actions is None else actions
    count = games.num_games
    buffer = ExperienceBuffer(1, count)
    step = {
        "positions": games.positions,
        "legal": games.legal,
        "legal_counts": games.legal_counts,
        "actions": actions,
        "log_probs": np.log(probabilities_of(agent, games, actions)),
        "values": choice.values,
        "rewards": np.zeros(count),
        "ends": np.ones(count, np.bool_),
        "truncations": np.zeros(count, np.bool_),
        "cut_values": np.zeros(count),
        "trains": np.ones(count, np.bool_),
        "versions": agent.version,
    }
    buffer.add_batch(**{**step, **arrays})
    return buffer


def rollout(agent, games=16, seed=3):
    """A buffer of single steps with random advantages and returns."""
    buffer = single_steps(agent, played_games(games, seed=seed))
    random = np.random.default_rng(seed)
    buffer.advantages[0] = random.normal(size=games)
    buffer.returns[0] = random.uniform(-1, 1, games)
    return buffer


def weights(agent):
    return bits(agent.model.state_dict())


def everything(agent):
    tensors, state = agent.state()
    return bits(tensors), state


class TestChoosing:
    def test_only_legal_moves_are_chosen_and_their_probabilities_told(self):
        agent, games = small_agent(), played_games(32, plies=60)
        for fractions in (None, games.random_fractions(), np.zeros(32), np.full(32, 1 - 2**-53)):
            choice = choose(agent, games, fractions)
            expected = np.log(probabilities_of(agent, games, choice.actions))  # legal or ValueError
            assert choice.log_probs == pytest.approx(expected, abs=1e-4)
            assert choice.values == pytest.approx(agent.evaluate_positions(games.positions))

    def test_without_fractions_the_most_probable_move_is_chosen(self):
        agent, games = small_agent(), played_games(32)
        choice = choose(agent, games, None)
        for row, logits in enumerate(logits_of(agent, games)):
            legal = games.legal[row, : games.legal_counts[row]]
            assert choice.actions[row] == legal[softmax_over_legal(logits, legal).argmax()]

    def test_fractions_draw_moves_as_often_as_they_are_probable(self):
        agent, times = small_agent(), 4000
        games = VectorShogi(times, threads=1)
        drawn = choose(agent, games, (np.arange(times) + 0.5) / times).actions
        legal = games.legal[0, : games.legal_counts[0]]
        shares = np.array([(drawn == action).mean() for action in legal])
        expected = softmax_over_legal(logits_of(agent, played_games(1, plies=0))[0], legal)
        assert expected.std() > 0.005
        assert shares == pytest.approx(expected, abs=2 / times)

    @pytest.mark.parametrize("temperature", [0.5, 3.0])
    def test_temperature_changes_what_is_drawn_and_not_what_is_told(self, temperature):
        agent, times = small_agent(), 4000
        games = VectorShogi(times, threads=1)
        fractions = (np.arange(times) + 0.5) / times
        choice = agent.select_actions(
            games.positions, games.legal, games.legal_counts, fractions, temperature=temperature
        )
        legal = games.legal[0, : games.legal_counts[0]]
        shares = np.array([(choice.actions == action).mean() for action in legal])
        probabilities = softmax_over_legal(logits_of(agent, played_games(1, plies=0))[0], legal)
        powers = probabilities ** (1 / temperature)
        assert shares == pytest.approx(powers / powers.sum(), abs=2 / times)
        told = probabilities[[legal.tolist().index(int(action)) for action in choice.actions]]
        assert choice.log_probs == pytest.approx(np.log(told), abs=1e-4)

    def test_the_same_fractions_choose_the_same_moves_in_any_batch(self):
        agent, games = small_agent(), played_games(16, plies=50)
        fractions = np.random.default_rng(1).random(16)
        together = choose(agent, games, fractions)
        assert np.array_equal(choose(agent, games, fractions).actions, together.actions)
        for rows in (slice(0, 3), slice(3, 16)):
            part = agent.select_actions(
                games.positions[rows], games.legal[rows], games.legal_counts[rows], fractions[rows]
            )
            assert np.array_equal(part.actions, together.actions[rows])
            assert part.values == pytest.approx(together.values[rows], abs=1e-5)

    def test_bfloat16_chooses_legal_moves_too(self):
        agent, games = small_agent(mixed_precision=True), played_games(32)
        choice = choose(agent, games, games.random_fractions())
        games.step(choice.actions)  # which refuses illegal ones

    def test_a_copy_for_playing_has_weights_of_its_own(self):
        agent, games = small_agent(), played_games(4)
        copy = agent.copy_for_playing()
        copy.model.load_state_dict(agent.model.state_dict())
        assert (
            choose(copy, games, None).values.tolist() == choose(agent, games, None).values.tolist()
        )
        before = weights(copy)
        agent.update(rollout(agent), 0.0)
        assert weights(copy) == before != weights(agent)


class TestMinibatches:
    def numbered(self, agent, trains):
        """A buffer whose returns are the numbers of its steps."""
        games = played_games(len(trains))
        buffer = single_steps(agent, games, trains=np.array(trains))
        buffer.returns[0] = np.arange(len(trains))
        return buffer

    def test_every_own_step_comes_once_an_epoch_and_no_other(self):
        agent = small_agent(epochs=3, minibatch=5)
        trains = [True] * 9 + [False, True] * 7
        numbers = [
            batch.returns.int().tolist()
            for batch in agent.minibatches(self.numbered(agent, trains))
        ]
        own = np.flatnonzero(trains).tolist()
        assert len(numbers) == 3 * 3
        for epoch in range(3):
            assert sorted(chain(*numbers[3 * epoch : 3 * epoch + 3])) == own
        assert {len(batch) for batch in numbers} <= {5, 6}
        assert numbers[0] != numbers[3] != numbers[6]

    def test_a_minibatch_holds_what_the_buffer_has_of_its_steps(self):
        agent, games = small_agent(minibatch=4), played_games(11, plies=60)
        buffer = self.numbered(agent, [True] * 11)
        buffer.positions[0], buffer.log_probs[0] = games.positions, np.arange(11) / 8
        for batch in agent.minibatches(buffer):
            for place, step in enumerate(batch.returns.int().tolist()):
                start, count = buffer.legal_starts[0, step], int(buffer.legal_counts[0, step])
                listed = buffer.legal_pool[start : start + count].tolist()
                assert batch.legal[place, :count].tolist() == listed
                assert int(batch.counts[place]) == count
                assert batch.positions[place].tolist() == games.positions[step].tolist()
                assert int(batch.actions[place]) == buffer.actions[0, step]
                assert float(batch.log_probs[place]) == step / 8

    def test_advantages_are_normalised_over_the_own_steps(self):
        agent = small_agent(minibatch=1000)
        buffer = self.numbered(agent, [True] * 6 + [False] * 3)
        buffer.advantages[0] = [1, 2, 3, 4, 5, 9, 1000, -1000, 7]
        (batch,) = agent.minibatches(buffer)
        by_step = batch.advantages[batch.returns.argsort()]
        expected = (np.array([1, 2, 3, 4, 5, 9]) - 4) / np.std([1, 2, 3, 4, 5, 9])
        assert by_step.tolist() == pytest.approx(expected.tolist(), abs=1e-5)

    def test_small_advantages_are_not_blown_up(self):
        agent = small_agent(minibatch=1000, advantage_floor=0.1)
        buffer = self.numbered(agent, [True] * 4)
        buffer.advantages[0] = [0.001, -0.001, 0.001, -0.001]
        (batch,) = agent.minibatches(buffer)
        assert batch.advantages.abs().tolist() == pytest.approx([0.01] * 4)


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


class Elsewhere:
    """A gradient source that notes what it is asked for."""

    def __init__(self, agent):
        self.agent, self.asked = agent, []

    def gradients(self, lesson, chosen):
        self.asked.append(chosen.tolist())
        return self.agent.gradients(lesson, chosen)


class TestLearning:
    def test_good_moves_become_likelier_and_bad_ones_less_likely(self):
        agent = small_agent(learning_rate=0.01, **ONLY_POLICY)
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

    def test_moves_of_a_past_self_teach_nothing(self):
        agent = small_agent(learning_rate=1e-3, **ONLY_POLICY)
        games = played_games(8, plies=0)
        good = np.full(8, int(games.legal[0, 3]))
        buffer = single_steps(agent, games, good, trains=np.array([True, False] * 4))
        buffer.advantages[0] = [0.0, 5.0] * 4
        before = weights(agent)
        agent.update(buffer, 0.0)
        assert weights(agent) == before

    def test_the_value_follows_the_returns(self):
        agent = small_agent(learning_rate=3e-3, value_coefficient=1.0, epochs=20)
        buffer = rollout(agent, 8)
        buffer.advantages[0] = 0
        buffer.returns[0] = 0.5
        before = agent.evaluate_positions(buffer.positions[0])
        agent.update(buffer, 0.0)
        after = agent.evaluate_positions(buffer.positions[0])
        assert np.abs(after - 0.5).mean() < 0.5 * np.abs(before - 0.5).mean()

    def test_the_bonus_raises_the_entropy_and_nothing_else_moves_the_weights(self):
        def entropy_after(weight):
            settings = {**ONLY_POLICY, "entropy": weight, "target_kl": 10.0}
            agent = small_agent(learning_rate=0.01, epochs=10, **settings)
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

    def test_gradients_may_come_from_elsewhere(self):
        settings = {"epochs": 2, "minibatch": 4, "learning_rate": 0.01, "target_kl": 100.0}
        agent, plain = small_agent(**settings), small_agent(**settings)
        elsewhere = Elsewhere(agent)
        agent.gradient_source = elsewhere
        buffer = rollout(agent)
        assert agent.update(buffer, 0.0) == plain.update(buffer, 0.0)
        assert everything(agent) == everything(plain)
        assert sorted(chain(*elsewhere.asked)) == sorted([*range(16)] * 2)

    def test_it_stops_when_the_policy_has_moved_too_far(self):
        agent = small_agent(learning_rate=0.01, epochs=5, minibatch=4, target_kl=1e-4)
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
    def test_gradients_are_clipped_to_their_norm(self, limit):
        agent = small_agent(minibatch=1000, max_grad_norm=limit)
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

    @pytest.mark.parametrize("mixed_precision", [False, True])
    def test_it_finds_the_one_move_that_wins(self, mixed_precision):
        config = PPOConfig(learning_rate=3e-3, minibatch=64, epochs=4, target_kl=0.1)
        agent = PPOAgent(SMALL_MODEL, config, seed=1, mixed_precision=mixed_precision)
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
    def test_a_buffer_with_nonsense_is_refused_and_the_cause_named(self, array, cause, value):
        agent = small_agent(minibatch=1000)
        agent.update(rollout(agent), 0.0)
        buffer = rollout(agent)
        getattr(buffer, array)[0, 5] = value
        with np.errstate(invalid="ignore"):
            self.assert_refused(agent, buffer, cause)
        agent.update(rollout(agent), 0.0)  # and the next one is as good as any
        assert all(torch.isfinite(parameter).all() for parameter in agent.model.parameters())

    def test_nonsense_in_a_late_minibatch_leaves_the_weights_of_before_the_update(self):
        agent = small_agent(minibatch=4, epochs=2, target_kl=100.0)
        buffer = rollout(agent)
        (*_, last) = small_agent(minibatch=4, epochs=1).minibatches(buffer)
        # The agent's first order is that of any agent with its seed.
        late = int(np.flatnonzero(buffer.returns[0] == float(last.returns[-1]))[0])
        buffer.returns[0, late] = math.nan
        self.assert_refused(agent, buffer, "value_loss is nan")

    def test_a_weight_that_is_not_a_number_is_noticed(self):
        agent = small_agent()
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


class TestState:
    def copies(self, agent):
        tensors, state = agent.state()
        return {name: tensor.clone() for name, tensor in tensors.items()}, dict(state)

    @pytest.mark.parametrize("mixed_precision", [False, True])
    def test_a_loaded_agent_continues_exactly(self, mixed_precision):
        settings = {"epochs": 2, "minibatch": 4, "learning_rate": 0.01, "target_kl": 10.0}
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
