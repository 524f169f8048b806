"""Logits as a convolution gives them say the same, to the last bit, as flat ones in float32."""

import numpy as np
import pytest
import torch

from keisei.core.legal_policy import choose_moves, played_moves
from tests.core.small import played_games, small_agent
from tests.core.test_legal_policy import tensors_of

LAYOUTS = [torch.channels_last, torch.contiguous_format]


@pytest.fixture(scope="module")
def games():
    return played_games(plies=60)


def planes(games, dtype, layout):
    generator = torch.Generator().manual_seed(2)
    logits = 3 * torch.randn(games.num_games, 27, 9, 9, generator=generator)
    return logits.to(dtype).to(memory_format=layout)


def flat(logits):
    return logits.flatten(1).float()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_of_moves_that_were_played(games, dtype, layout):
    moves = *tensors_of(games), torch.from_numpy(games.legal[:, 1].astype(np.int64))
    weights = torch.linspace(-1, 2, games.num_games)
    found = []
    for form in (lambda logits: logits, flat):
        leaf = planes(games, dtype, layout).requires_grad_()
        played = played_moves(form(leaf), *moves)
        (played.log_probs * weights + played.entropies).sum().backward()
        found.append((*played, leaf.grad))
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)
    assert found[0][2].count_nonzero() > games.num_games


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("samples", [True, False])
def test_of_moves_to_play(games, dtype, layout, samples):
    logits = planes(games, dtype, layout)
    fractions = torch.linspace(0, 0.99, games.num_games, dtype=torch.float64) if samples else None
    one, other = (
        choose_moves(form, *tensors_of(games), fractions, temperature=1.3)
        for form in (logits, flat(logits))
    )
    assert torch.equal(one[0], other[0])
    assert torch.equal(one[1], other[1])


@pytest.mark.parametrize("mixed_precision", [True, False])
def test_an_agent_answers_as_it_plays(games, mixed_precision):
    agent = small_agent(mixed_precision=mixed_precision)
    choice = agent.select_actions(games.positions, games.legal, games.legal_counts, None)
    logits, values = agent.answer(games.positions)
    actions, log_probs = choose_moves(logits, *tensors_of(games), None, temperature=1.0)
    assert choice.actions.tolist() == actions.tolist()
    assert choice.log_probs.tolist() == log_probs.tolist()
    assert choice.values.tolist() == values.tolist()
