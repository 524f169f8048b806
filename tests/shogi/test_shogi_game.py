"""`ShogiGame`: playing, taking back, copying, printing."""

import numpy as np
import pytest

from keisei.shogi.errors import IllegalMoveError, NotationError
from keisei.shogi.judging import Reason
from keisei.shogi.sfen import START_SFEN
from keisei.shogi.shogi_game import ShogiGame
from keisei.shogi.vector_shogi import VectorShogi


def random_game(seed, plies):
    rng = np.random.default_rng(seed)
    game = ShogiGame()
    while game.ply < plies and (moves := game.legal_moves()):
        game.make_move(str(rng.choice(moves)))
    return game


def everything(game):
    return (
        game.sfen(),
        game.legal_moves(),
        game.in_check,
        game.outcome(),
        game.mover,
        game.ply,
        game.hand(0),
        game.hand(1),
        game.declaration(27),
        list(game.moves),
    )


@pytest.mark.parametrize("seed", range(5))
def test_undo_brings_back_every_earlier_position(seed):
    final = random_game(seed, 200)
    game = ShogiGame()
    past = []
    for move in final.moves:
        past.append(everything(game))
        game.make_move(move)
    assert everything(game) == everything(final)
    for move, before in zip(reversed(final.moves), reversed(past), strict=True):
        assert game.undo() == move
        assert everything(game) == before
    assert game.sfen() == START_SFEN


@pytest.mark.uncompiled
def test_undo_forgets_occurrences():
    game = ShogiGame()
    shuffle = ["2h3h", "8b7b", "3h2h", "7b8b"]
    for move in shuffle * 3:
        game.make_move(move)
    assert game.outcome().reason == Reason.REPETITION
    for _ in range(4):
        game.undo()
    assert game.outcome() is None
    for move in shuffle:
        assert game.outcome() is None
        game.make_move(move)
    assert game.outcome().reason == Reason.REPETITION


def test_there_is_nothing_to_take_back_at_the_start():
    with pytest.raises(IllegalMoveError, match="no move to take back"):
        ShogiGame().undo()


def test_asking_for_legal_moves_does_not_end_or_revive_a_game():
    game = ShogiGame("7lk/9/8G/9/9/9/9/9/4K4 b L 1")
    game.make_move("L*1b")
    for _ in range(2):
        assert game.legal_moves() == []
        assert game.outcome().reason == Reason.CHECKMATE


@pytest.mark.uncompiled
def test_a_copy_goes_its_own_way():
    game = random_game(1, 40)
    before = everything(game)
    copy = game.copy()
    assert everything(copy) == before
    copy.make_move(copy.legal_moves()[0])
    copy.make_move(copy.legal_moves()[0])
    assert everything(game) == before
    game.undo()
    assert copy.ply == 42


def test_illegal_and_unreadable_moves_change_nothing():
    game = ShogiGame()
    with pytest.raises(IllegalMoveError, match="7g7e is not legal"):
        game.make_move("7g7e")
    for text in ("", "7g", "7g7g", "0a1a", "K*5e", "7g7f++", "P5e", "7g7f ", "７g7f"):
        with pytest.raises(NotationError, match="is not a move"):
            game.make_move(text)
    with pytest.raises(NotationError, match="between 0 and 13526"):
        game.make_move(13527)
    assert game.sfen() == START_SFEN
    assert game.moves == []


def test_moves_may_be_action_numbers():
    game = ShogiGame()
    for action, move in zip(game.legal_actions(), range(3), strict=False):
        other = game.copy()
        other.make_move(action)
        assert other.ply == 1
        assert move < 3
        assert other.moves[0] in game.legal_moves()


def test_the_move_number_of_the_sfen_counts_on():
    game = ShogiGame("4k4/9/9/9/9/9/9/9/4K4 w P 57")
    game.make_move("5a5b")
    assert game.sfen() == "9/4k4/9/9/9/9/9/9/4K4 b P 58"


def test_games_longer_than_the_limit_go_on_when_asked_to():
    game = ShogiGame("4k4/9/9/9/9/9/9/9/4K4 b - 1", max_moves=4)
    for move in ("5i5h", "5a5b", "5h5g", "5b5c"):
        assert game.outcome() is None
        game.make_move(move)
    assert (game.outcome().winner, game.outcome().reason) == (None, Reason.MAX_MOVES)
    game.make_move("5g5f")
    assert game.ply == 5


def test_without_a_limit_a_game_may_be_of_any_length():
    game = ShogiGame("4k4/9/9/9/9/9/9/9/4K4 b - 1", max_moves=None)
    rng = np.random.default_rng(0)
    for _ in range(700):
        game.make_move(str(rng.choice(game.legal_moves())))
    assert game.outcome() is None or game.outcome().reason == Reason.REPETITION
    for _ in range(700):
        game.undo()
    assert game.sfen() == "4k4/9/9/9/9/9/9/9/4K4 b - 1"


@pytest.mark.uncompiled
def test_pieces_and_hands_can_be_looked_up():
    game = ShogiGame("4k4/9/+p8/9/9/9/9/9/4K2R1 b 3PGs 1")
    assert game.piece_at("5a") == "k"
    assert game.piece_at("9c") == "+p"
    assert game.piece_at("2i") == "R"
    assert game.piece_at("1a") is None
    assert game.hand(0) == {"P": 3, "G": 1}
    assert game.hand(1) == {"S": 1}
    with pytest.raises(NotationError, match="is not a square"):
        game.piece_at("0z")


def test_it_prints_as_a_board():
    text = str(ShogiGame("4k4/9/+p8/9/9/9/9/9/4K2R1 b 3PGs 1"))
    lines = text.splitlines()
    assert lines[0] == "white holds S"
    assert lines[1].split() == list("987654321")
    assert lines[4] == " +p  .  .  .  .  .  .  .  .  c"
    assert lines[-2:] == ["black holds P3G", "black to move"]
    assert str(ShogiGame("4k4/4G4/9/9/9/9/9/9/4K4 w - 1")).endswith("white to move, in check")


def test_positions_are_the_ones_that_batches_show():
    games = VectorShogi(1, seed=5, threads=1)
    game = ShogiGame()
    for _ in range(300):
        np.testing.assert_array_equal(game.compact_position(), games.positions[0])
        action = games.random_actions()
        games.step(action)
        game.make_move(int(action[0]))
        if games.result[0]:
            break
