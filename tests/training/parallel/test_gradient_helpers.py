"""`GradientHelpers`: gradients and updates by several processes are those of one."""

import multiprocessing

import numpy as np
import pytest
import torch

from keisei.core.ppo_agent import NonFiniteLossError
from keisei.training.parallel.child_process import child_context
from keisei.training.parallel.gradient_helpers import GradientHelpers
from keisei.training.parallel.gradient_parts import GradientParts
from tests.core.small import bits, computes_as_said, networks, one_thread, small_agent
from tests.training.parallel.gradient_learners import (
    CHOSEN,
    GAMES,
    SETTINGS,
    Learner,
    copy_into,
    parts_computed_here,
    rollout,
)

SHORT = 0.1
"""Of a gradient."""


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with one_thread():
        yield


class TestGradients:
    @pytest.mark.parametrize("learners", [1, 2, 3])
    def test_they_are_those_of_the_whole_minibatch(self, learners, monkeypatch):
        expected_losses, expected = Learner(0).gradients(CHOSEN)
        with Learner(learners) as learner:
            here = parts_computed_here(learner.helpers, monkeypatch)
            losses, gradients = learner.gradients(CHOSEN)
        assert here == [0]
        for name, value in expected_losses.items():
            assert float(losses[name]) == pytest.approx(float(value), abs=1e-6), name
        for name, gradient in expected.items():
            torch.testing.assert_close(gradients[name], gradient, rtol=1e-5, atol=1e-6)
        assert max(float(gradient.abs().max()) for gradient in expected.values()) > 0.01

    def test_they_are_the_sum_of_the_parts_in_order(self):
        with Learner(3) as learner:
            losses, gradients = learner.gradients(CHOSEN)
        parts = [Learner(0).gradients(part) for part in np.array_split(CHOSEN, 3)]
        assert [len(part) for part in np.array_split(CHOSEN, 3)] == [6, 6, 5]
        for name, gradient in gradients.items():
            expected = parts[0][1][name] * (6 / 17)
            expected.add_(parts[1][1][name], alpha=6 / 17).add_(parts[2][1][name], alpha=5 / 17)
            assert torch.equal(gradient, expected), name
        for name, loss in losses.items():
            expected = sum(float(parts[k][0][name]) * n / 17 for k, n in enumerate((6, 6, 5)))
            assert float(loss) == pytest.approx(expected, abs=1e-6)

    @pytest.mark.parametrize("size", [1, 2, 3])
    def test_a_minibatch_may_have_fewer_steps_than_there_are_learners(self, size):
        chosen = CHOSEN[:size]
        with Learner(3) as learner:
            losses, gradients = learner.gradients(chosen)
        expected_losses, expected = Learner(0).gradients(chosen)
        assert float(losses["loss"]) == pytest.approx(float(expected_losses["loss"]), abs=1e-6)
        for name, gradient in expected.items():
            torch.testing.assert_close(gradients[name], gradient, rtol=1e-5, atol=1e-6)

    @pytest.mark.parametrize("network", networks(in_children=True))
    def test_helpers_and_the_main_process_compute_the_same_bits(self, network):
        with Learner(3, **network) as learner:
            assert computes_as_said(learner.agent)
            with_helpers = learner.gradients(CHOSEN)
            learner.helpers.close()
            alone = learner.gradients(CHOSEN)
            torch.set_num_threads(2)
            with_more_threads = learner.gradients(CHOSEN)
            assert torch.get_num_threads() == 2
            torch.set_num_threads(1)
        assert bits(with_helpers[0]) == bits(alone[0]) == bits(with_more_threads[0])
        assert bits(with_helpers[1]) == bits(alone[1]) == bits(with_more_threads[1])

    @pytest.mark.usefixtures("no_tiles")
    @pytest.mark.parametrize("network", networks())
    @pytest.mark.parametrize("at_once", [1, 3])
    def test_clipping_a_gradient_in_place_spoils_none_that_comes_after(self, at_once, network):
        """That of a minibatch which one learner computed lies where this one writes the next."""
        several = [CHOSEN[:1], CHOSEN[1:11], CHOSEN[11:12], CHOSEN[12:13], CHOSEN[13:], CHOSEN[:1]]
        alone = {"minibatches": at_once, "start": False, "ready": False}
        with Learner(3, **alone, **network) as learner, Learner(0, **network) as plain:
            assert computes_as_said(learner.agent)
            for one in (learner, plain):
                copy_into(one.buffer, rollout())
            norms = [take_clipped_step(learner) for _ in learner.gradients_in_turn(several)]
            expected = []
            for first in range(0, len(several), at_once):
                group = several[first : first + at_once]  # with the same weights
                for gradients in [mean_gradients(plain, chosen, 3 // at_once) for chosen in group]:
                    for name, parameter in plain.agent.model.named_parameters():
                        parameter.grad = gradients[name]
                    expected.append(take_clipped_step(plain))
        assert norms == pytest.approx(expected, rel=1e-4)
        weights = plain.agent.model.state_dict()
        for name, tensor in learner.agent.model.state_dict().items():
            torch.testing.assert_close(tensor, weights[name], rtol=0, atol=1e-6)

    @pytest.mark.parametrize("learners", [2, 3, 5])
    def test_several_minibatches_at_once_are_computed_with_the_same_weights(self, learners):
        minibatches = [CHOSEN[:7], CHOSEN[7:], CHOSEN[::2]]
        plain = Learner(0)
        expected = [plain.gradients(chosen) for chosen in minibatches[:2]]
        plain.move_weights()
        plain.move_weights()
        expected.append(plain.gradients(minibatches[2]))
        with Learner(learners, minibatches=2) as learner:
            copy_into(learner.buffer, rollout())
            found = []
            for losses_and_gradients in learner.gradients_in_turn(minibatches):
                found.append(losses_and_gradients)
                learner.move_weights()
        for (losses, gradients), (expected_losses, expected_gradients) in zip(
            found, expected, strict=True
        ):
            assert float(losses["loss"]) == pytest.approx(float(expected_losses["loss"]), abs=1e-6)
            for name, gradient in expected_gradients.items():
                torch.testing.assert_close(gradients[name], gradient, rtol=1e-5, atol=1e-6)

    def test_one_learner_computes_one_after_the_other(self):
        with Learner(1, minibatches=4) as learner:
            learner.update()
            alone = learner.everything()
        with Learner(1) as learner:
            learner.update()
            assert learner.everything() == alone

    def test_a_minibatch_that_was_abandoned_does_not_disturb_the_next(self, monkeypatch):
        with Learner(2) as learner:
            expected = learner.gradients(CHOSEN)
            with monkeypatch.context() as patch:
                patch.setattr(GradientParts, "compute", interrupt)
                with pytest.raises(KeyboardInterrupt):
                    learner.gradients(CHOSEN[::-1].copy())
            again = learner.gradients(CHOSEN)
            assert learner.helpers.failures == []
        assert bits(again[0]) == bits(expected[0])
        assert bits(again[1]) == bits(expected[1])

    def test_another_buffer_is_refused(self):
        with Learner(1) as learner, pytest.raises(ValueError, match="only their own buffer"):
            learner.agent.update(rollout(), 0.0)

    def test_an_agent_on_a_gpu_is_refused(self):
        agent = small_agent()
        agent.device = torch.device("cuda")
        with pytest.raises(ValueError, match="the agent is on cuda"):
            GradientHelpers(agent, steps=1, games=1, learners=2, context=child_context())


def mean_gradients(learner, chosen, parts):
    """By name, of steps that are computed in so many parts."""
    total = {}
    for part in np.array_split(chosen, parts):
        for _, gradients in learner.gradients_in_turn([part] if len(part) else []):
            for name, gradient in gradients.items():
                total[name] = total.get(name, 0) + gradient * (len(part) / len(chosen))
    return total


def take_clipped_step(learner):
    """Plain descent by the gradient that is there, whose norm before it is shortened."""
    parameters = list(learner.agent.model.parameters())
    norm = float(torch.nn.utils.clip_grad_norm_(parameters, SHORT))
    assert norm > SHORT
    with torch.no_grad():
        for parameter in parameters:
            parameter.sub_(0.1 * parameter.grad)
    return norm


def interrupt(*_):
    raise KeyboardInterrupt


class TestUpdates:
    @pytest.mark.usefixtures("no_tiles")
    @pytest.mark.parametrize("network", networks())
    def test_one_learner_learns_exactly_as_no_helpers_do(self, network):
        with Learner(1, **network) as learner, Learner(0, **network) as plain:
            assert computes_as_said(learner.agent)
            for seed in (1, 2, 3):
                assert learner.update(rollout(seed)) == plain.update(rollout(seed))
            assert learner.everything() == plain.everything()

    def test_the_same_number_of_learners_learns_the_same_bits(self):
        with Learner(2) as one, Learner(2) as other:
            for seed in (1, 2, 3):
                assert one.update(rollout(seed)) == other.update(rollout(seed))
            assert one.everything() == other.everything()

    def test_processes_started_from_nothing_learn_the_same_bits(self):
        with Learner(2, context=multiprocessing.get_context("spawn")) as one, Learner(2) as other:
            assert one.update() == other.update()
            assert one.everything() == other.everything()
            assert one.helpers.failures == []

    @pytest.mark.parametrize("learners", [2, 3])
    def test_20_updates_have_the_figures_of_one_learner(self, learners):
        settings = {**SETTINGS, "learning_rate": 1e-4}
        with Learner(learners, settings=settings) as learner, Learner(0, settings=settings) as one:
            for seed in range(20):
                figures, expected = learner.update(rollout(seed)), one.update(rollout(seed))
                for name in ("loss", "policy_loss", "value_loss", "entropy", "kl", "grad_norm"):
                    assert figures[name] == pytest.approx(expected[name], rel=1e-3, abs=1e-4)
            weights = one.agent.model.state_dict()
            for name, tensor in learner.agent.model.state_dict().items():
                torch.testing.assert_close(tensor, weights[name], rtol=0, atol=1e-3)
            assert learner.agent.version == 20

    def test_it_stops_when_the_whole_minibatch_has_moved_too_far(self):
        settings = {**SETTINGS, "target_kl": 1e-4}
        with Learner(2, settings=settings) as learner, Learner(0, settings=settings) as one:
            figures, expected = learner.update(), one.update()
        assert figures["stopped_early"] == 1
        assert figures["minibatches"] == expected["minibatches"] < 8

    @pytest.mark.parametrize("game", [0, GAMES - 1])
    def test_nonsense_in_any_part_is_refused_and_the_weights_kept(self, game):
        with Learner(3) as learner:
            learner.update()
            before = learner.everything()
            bad = rollout()
            bad.trains[:], bad.returns[-1, game] = True, np.nan
            with pytest.raises(NonFiniteLossError, match="value_loss is nan"):
                learner.update(bad)
            after = learner.everything()
            for tensors, _ in (before, after):
                del tensors["generator"]  # the order of an update that failed is spent
            assert after == before
            learner.update()
            assert learner.helpers.failures == []

    def test_loaded_weights_reach_the_helpers(self):
        with Learner(2) as learner, Learner(2) as other:
            learner.update()
            other.agent.load_state(*learner.agent.state())
            assert other.update(rollout(4)) == learner.update(rollout(4))
            assert other.everything() == learner.everything()
            assert other.helpers.failures == []
