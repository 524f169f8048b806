"""Logits as a convolution gives them say the same, to the last bit, as flat ones in float32."""

import numpy as np
import pytest
import torch

from keisei.core.legal_policy import choose_moves, plane_table, played_moves
from tests.core.small import computes_as_said, networks, played_games, small_agent
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


@pytest.mark.usefixtures("no_tiles")
@pytest.mark.parametrize("network", networks())
def test_an_agent_answers_as_it_plays(games, network):
    agent = small_agent(**network)
    assert computes_as_said(agent)
    choice = agent.select_actions(games.positions, games.legal, games.legal_counts, None)
    logits, values = agent.answer(games.positions)
    actions, log_probs = choose_moves(logits, *tensors_of(games), None, temperature=1.0)
    assert choice.actions.tolist() == actions.tolist()
    assert choice.log_probs.tolist() == log_probs.tolist()
    assert choice.values.tolist() == values.tolist()


@pytest.mark.parametrize("width", [1, -1])
def test_of_other_moves_than_there_are_are_refused(games, width):
    legal, counts = tensors_of(games)
    logits = torch.zeros(games.num_games, legal.shape[1] + width)
    actions = legal[:, 0].long()
    shapes = rf"logits \[16, {logits.shape[1]}\] are not of moves \[16, {legal.shape[1]}\]"
    with pytest.raises(ValueError, match=shapes):
        played_moves(logits, legal, counts, actions)
    with pytest.raises(ValueError, match=shapes):
        choose_moves(logits, legal, counts, None, temperature=1.0)


def test_of_the_legal_moves_alone(games):
    """As the kernels of a small network give them."""
    legal, counts = tensors_of(games)
    every = flat(planes(games, torch.float32, torch.contiguous_format))
    alone = every.gather(1, plane_table(every.device)[legal.long()])
    moves = legal, counts, legal[:, 1].long()
    found, expected = (played_moves(logits, *moves) for logits in (alone, every))
    assert torch.equal(found.log_probs, expected.log_probs)
    assert torch.equal(found.entropies, expected.entropies)
    chosen = [choose_moves(form, legal, counts, None, temperature=1.3) for form in (alone, every)]
    assert torch.equal(chosen[0][0], chosen[1][0])
    assert torch.equal(chosen[0][1], chosen[1][1])
