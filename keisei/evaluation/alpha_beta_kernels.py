"""The search of `AlphaBetaPlayer`, compiled: negamax with alpha-beta over material.

Scores are for the player to move: material, or `MATE` less the plies to the mate. Repetition is
not looked at.
"""

from __future__ import annotations

import numpy as np

from keisei.compiled.kernels import kernel
from keisei.evaluation.greedy import PIECE_VALUES
from keisei.shogi.attacks import is_attacked
from keisei.shogi.movegen import generate
from keisei.shogi.pieces import PROMOTES_TO, UNPROMOTED
from keisei.shogi.position import BOARD_MOVES, decode_board_move, make_move, unmake_move

MATE = np.int64(100_000)
_INFINITE = np.int64(1_000_000)
_ROOT = np.int64(0)  # not a literal: see the directions in `bitboard`
_VICTIMS_FIRST = np.int64(16)  # more than any piece is worth
_board_move = kernel(decode_board_move)


@kernel
def material_balance(game):
    """What the mover has on the board and in hand, less what the opponent has."""
    us = game.mover & 1
    balance = np.int64(0)
    for square in range(81):
        piece = np.int64(game.board[us, square])
        balance += PIECE_VALUES[piece] if piece > 0 else -PIECE_VALUES[-piece]
    for kind in range(7):
        more = np.int64(game.hands[us, kind]) - np.int64(game.hands[1 - us, kind])
        balance += PIECE_VALUES[kind + 1] * more
    return balance


@kernel
def _gain_and_rank(game, action):
    """(change of the mover's balance, place in the order of search: higher is earlier).

    The most valuable victim comes first, among equals taken by the least valuable piece. A piece in
    hand is worth what it is worth on the board, so drops gain nothing.
    """
    if action >= BOARD_MOVES:
        return np.int64(0), np.int64(0)
    origin, target, promotes = _board_move(action)
    own_view = game.board[game.mover & 1]
    piece, victim = np.int64(own_view[origin]), -np.int64(own_view[target])
    gain = PIECE_VALUES[victim] + PIECE_VALUES[UNPROMOTED[victim]]
    if promotes:
        gain += PIECE_VALUES[PROMOTES_TO[piece]] - PIECE_VALUES[piece]
    if gain == 0:
        return gain, np.int64(0)
    return gain, _VICTIMS_FIRST * gain + _VICTIMS_FIRST - PIECE_VALUES[piece]


@kernel
def _rank_moves(game, moves, gains, ranks, killers, ply, count):
    """Fill the first `count` of gains[ply] and ranks[ply]; returns how many have a rank above 0.

    A quiet move that was too good for the opponent a moment ago comes right after the captures.
    """
    ranked = 0
    for index in range(count):
        action = np.int64(moves[ply, index])
        gain, rank = _gain_and_rank(game, action)
        if action == killers[ply] and rank == 0:
            rank = 1
        gains[ply, index] = gain
        ranks[ply, index] = rank
        ranked += rank > 0
    return ranked


@kernel
def _bring_forward(moves, gains, ranks, ply, index, count):
    """Exchange the move of the highest rank from `index` on with the one at `index`."""
    best = index
    for other in range(index + 1, count):
        if ranks[ply, other] > ranks[ply, best]:
            best = other
    moves[ply, index], moves[ply, best] = moves[ply, best], moves[ply, index]
    gains[ply, index], gains[ply, best] = gains[ply, best], gains[ply, index]
    ranks[ply, index], ranks[ply, best] = ranks[ply, best], ranks[ply, index]


@kernel
def _is_in_check(game):
    us = game.mover & 1
    king = np.int64(game.king[us])
    return king >= 0 and is_attacked(king, game.squares[us, 0], game.squares[us, 1])


@kernel
def _search(game, depth, ply, balance, alpha, beta, moves, gains, ranks, killers):
    """The score of the position; exact between `alpha` and `beta`, else a bound beyond them.

    Below depth 1 only captures and promotions are searched, or none if that is better; in check
    every move is. The last row of `moves` ends the search.
    """
    best = -_INFINITE
    only_gains = depth <= 0 and not _is_in_check(game)
    last = ply == len(moves) - 1
    if only_gains:
        # Before the moves are generated: most leaves end here.
        if balance >= beta or last:
            return balance
        best = balance
        alpha = max(alpha, best)
    count = generate(game, moves, ply)
    if last or count == 0:
        return balance if count or only_gains else ply - MATE
    ranked = _rank_moves(game, moves, gains, ranks, killers, ply, count)
    for index in range(count):
        if index < ranked:
            _bring_forward(moves, gains, ranks, ply, index, count)
        if only_gains and gains[ply, index] == 0:
            break
        action, after = np.int64(moves[ply, index]), balance + gains[ply, index]
        captured = make_move(game, action)
        score = -_search(
            game, depth - 1, ply + 1, -after, -beta, -alpha, moves, gains, ranks, killers
        )
        unmake_move(game, action, captured)
        best = max(best, score)
        alpha = max(alpha, best)
        if alpha >= beta:
            killers[ply] = action
            break
    return best


@kernel
def _best_moves(game, depth, moves, gains, ranks, killers, equals):
    """Write the moves of the best score to `equals`; returns (that score, how many)."""
    balance = material_balance(game)
    count = generate(game, moves, _ROOT)
    ranked = _rank_moves(game, moves, gains, ranks, killers, _ROOT, count)
    best, found = -_INFINITE, 0
    for index in range(count):
        if index < ranked:
            _bring_forward(moves, gains, ranks, _ROOT, index, count)
        action, after = np.int64(moves[0, index]), balance + gains[0, index]
        captured = make_move(game, action)
        # A window that begins below the best: an equal move is then known to be equal.
        score = -_search(
            game, depth - 1, _ROOT + 1, -after, -_INFINITE, 1 - best, moves, gains, ranks, killers
        )
        unmake_move(game, action, captured)
        if score > best:
            best, found = score, 0
        if score == best:
            equals[found] = action
            found += 1
    return best, found


@kernel(entry=True)
def choose_by_search(
    records, rows, depth, draws, copy, moves, gains, ranks, killers, equals, actions
):
    """Write the action of each of R games to `actions`; returns the score of the last one.

    records: [B] GAME, only read; rows: [R] int64; depth: int64 of at least 1; draws: [R] float64
    from 0 to 1, one for each choice among equals; actions: [R] int64. Scratch: copy: [1] GAME;
    moves: [P, 593] uint16 for P plies, `depth` and those of captures beyond; gains, ranks: [P, 593]
    int64; killers: [P] int64; equals: [593] int64.
    """
    best = np.int64(0)
    for index in range(len(rows)):
        copy[0] = records[rows[index]]
        best, found = _best_moves(copy[0], depth, moves, gains, ranks, killers, equals)
        actions[index] = equals[int(draws[index] * found)]
    return best
