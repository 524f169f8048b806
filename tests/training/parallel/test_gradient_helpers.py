"""`GradientHelpers`: the same update by several processes, whatever happens to them."""

import gc
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

from keisei.core.experience_buffer import ExperienceBuffer
from keisei.core.minibatch import Lesson
from keisei.core.ppo_agent import NonFiniteLossError
from keisei.training.parallel.child_process import child_context
from keisei.training.parallel.gradient_helpers import GradientHelpers
from keisei.training.parallel.gradient_parts import GradientParts
from keisei.training.parallel.gradient_process import HelperSetup, help_learning
from tests.core.small import bits, one_thread, played_games, small_agent

STEPS, GAMES = 5, 8
SETTINGS = {"minibatch": 10, "epochs": 2, "learning_rate": 0.01, "target_kl": 100.0}
LESSON = (0.1, 0.7, 0.01, 3)


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with one_thread():
        yield


def rollout(seed=3):
    """Random games played by an agent, with random advantages and returns."""
    agent, games = small_agent(), played_games(GAMES, seed=seed)
    random = np.random.default_rng(seed)
    buffer = ExperienceBuffer(STEPS, GAMES)
    for _ in range(STEPS):
        positions, counts = games.positions.copy(), games.legal_counts.copy()
        legal, fractions = games.legal.copy(), games.random_fractions()
        choice = agent.select_actions(positions, legal, counts, fractions)
        games.step(choice.actions)
        buffer.add_batch(
            positions=positions,
            legal=legal,
            legal_counts=counts,
            actions=choice.actions,
            log_probs=choice.log_probs,
            values=choice.values,
            rewards=np.zeros(GAMES),
            ends=np.zeros(GAMES, np.bool_),
            truncations=np.zeros(GAMES, np.bool_),
            cut_values=np.zeros(GAMES),
            trains=random.random(GAMES) < 0.9,
            versions=0,
        )
    buffer.advantages[:] = random.normal(size=(STEPS, GAMES))
    buffer.returns[:] = random.uniform(-1, 1, (STEPS, GAMES))
    return buffer


def copy_into(buffer, source):
    buffer.clear()
    buffer.place(source.get_serializable_batch(), 0)
    buffer.advantages[:], buffer.returns[:] = source.advantages, source.returns


class Learner:
    """An agent with helpers; `learners` 0 is an agent without."""

    def __init__(self, learners, *, ready=True, mixed_precision=False, settings=SETTINGS, **how):
        self.agent = small_agent(mixed_precision=mixed_precision, **settings)
        self.helpers, self.buffer = None, ExperienceBuffer(STEPS, GAMES)
        if learners:
            how = {"context": child_context(), **how}
            self.helpers = GradientHelpers(
                self.agent, steps=STEPS, games=GAMES, learners=learners, **how
            )
            self.agent.gradient_source, self.buffer = self.helpers, self.helpers.buffer
            assert not ready or self.helpers.wait_until_ready()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.helpers is not None:
            self.helpers.close()

    def update(self, source=None):
        copy_into(self.buffer, rollout() if source is None else source)
        return self.agent.update(self.buffer, 0.0)

    def gradients(self, chosen, source=None):
        """(losses, gradients by name) of some steps."""
        copy_into(self.buffer, rollout() if source is None else source)
        losses = (self.helpers or self.agent).gradients(Lesson(self.buffer, *LESSON), chosen)
        named = self.agent.model.named_parameters()
        return losses, {name: parameter.grad.clone() for name, parameter in named}

    def everything(self):
        tensors, state = self.agent.state()
        return bits(tensors), state


def processes_of(helpers):
    return [psutil.Process(helper._process.pid) for helper in helpers._helpers.values()]


def parts_computed_here(helpers, monkeypatch):
    """A list that grows with every part that the main process computes."""
    numbers, compute = [], GradientParts.compute

    def noting(parts, number, part):
        numbers.append(number)
        compute(parts, number, part)

    monkeypatch.setattr(GradientParts, "compute", noting)
    return numbers


