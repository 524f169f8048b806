"""An agent that learns with helpers, and rollouts for it."""

import numpy as np
import psutil
import torch

from keisei.core.experience_buffer import ExperienceBuffer
from keisei.core.minibatch import Lesson
from keisei.training.parallel.child_process import child_context
from keisei.training.parallel.gradient_helpers import GradientHelpers
from keisei.training.parallel.gradient_parts import GradientParts
from tests.core.small import SMALL_MODEL, bits, played_games, small_agent

STEPS, GAMES = 5, 8
SETTINGS = {"minibatch": 10, "epochs": 2, "learning_rate": 0.01, "target_kl": 100.0}
LESSON = (0.1, 0.7, 0.01, 3)
CHOSEN = np.random.default_rng(1).permutation(STEPS * GAMES)[:17].astype(np.int64)


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

    def __init__(
        self,
        learners,
        *,
        ready=True,
        model=SMALL_MODEL,
        mixed_precision=False,
        settings=SETTINGS,
        **how,
    ):
        self.agent = small_agent(model=model, mixed_precision=mixed_precision, **settings)
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
        (found,) = self.gradients_in_turn([chosen])
        return found

    def gradients_in_turn(self, minibatches):
        """The same for each of several minibatches of what is in the buffer."""
        source = self.helpers or self.agent
        for losses in source.gradients_in_turn(Lesson(self.buffer, *LESSON), minibatches):
            named = self.agent.model.named_parameters()
            yield losses, {name: parameter.grad.clone() for name, parameter in named}

    def move_weights(self):
        with torch.no_grad():
            for parameter in self.agent.model.parameters():
                parameter.add_(0.01)

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
