"""One game as a record, and how a move changes it.

The record keeps the board twice, once as each player sees it, and the sets of squares of every
kind of piece in both views. Moves then need no case for colour (own pieces always move up), and
nothing is ever rotated: a move flips a few bits in each view.
"""

from __future__ import annotations

import numpy as np

from keisei.compiled.kernels import kernel
from keisei.shogi.bitboard import LOW_SQUARES
from keisei.shogi.pieces import ALL, KING, PROMOTES_TO, SET_OF_PIECE, UNPROMOTED

OWN, THEIRS = np.int64(0), np.int64(1)
NO_KING = -1
BOARD_MOVES = 81 * 80 * 2
NUM_ACTIONS = BOARD_MOVES + 81 * 7
MAX_LEGAL_MOVES = 593

GAME = np.dtype(
    [
        ("squares", np.int64, (2, 2, 11, 2)),  # [view, own or theirs, kind of set, low or high]
        ("key", np.uint64),  # hash of board and hands, not of the mover
        ("random", np.uint64),  # state of this game's own random stream
        ("board", np.int8, (2, 81)),  # [view, square], the viewer's pieces positive
        ("hands", np.int8, (2, 7)),  # [colour, kind]
        ("king", np.int64, (2,)),  # [colour] square of that colour's king in its own view
        ("mover", np.int8),
        ("in_check", np.int8),
        ("repetitions", np.int8),  # earlier occurrences of this position
        ("ply", np.int32),  # moves played since the start of the game
        ("seen", np.uint8, (512,)),  # a bit for each hash that occurred; see `judging`
    ],
    align=True,
)

_random = np.random.default_rng(20260115)
PIECE_KEYS = _random.integers(0, 2**64, (2, 15, 81), np.uint64)
HAND_KEYS = _random.integers(0, 2**64, (2, 7), np.uint64)


def new_games(count: int) -> np.ndarray:
    """`count` empty boards: a record array of `GAME`."""
    games = np.zeros(count, GAME).view(np.recarray)
    games.king[:] = NO_KING
    return games


@kernel
def _flip(game, view, side, squares, square):
    if square < LOW_SQUARES:
        bit = 1 << square
        game.squares[view, side, squares, 0] ^= bit
        game.squares[view, side, ALL, 0] ^= bit
    else:
        bit = 1 << (square - LOW_SQUARES)
        game.squares[view, side, squares, 1] ^= bit
        game.squares[view, side, ALL, 1] ^= bit


@kernel(entry=True)
def place(game, colour, square, piece):
    """Put `piece` of `colour` on the empty `square` of its own view."""
    squares = SET_OF_PIECE[piece]
    _flip(game, colour, OWN, squares, square)
    _flip(game, 1 - colour, THEIRS, squares, 80 - square)
    game.board[colour, square] = piece
    game.board[1 - colour, 80 - square] = -piece
    game.key += PIECE_KEYS[colour, piece, square]
    if piece == KING:
        game.king[colour] = square


@kernel
def lift(game, colour, square, piece):
    """Take `piece` of `colour` off `square` of its own view."""
    squares = SET_OF_PIECE[piece]
    _flip(game, colour, OWN, squares, square)
    _flip(game, 1 - colour, THEIRS, squares, 80 - square)
    game.board[colour, square] = 0
    game.board[1 - colour, 80 - square] = 0
    game.key -= PIECE_KEYS[colour, piece, square]


@kernel(entry=True)
def gain(game, colour, kind):
    """One more piece of `kind` in the hand of `colour`."""
    game.hands[colour, kind] += 1
    game.key += HAND_KEYS[colour, kind]


@kernel
def spend(game, colour, kind):
    """One piece of `kind` fewer in the hand of `colour`."""
    game.hands[colour, kind] -= 1
    game.key -= HAND_KEYS[colour, kind]


def decode_board_move(action: int) -> tuple[int, int, int]:
    """(from, to, promotes) of an action below `BOARD_MOVES`, squares in the mover's view."""
    pair = action >> 1
    origin = pair // 80
    target = pair - origin * 80
    return origin, target + (target >= origin), action & 1


def decode_drop(action: int) -> tuple[int, int]:
    """(to, kind) of an action from `BOARD_MOVES` up."""
    drop = action - BOARD_MOVES
    target = drop // 7
    return target, drop - target * 7


_board_move = kernel(decode_board_move)
_drop = kernel(decode_drop)


@kernel(entry=True)
def make_move(game, action):
    """Play a legal action and pass the turn; return the piece captured, 0 if none."""
    colour = game.mover & 1
    captured = np.int64(0)
    if action >= BOARD_MOVES:
        target, kind = _drop(action)
        place(game, colour, target, kind + 1)
        spend(game, colour, kind)
    else:
        origin, target, promotes = _board_move(action)
        piece = np.int64(game.board[colour, origin])
        captured = -np.int64(game.board[colour, target])
        lift(game, colour, origin, piece)
        if captured:
            lift(game, 1 - colour, 80 - target, captured)
            gain(game, colour, UNPROMOTED[captured] - 1)
        place(game, colour, target, PROMOTES_TO[piece] if promotes else piece)
    game.mover = 1 - colour
    return captured


@kernel(entry=True)
def unmake_move(game, action, captured):
    """Take back `action`, which captured `captured`."""
    colour = 1 - (game.mover & 1)
    if action >= BOARD_MOVES:
        target, kind = _drop(action)
        lift(game, colour, target, kind + 1)
        gain(game, colour, kind)
    else:
        origin, target, promotes = _board_move(action)
        piece = np.int64(game.board[colour, target])
        lift(game, colour, target, piece)
        if captured:
            place(game, 1 - colour, 80 - target, captured)
            spend(game, colour, UNPROMOTED[captured] - 1)
        place(game, colour, origin, UNPROMOTED[piece] if promotes else piece)
    game.mover = colour