class TestGradients:
    CHOSEN = np.random.default_rng(1).permutation(STEPS * GAMES)[:17].astype(np.int64)

    @pytest.mark.parametrize("learners", [1, 2, 3])
    def test_they_are_those_of_the_whole_minibatch(self, learners, monkeypatch):
        expected_losses, expected = Learner(0).gradients(self.CHOSEN)
        with Learner(learners) as learner:
            here = parts_computed_here(learner.helpers, monkeypatch)
            losses, gradients = learner.gradients(self.CHOSEN)
        assert here == [0]
        for name, value in expected_losses.items():
            assert float(losses[name]) == pytest.approx(float(value), abs=1e-6), name
        for name, gradient in expected.items():
            torch.testing.assert_close(gradients[name], gradient, rtol=1e-5, atol=1e-6)
        assert max(float(gradient.abs().max()) for gradient in expected.values()) > 0.01

    def test_they_are_the_sum_of_the_parts_in_order(self):
        with Learner(3) as learner:
            losses, gradients = learner.gradients(self.CHOSEN)
        parts = [Learner(0).gradients(part) for part in np.array_split(self.CHOSEN, 3)]
        assert [len(part) for part in np.array_split(self.CHOSEN, 3)] == [6, 6, 5]
        for name, gradient in gradients.items():
            expected = parts[0][1][name] * (6 / 17)
            expected.add_(parts[1][1][name], alpha=6 / 17).add_(parts[2][1][name], alpha=5 / 17)
            assert torch.equal(gradient, expected), name
        for name, loss in losses.items():
            expected = sum(float(parts[k][0][name]) * n / 17 for k, n in enumerate((6, 6, 5)))
            assert float(loss) == pytest.approx(expected, abs=1e-6)

    @pytest.mark.parametrize("size", [1, 2, 3])
    def test_a_minibatch_may_have_fewer_steps_than_there_are_learners(self, size):
        chosen = self.CHOSEN[:size]
        with Learner(3) as learner:
            losses, gradients = learner.gradients(chosen)
        expected_losses, expected = Learner(0).gradients(chosen)
        assert float(losses["loss"]) == pytest.approx(float(expected_losses["loss"]), abs=1e-6)
        for name, gradient in expected.items():
            torch.testing.assert_close(gradients[name], gradient, rtol=1e-5, atol=1e-6)

    @pytest.mark.parametrize("mixed_precision", [False, True])
    def test_helpers_and_the_main_process_compute_the_same_bits(self, mixed_precision):
        with Learner(3, mixed_precision=mixed_precision) as learner:
            with_helpers = learner.gradients(self.CHOSEN)
            learner.helpers.close()
            alone = learner.gradients(self.CHOSEN)
            torch.set_num_threads(2)
            with_more_threads = learner.gradients(self.CHOSEN)
            assert torch.get_num_threads() == 2
            torch.set_num_threads(1)
        assert bits(with_helpers[0]) == bits(alone[0]) == bits(with_more_threads[0])
        assert bits(with_helpers[1]) == bits(alone[1]) == bits(with_more_threads[1])

    def test_a_minibatch_that_was_abandoned_does_not_disturb_the_next(self, monkeypatch):
        with Learner(2) as learner:
            expected = learner.gradients(self.CHOSEN)
            with monkeypatch.context() as patch:
                patch.setattr(GradientParts, "compute", interrupt)
                with pytest.raises(KeyboardInterrupt):
                    learner.gradients(self.CHOSEN[::-1].copy())
            again = learner.gradients(self.CHOSEN)
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


def interrupt(*_):
    raise KeyboardInterrupt


class TestUpdates:
    def test_one_learner_learns_exactly_as_no_helpers_do(self):
        with Learner(1) as learner, Learner(0) as plain:
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


@dataclass(frozen=True)
class Fault:
    """A helper that comes to grief at its `at`-th part; with `once` only the first one does."""

    marker: Path
    what: str
    at: int = 5
    once: bool = True

    def __call__(self, setup: HelperSetup):
        compute, parts_seen = GradientParts.compute, count(1)

        def faulty(parts, number, part):
            if next(parts_seen) == self.at and not (self.once and self.marker.exists()):
                self.marker.touch()
                parts._gradients[number] = np.nan  # as if killed in the middle of writing
                self.happen()
            compute(parts, number, part)

        GradientParts.compute = faulty
        if self.at == 0:
            self.happen()
        help_learning(setup)

    def happen(self):
        if self.what == "error":
            raise MemoryError("no room for gradients")
        os.kill(os.getpid(), signal.Signals[self.what])


@pytest.fixture(scope="module")
def expected():
    """Figures and state of two updates in which nothing happens to anybody."""
    with Learner(3) as learner:
        figures = [learner.update(rollout(seed)) for seed in (1, 2)]
        return figures, learner.everything()


