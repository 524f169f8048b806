"""Differential play: the same random games by cshogi and by us, every position compared."""

import numpy as np
import pytest

from keisei.shogi.judging import Reason
from keisei.shogi.pieces import HAND_LETTERS
from keisei.shogi.policy_output_mapper import PolicyOutputMapper
from keisei.shogi.sfen import START_SFEN
from keisei.shogi.shogi_game import ShogiGame
from keisei.shogi.vector_shogi import VectorShogi
from tests.shogi.reference import RepetitionReference, cshogi_actions

cshogi = pytest.importorskip("cshogi")


def assert_same_position(board, games, row):
    moves = list(board.legal_moves)
    ours = np.sort(games.legal[row, : games.legal_counts[row]])
    theirs = cshogi_actions(moves, board.turn)
    assert np.array_equal(ours, theirs), board.sfen()
    assert games.positions[row, 96] == board.is_check(), board.sfen()
    assert games.mover[row] == board.turn


def compare_games(start_sfen, *, positions, seed, rows=32):
    """Random games in lockstep until `positions` were compared; the reasons of endings seen."""
    games = VectorShogi(rows, seed=seed, start_sfen=start_sfen, threads=1)
    boards = [cshogi.Board(start_sfen) for _ in range(rows)]
    reasons = set()
    for _ in range(-(-positions // rows)):
        actions = games.random_actions()
        movers = games.mover.copy()
        for row in range(rows):
            assert_same_position(boards[row], games, row)
            boards[row].push_usi(PolicyOutputMapper.move_of(int(actions[row]), int(movers[row])))
        games.step(actions)
        for row in np.flatnonzero(games.reason):
            reason = Reason(games.reason[row])
            stuck = not list(boards[row].legal_moves)
            assert stuck == (reason in (Reason.CHECKMATE, Reason.NO_LEGAL_MOVES))
            assert (reason == Reason.CHECKMATE) == (stuck and boards[row].is_check())
            if stuck:
                assert games.result[row] == 1
            boards[row].set_sfen(start_sfen)
            reasons.add(reason)
    return reasons


def test_300000_positions_of_random_games_from_the_start():
    reasons = compare_games(START_SFEN, positions=300_000, seed=11)
    assert Reason.CHECKMATE in reasons


def random_endgame(rng):
    """Two kings, some pieces on the board, and all the rest in the two hands."""
    while True:
        board = ["1"] * 81
        squares = rng.permutation(81)
        board[squares[0]], board[squares[1]] = "K", "k"
        left = {"P": 18, "L": 4, "N": 4, "S": 4, "G": 4, "B": 2, "R": 2}
        for square in squares[2 : 2 + rng.integers(0, 18)]:
            letter = rng.choice([kind for kind in left if left[kind]])
            left[letter] -= 1
            promoted = letter != "G" and rng.random() < 0.5
            text = ("+" if promoted else "") + letter
            board[square] = text if rng.random() < 0.5 else text.lower()
        hands = ""
        for letter in HAND_LETTERS:
            black = int(rng.integers(0, left[letter] + 1))
            for count, text in ((black, letter), (left[letter] - black, letter.lower())):
                hands += f"{count}{text}" if count > 1 else text * count
        ranks = ("".join(board[rank * 9 : rank * 9 + 9]) for rank in range(9))
        sfen = f"{'/'.join(ranks)} {rng.choice(['b', 'w'])} {hands or '-'} 1"
        try:
            if ShogiGame(sfen).legal_moves():
                return sfen
        except ValueError:
            continue


def test_100000_positions_of_endgames_with_full_hands():
    rng = np.random.default_rng(5)
    reasons = set()
    for seed in range(250):
        reasons |= compare_games(random_endgame(rng), positions=400, seed=seed, rows=8)
    assert Reason.CHECKMATE in reasons


def test_4000_positions_of_mate_problems_with_one_king():
    for seed, sfen in enumerate(
        (
            "4k4/9/4P4/9/9/9/9/9/9 b 2R2B4G4S4N4L16P 1",
            "7nl/7k1/6ppp/9/9/9/9/9/9 b RB2Gr 1",
            "9/9/9/9/9/9/4p4/9/4K4 w 2r2b4g4s4n4l16p 1",
        )
    ):
        compare_games(sfen, positions=1400, seed=seed, rows=8)


def test_declaration_by_27_points_agrees_on_random_entering_kings():
    rng = np.random.default_rng(3)
    won = 0
    for _ in range(400):
        sfen = entering_king(rng)
        ours = ShogiGame(sfen).declaration(27) == "win"
        assert ours == bool(cshogi.Board(sfen).is_nyugyoku()), sfen
        won += ours
    assert 20 < won < 380


def entering_king(rng):
    """Black's king in the zone among promoted pieces; white's far away, or turned round."""
    while True:
        board = [["1"] * 9 for _ in range(9)]
        pieces = ["K"] + ["+P"] * rng.integers(5, 12) + ["+B"] * rng.integers(0, 3)
        pieces += ["+R"] * rng.integers(0, 3) + ["G"] * rng.integers(0, 3)
        squares = rng.permutation(36)
        for piece, square in zip(pieces, squares, strict=False):
            board[square // 9][square % 9] = piece
        board[8][rng.integers(9)] = "k"
        hands = {"P": rng.integers(0, 7), "S": rng.integers(0, 5), "N": rng.integers(0, 5)}
        text = "".join(f"{count}{kind}" for kind, count in hands.items() if count)
        side = "b"
        if rng.random() < 0.5:
            board = [[piece.swapcase() for piece in row[::-1]] for row in board[::-1]]
            text, side = text.lower(), "w"
        sfen = f"{'/'.join(''.join(row) for row in board)} {side} {text or '-'} 1"
        try:
            ShogiGame(sfen)
        except ValueError:
            continue
        return sfen


@pytest.mark.parametrize(
    "start",
    [
        "4k4/9/9/9/5R3/9/9/9/4K4 b - 1",
        "k8/9/9/9/9/9/9/7r1/K8 w - 1",
        "4k4/4g4/9/9/9/9/9/4G4/4K4 b - 1",
        "l8/9/1k7/9/9/9/7K1/9/8L b - 1",
        "4k4/9/9/4r4/9/4R4/9/9/4K4 b - 1",
    ],
)
def test_repetitions_are_judged_as_the_rule_is_worded(start):
    rng = np.random.default_rng(7)
    seen = set()
    for _ in range(60):
        game = ShogiGame(start)
        reference = RepetitionReference(start)
        while game.ply < 150 and (moves := quiet_moves(game)):
            # Mostly the smallest moves of a fixed order, so that positions come back.
            game.make_move(moves[min(int(rng.geometric(0.6)) - 1, len(moves) - 1)])
            expected = reference.push(game.sfen(), game.in_check)
            outcome = game.outcome()
            if outcome is not None and outcome.reason in (
                Reason.CHECKMATE,
                Reason.NO_LEGAL_MOVES,
            ):
                break
            assert (outcome is None) == (expected is None), game.moves
            if outcome is not None:
                winner = {1: game.mover, -1: 1 - game.mover, 0: None}[expected[1]]
                assert (outcome.reason, outcome.winner) == (expected[0], winner), game.moves
                seen.add(outcome.reason)
                break
    assert seen, "no game repeated itself"


def quiet_moves(game):
    """Legal moves that give check first, then others, without drops and promotions."""
    moves = [move for move in game.legal_moves() if len(move) == 4 and "*" not in move]
    return sorted(moves, key=lambda move: (not gives_check(game, move), move))


def gives_check(game, move):
    game.make_move(move)
    check = game.in_check
    game.undo()
    return check
