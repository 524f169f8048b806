"""Games that end in each of the ways, in `VectorShogi` and in `ShogiGame`, for both colours."""

import numpy as np
import pytest

from keisei.shogi.judging import Declaration, Reason
from keisei.shogi.policy_output_mapper import PolicyOutputMapper
from keisei.shogi.sfen import START_SFEN
from keisei.shogi.shogi_game import ShogiGame
from keisei.shogi.vector_shogi import VectorShogi

ROOK_SHUFFLE = ["2h3h", "8b7b", "3h2h", "7b8b"]
PERPETUAL = ["4e5e", "5a4a", "5e4e", "4a5a"]


def play(sfen, moves, **options):
    """The outputs of a batch of two after playing `moves` in both games."""
    games = VectorShogi(2, start_sfen=sfen, threads=1, **options)
    for number, move in enumerate(moves):
        assert not games.reason.any(), f"over before move {number + 1}"
        action = PolicyOutputMapper.action_of(move, int(games.mover[0]))
        games.step([action, action])
    return games


def mirrored(sfen, moves):
    """The same game with the colours exchanged and the board turned round."""
    board, side, hands, number = sfen.split()
    board = "/".join(
        "".join(reversed(_tokens(rank))).swapcase() for rank in reversed(board.split("/"))
    )
    side = "w" if side == "b" else "b"
    turned = [_mirrored_move(move) for move in moves]
    return f"{board} {side} {hands.swapcase()} {number}", turned


def _tokens(rank):
    tokens = []
    for char in rank:
        if tokens and tokens[-1] == "+":
            tokens[-1] += char
        else:
            tokens.append(char)
    return tokens


def _mirrored_move(move):
    turn = {**{str(f): str(10 - f) for f in range(1, 10)}}
    turn |= dict(zip("abcdefghi", "ihgfedcba", strict=True))
    if "*" in move:
        return move[:2] + "".join(turn[c] for c in move[2:])
    return "".join(turn.get(c, c) for c in move)


ENDINGS = {
    "checkmate": ("7lk/9/8G/9/9/9/9/9/4K4 b L 1", ["L*1b"], 1, Reason.CHECKMATE),
    # White's king has no square, White no other piece, and there is no check.
    "no legal move": ("k8/9/G8/9/9/9/9/9/1R2K4 b - 1", ["5i5h"], 1, Reason.NO_LEGAL_MOVES),
    "repetition": (START_SFEN, ROOK_SHUFFLE * 3, 0, Reason.REPETITION),
    "perpetual check, judged when the checked king has moved": (
        "4k4/9/9/9/5R3/9/9/9/4K4 b - 1",
        PERPETUAL * 3,
        1,  # the last move was White's
        Reason.PERPETUAL_CHECK,
    ),
    "perpetual check, judged on the checking move": (
        "4k4/9/9/9/9/9/R8/9/4K4 b - 1",
        ["9g5g", *["5a4a", "5g4g", "4a5a", "4g5g"] * 3],
        -1,  # the last move was the checker's
        Reason.PERPETUAL_CHECK,
    ),
}


@pytest.mark.uncompiled
@pytest.mark.parametrize("name", ENDINGS)
@pytest.mark.parametrize("turned", [False, True], ids=["black", "white"])
def test_each_ending(name, turned):
    sfen, moves, result, reason = ENDINGS[name]
    if turned:
        sfen, moves = mirrored(sfen, moves)
    games = play(sfen, moves)
    assert list(games.reason) == [reason] * 2
    assert list(games.result) == [result] * 2
    assert not games.truncated.any()
    assert list(games.ply) == [0, 0], "finished games are reset at once"
    single = ShogiGame(sfen)
    for move in moves:
        single.make_move(move)
    outcome = single.outcome()
    loser_or_none = None if result == 0 else (single.mover if result == 1 else 1 - single.mover)
    assert outcome.reason == reason
    assert outcome.winner == (None if loser_or_none is None else 1 - loser_or_none)


