"""Which of the mover's legal moves give check, without playing them."""

from __future__ import annotations

import numpy as np

from keisei.compiled.kernels import kernel
from keisei.shogi.attacks import between, piece_attacks, sliders_on_lines_of, without_lowest
from keisei.shogi.bitboard import LINE_DIRECTION, contains, count_bits, lowest_square
from keisei.shogi.pieces import ALL, PROMOTES_TO
from keisei.shogi.position import BOARD_MOVES, decode_board_move, decode_drop

_board_move = kernel(decode_board_move)
_drop = kernel(decode_drop)


@kernel
def _shields(king, attacker, occupied_low, occupied_high):
    """The attacker's pieces that alone stand between one of its sliders and the king."""
    shields_low = shields_high = np.int64(0)
    low, high = sliders_on_lines_of(king, attacker)
    while low | high:
        inner_low, inner_high = between(king, lowest_square(low, high))
        low, high = without_lowest(low, high)
        inner_low, inner_high = inner_low & occupied_low, inner_high & occupied_high
        if count_bits(inner_low) + count_bits(inner_high) == 1:
            shields_low |= inner_low & attacker[ALL, 0]
            shields_high |= inner_high & attacker[ALL, 1]
    return shields_low, shields_high


@kernel(entry=True)
def keep_checks(game, actions, row, count, reach):
    """Keep of the legal moves actions[row, :count] those that give check; how many.

    reach: [15, 2] int64, scratch: the squares from which each piece attacks the king. Everything is
    seen by the player whose king it is, for whom the attacker's pieces move down: a piece there
    attacks the king from where the same piece on the king's square would attack.
    """
    us = game.mover & 1
    them = 1 - us
    king = np.int64(game.king[them])
    if king < 0:
        return np.int64(0)
    attacker = game.squares[them, 1]
    occupied_low = game.squares[them, 0, ALL, 0] | attacker[ALL, 0]
    occupied_high = game.squares[them, 0, ALL, 1] | attacker[ALL, 1]
    for piece in range(1, 15):
        reach[piece, 0], reach[piece, 1] = piece_attacks(piece, king, occupied_low, occupied_high)
    shields_low, shields_high = _shields(king, attacker, occupied_low, occupied_high)
    kept = np.int64(0)
    for index in range(count):
        action = np.int64(actions[row, index])
        if action >= BOARD_MOVES:
            target, kind = _drop(action)
            checks = contains(reach[kind + 1, 0], reach[kind + 1, 1], 80 - target)
        else:
            origin, target, promotes = _board_move(action)
            piece = np.int64(game.board[us, origin])
            if promotes:
                piece = PROMOTES_TO[piece]
            checks = contains(reach[piece, 0], reach[piece, 1], 80 - target)
            if not checks and contains(shields_low, shields_high, 80 - origin):
                line = LINE_DIRECTION[king, 80 - origin]
                checks = line != LINE_DIRECTION[king, 80 - target]
        if checks:
            actions[row, kept] = action
            kept += 1
    return kept