class TestFaults:
    @pytest.mark.parametrize(
        ("what", "words"),
        [
            ("SIGKILL", "helper 1 died with exit code -9|helper 2 died with exit code -9"),
            ("SIGSTOP", "did not answer in time and was killed"),
            ("error", "failed:\nTraceback .*in faulty.*MemoryError: no room for gradients"),
        ],
    )
    def test_they_change_no_bit(self, expected, what, words, tmp_path):
        fault = Fault(tmp_path / "happened", what)
        patience = 1.0 if what == "SIGSTOP" else 60.0
        with Learner(3, helper_main=fault, timeout=patience) as learner:
            lost = processes_of(learner.helpers)
            figures = [learner.update(rollout(seed)) for seed in (1, 2)]
            assert (figures, learner.everything()) == expected
            assert learner.helpers.restarts == len(learner.helpers.failures) >= 1
            assert re.search(words, learner.helpers.failures[0], re.DOTALL)
            assert learner.helpers.wait_until_ready()
            assert len(lost + processes_of(learner.helpers)) == 4
            assert sum(process.is_running() for process in lost) < 2

    def test_a_replacement_takes_its_part_when_it_is_ready(self, tmp_path, monkeypatch):
        with Learner(2) as learner:
            (process,) = processes_of(learner.helpers)
            process.kill()
            process.wait(5)
            here = parts_computed_here(learner.helpers, monkeypatch)
            learner.gradients(TestGradients.CHOSEN)
            assert here == [0, 1]
            assert learner.helpers.restarts == 1
            assert learner.helpers.wait_until_ready()
            here.clear()
            learner.gradients(TestGradients.CHOSEN)
            assert here == [0]
            (replacement,) = processes_of(learner.helpers)
            assert replacement.pid != process.pid

    def test_an_update_does_not_wait_for_helpers_that_start(self, expected):
        with Learner(3, ready=False) as learner:
            figures = [learner.update(rollout(seed)) for seed in (1, 2)]
            assert (figures, learner.everything()) == expected

    @pytest.mark.parametrize(("what", "at"), [("SIGKILL", 0), ("error", 1)])
    def test_a_helper_that_never_works_is_given_up(self, expected, what, at, tmp_path):
        fault = Fault(tmp_path / "happened", what, at=at, once=False)
        with Learner(3, ready=False, helper_main=fault) as learner:
            helpers, deadline = learner.helpers, time.monotonic() + 60
            while helpers._helpers and time.monotonic() < deadline:
                helpers.wait_until_ready(0.1)
                learner.gradients(TestGradients.CHOSEN)
            assert sum("is given up" in failure for failure in helpers.failures) == 2
            assert helpers.restarts == 2 * 4
            assert not helpers.wait_until_ready(0.1)
            figures = [learner.update(rollout(seed)) for seed in (1, 2)]
            assert (figures, learner.everything()) == expected

    def test_a_helper_that_does_not_get_ready_is_replaced(self, tmp_path, monkeypatch):
        monkeypatch.setattr("keisei.training.parallel.gradient_process.SECONDS_TO_START", 0.5)
        fault = Fault(tmp_path / "happened", "SIGSTOP", at=0, once=False)
        with Learner(2, ready=False, helper_main=fault) as learner:
            assert not learner.helpers.wait_until_ready(0.7)
            assert "was not ready in 0 seconds" in learner.helpers.failures[0]

    def test_a_replacement_that_cannot_be_started_is_told(self, monkeypatch):
        with Learner(2) as learner:
            (process,) = processes_of(learner.helpers)
            process.kill()
            process.wait(5)
            monkeypatch.setattr(learner.helpers, "_start", no_more_processes)
            learner.update()
            assert "cannot be started again: out of processes" in learner.helpers.failures[-1]

    def test_ctrl_c_is_not_for_helpers(self):
        with Learner(2) as learner:
            (process,) = processes_of(learner.helpers)
            process.send_signal(signal.SIGINT)
            learner.update()
            assert process.is_running()
            assert learner.helpers.failures == []


def no_more_processes(number):
    raise OSError("out of processes")


class TestEnding:
    def test_closing_ends_all_helpers_at_once(self):
        learner = Learner(3)
        with learner.helpers as helpers:
            processes = processes_of(helpers)
            started = time.monotonic()
        assert time.monotonic() - started < 2
        assert not any(process.is_running() for process in processes)
        helpers.close()

    @pytest.mark.parametrize("ready", [False, True])
    def test_closing_ends_helpers_that_are_stopped_or_starting(self, ready):
        learner = Learner(3, ready=ready)
        processes = processes_of(learner.helpers)
        for process in processes if ready else []:
            process.suspend()
        started = time.monotonic()
        learner.helpers.close()
        assert time.monotonic() - started < 2
        assert not any(process.is_running() for process in processes)

    def test_the_agent_goes_on_alone_afterwards(self):
        with Learner(2) as learner, Learner(2) as other:
            learner.helpers.close()
            assert learner.update() == other.update()
            learner.agent.gradient_source = None
            learner.agent.update(learner.buffer, 0.0)

    def test_file_descriptors_are_all_given_back(self):
        process = psutil.Process()
        counts = []
        for _ in range(20):
            with Learner(2, ready=False) as learner:
                learner.update()
            del learner  # the agent keeps its weights where they are
            gc.collect()
            counts.append(process.num_fds())
        assert counts[-1] <= counts[1]

    @pytest.mark.parametrize("stopped", [False, True])
    def test_nobody_outlives_a_killed_main_process(self, stopped):
        child = subprocess.Popen(
            [sys.executable, "-c", MAIN_PROCESS], stdout=subprocess.PIPE, text=True
        )
        try:
            helpers = [psutil.Process(int(pid)) for pid in child.stdout.readline().split()]
            assert len(helpers) == 2
            if stopped:
                helpers[0].suspend()
        finally:
            child.kill()
            child.wait()
            child.stdout.close()
        _, alive = psutil.wait_procs(helpers, timeout=5)
        assert alive == []


MAIN_PROCESS = """
import time
from tests.training.parallel.test_gradient_helpers import Learner, processes_of

if __name__ == "__main__":
    learner = Learner(3)
    print(*(process.pid for process in processes_of(learner.helpers)), flush=True)
    while True:
        learner.update()
"""
