"""The bijection of moves and actions, and the planes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keisei.shogi.errors import NotationError
from keisei.shogi.policy_output_mapper import NO_PLANE, PolicyOutputMapper
from keisei.shogi.vector_shogi import VectorShogi

SQUARES = [f"{file}{rank}" for file in range(1, 10) for rank in "abcdefghi"]
ALL_MOVES = [a + b + p for a in SQUARES for b in SQUARES if a != b for p in ("", "+")]
ALL_MOVES += [f"{kind}*{square}" for kind in "PLNSGBR" for square in SQUARES]


@pytest.mark.parametrize("mover", [0, 1])
def test_every_usi_move_has_its_own_action_and_every_action_its_move(mover):
    actions = [PolicyOutputMapper.action_of(move, mover) for move in ALL_MOVES]
    assert sorted(actions) == list(range(13_527))
    assert [PolicyOutputMapper.move_of(action, mover) for action in actions] == ALL_MOVES


def test_the_two_players_see_each_other_turned_round():
    for action in range(0, 13_527, 7):
        black = PolicyOutputMapper.move_of(action, 0)
        turned = (
            "".join(turn(c) for c in black)
            if "*" not in black
            else black[:2] + "".join(turn(c) for c in black[2:])
        )
        assert PolicyOutputMapper.move_of(action, 1) == turned


def turn(char):
    if char in "123456789":
        return str(10 - int(char))
    return "ihgfedcba"["abcdefghi".index(char)] if char in "abcdefghi" else char


def plane_by_hand(move):
    """Plane and target of a USI move of black's by arithmetic on files and ranks."""
    target = (ord(move[3]) - ord("a")) * 9
    if "*" in move:
        return 20 + "PLNSGBR".index(move[0]), target + 9 - int(move[2])
    target += 9 - int(move[2])
    right = int(move[0]) - int(move[2])  # files count from the right
    down = ord(move[3]) - ord(move[1])
    names = {
        (-1, 0): 0, (-1, -1): 1, (-1, 1): 2, (0, -1): 3, (0, 1): 4,
        (1, 0): 5, (1, -1): 6, (1, 1): 7,
    }  # fmt: skip
    if down == -2 and abs(right) == 1:
        direction = 8 if right == -1 else 9
    elif right == 0 or down == 0 or abs(right) == abs(down):
        direction = names[int(np.sign(down)), int(np.sign(right))]
    else:
        return None
    return direction + 10 * move.endswith("+"), target


def test_every_action_lies_in_the_plane_of_its_direction():
    for move in ALL_MOVES:
        plane = PolicyOutputMapper.plane_indices[PolicyOutputMapper.action_of(move, 0)]
        expected = plane_by_hand(move)
        assert plane == (NO_PLANE if expected is None else expected[0] * 81 + expected[1]), move


def test_the_planes_of_the_legal_moves_of_a_position_are_distinct():
    games = VectorShogi(64, threads=1, seed=3)
    for _ in range(150):
        games.play_random(3)
        for row in range(64):
            planes = PolicyOutputMapper.plane_indices[games.legal[row, : games.legal_counts[row]]]
            assert planes.min() >= 0
            assert len(np.unique(planes)) == len(planes)
    assert PolicyOutputMapper.plane_indices.max() < 27 * 81


@given(st.text(max_size=8), st.integers(0, 1))
def test_any_other_text_is_refused(text, mover):
    if text in ALL_MOVES:
        return
    with pytest.raises(NotationError):
        PolicyOutputMapper.action_of(text, mover)


@pytest.mark.parametrize("action", [-1, 13_527])
def test_numbers_that_are_no_actions_are_refused(action):
    with pytest.raises(NotationError, match="between 0 and 13526"):
        PolicyOutputMapper.move_of(action, 0)