@pytest.mark.uncompiled
def test_one_quiet_move_in_three_cycles_makes_it_a_plain_draw():
    # The first two cycles check on every move; in the third one check is left out, and the
    # position before it occurs for the fourth time all the same.
    game = ShogiGame("4k4/9/9/9/5R3/9/9/9/4K4 b - 1")
    for move in PERPETUAL * 2 + ["4e6e", "5a5b", "6e4e", "5b5a"]:
        assert game.outcome() is None
        game.make_move(move)
    assert game.outcome().reason == Reason.REPETITION


@pytest.mark.uncompiled
def test_the_move_limit_truncates_without_a_result():
    games = play(START_SFEN, (ROOK_SHUFFLE * 3)[:10], max_moves=10)
    assert list(games.reason) == [Reason.MAX_MOVES] * 2
    assert games.truncated.all()
    assert not games.result.any()
    assert games.final_positions[0, 98] == 10


@pytest.mark.uncompiled
def test_a_mate_on_the_last_ply_counts_as_mate():
    sfen, moves, result, reason = ENDINGS["checkmate"]
    games = play(sfen, moves, max_moves=1)
    assert list(games.reason) == [reason] * 2
    assert list(games.result) == [result] * 2
    assert not games.truncated.any()


@pytest.mark.uncompiled
def test_a_repetition_on_the_last_ply_counts_as_repetition():
    games = play(START_SFEN, ROOK_SHUFFLE * 3, max_moves=12)
    assert list(games.reason) == [Reason.REPETITION] * 2


ENTERED = "4K4/+P+P+P+P+P+P+P+P+P/+R7+R/9/9/9/9/9/4k4 w BG3S 1"


@pytest.mark.uncompiled
@pytest.mark.parametrize("turned", [False, True], ids=["black", "white"])
@pytest.mark.parametrize(
    ("hand", "rule", "result"),
    [
        ("BG3S", Declaration.POINTS_27, -1),
        ("B3S", Declaration.POINTS_27, None),
        ("B3S", Declaration.POINTS_24, 0),
        ("2BG", Declaration.POINTS_24, 0),
        ("2B2G", Declaration.POINTS_24, -1),
        ("BG3S", Declaration.OFF, None),
    ],
)
def test_a_declaration_ends_the_game_when_its_player_comes_to_move(hand, rule, result, turned):
    # B3S: 27 points, which is enough for white and one too few for black.
    sfen, moves = ENTERED.replace("BG3S", hand), ["5i5h"]
    if turned:
        sfen, moves = mirrored(sfen, moves)
        if (hand, rule) == ("B3S", Declaration.POINTS_27):
            result = -1
    games = play(sfen, moves, declaration=rule)
    if result is None:
        assert not games.reason.any()
    else:
        assert list(games.reason) == [Reason.DECLARATION] * 2
        assert list(games.result) == [result] * 2
    game = ShogiGame(sfen, declaration=rule)
    game.make_move(moves[0])
    outcome = game.outcome()
    expected = {None: None, 0: None, -1: game.mover}[result]
    assert (outcome and outcome.winner) == expected
    assert (outcome is not None) == (result is not None)


def test_random_games_end_in_many_ways_and_the_outputs_are_consistent():
    games = VectorShogi(256, seed=3, max_moves=300, threads=1)
    seen = set()
    for _ in range(600):
        movers = games.mover.copy()
        plies = games.ply.copy()
        games.step(games.random_actions())
        over = games.reason != Reason.NONE
        assert np.array_equal(games.truncated, games.reason == Reason.MAX_MOVES)
        assert not games.result[~over].any()
        assert np.array_equal(games.ply[~over], plies[~over] + 1)
        assert np.array_equal(games.mover[~over], 1 - movers[~over])
        mated = np.isin(games.reason, (Reason.CHECKMATE, Reason.NO_LEGAL_MOVES))
        assert (games.result[mated] == 1).all()
        assert (games.final_positions[over, 95] == 1 - movers[over]).all()
        seen |= set(games.reason[over].tolist())
    assert {Reason.CHECKMATE, Reason.MAX_MOVES} <= seen
