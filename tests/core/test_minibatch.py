"""Minibatches: which steps a gradient step takes, and what it is told of them."""

from itertools import chain

import numpy as np
import pytest

from tests.core.single_step_rollouts import single_steps
from tests.core.small import played_games, small_agent


class TestMinibatches:
    def numbered(self, agent, trains):
        """A buffer whose returns are the numbers of its steps."""
        games = played_games(len(trains))
        buffer = single_steps(agent, games, trains=np.array(trains))
        buffer.returns[0] = np.arange(len(trains))
        return buffer

    def test_every_own_step_comes_in_every_epoch_and_no_other(self):
        agent = small_agent(epochs=3, minibatch=5)
        trains = [True] * 9 + [False, True] * 7
        numbers = [
            batch.returns.int().tolist()
            for batch in agent.minibatches(self.numbered(agent, trains))
        ]
        own = np.flatnonzero(trains).tolist()
        assert len(own) == 16
        assert [len(batch) for batch in numbers] == [5] * 4 * 3
        for epoch in range(3):
            order = list(chain(*numbers[4 * epoch : 4 * epoch + 4]))
            assert sorted(order[:16]) == own
            assert order[16:] == order[:4]  # the last minibatch begins anew
        assert numbers[0] != numbers[4] != numbers[8]

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
