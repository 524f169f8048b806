"""`PPOAgent`: how it chooses moves."""

from collections import defaultdict

import numpy as np
import pytest
import torch

from keisei.core import fused_network
from keisei.shogi.vector_shogi import VectorShogi
from tests.core.reference import softmax_over_legal
from tests.core.single_step_rollouts import choose, logits_of, probabilities_of, rollout, weights
from tests.core.small import FUSED_MODEL, needs_pair_products, played_games, small_agent


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


@pytest.fixture
def torch_threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def parts(monkeypatch):
    """How many rows each call of a kernel is given, by the kernel's name."""
    seen = defaultdict(list)

    def note(name, rows_of):
        kernel = getattr(fused_network, name)

        def noting(*arguments):
            seen[name].append(len(rows_of(arguments)))
            kernel(*arguments)

        monkeypatch.setattr(fused_network, name, noting)

    note("answer_moves", lambda arguments: arguments[0])
    note("learn_from", lambda arguments: arguments[0].positions)
    return seen


@needs_pair_products
@pytest.mark.usefixtures("no_tiles", "torch_threads")
@pytest.mark.parametrize(("threads", "shares"), [(1, [96]), (2, [48, 48]), (3, [32, 32, 32])])
def test_kernels_of_a_network_share_rows_out_and_leave_torch_one_thread(threads, shares, parts):
    agent = small_agent(model=FUSED_MODEL, mixed_precision=True, minibatch=96, epochs=1)
    agent.use_threads(threads)
    assert torch.get_num_threads() == 1
    games = played_games(96)
    agent.evaluate_positions(games.positions)
    games.step(choose(agent, games, None).actions)  # which refuses illegal ones
    assert sorted(parts["answer_moves"]) == shares * 2
    agent.update(rollout(agent, 96), 0.0)
    assert parts["learn_from"] == shares


@pytest.mark.usefixtures("torch_threads")
def test_torch_computes_other_networks_with_all_threads():
    for agent in (small_agent(model=FUSED_MODEL), small_agent(mixed_precision=True)):
        agent.use_threads(2)
        assert torch.get_num_threads() == 2
        torch.set_num_threads(1)
