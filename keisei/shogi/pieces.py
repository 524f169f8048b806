"""Piece numbers and what follows from them.

A piece on the board is 1-14, positive for the player whose view it is and negative for the other.
A piece in hand is a kind 0-6, the number of the unpromoted piece less one.
"""

from __future__ import annotations

import numpy as np

BLACK, WHITE = 0, 1

# NumPy numbers: see the directions in `bitboard`.
PAWN, LANCE, KNIGHT, SILVER, GOLD, BISHOP, ROOK, KING = map(np.int64, range(1, 9))
TOKIN, PROMOTED_LANCE, PROMOTED_KNIGHT, PROMOTED_SILVER, HORSE, DRAGON = map(np.int64, range(9, 15))

LETTERS = ("", "P", "L", "N", "S", "G", "B", "R", "K", "+P", "+L", "+N", "+S", "+B", "+R")
"""SFEN letters by piece number."""
PIECE_OF_LETTERS = {letters: piece for piece, letters in enumerate(LETTERS) if piece}
HAND_LETTERS = "PLNSGBR"
PIECES_IN_A_SET = (0, 18, 4, 4, 4, 4, 2, 2, 2)
"""How many of each unpromoted piece number a full set has."""

PROMOTES_TO = np.array([0, 9, 10, 11, 12, 0, 13, 14, 0, 0, 0, 0, 0, 0, 0], np.int64)
UNPROMOTED = np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 6, 7], np.int64)

# Pieces that move alike share a set of squares: the four promoted small pieces are golds.
PAWNS, LANCES, KNIGHTS, SILVERS, GOLDS, BISHOPS, ROOKS, KINGS, HORSES, DRAGONS, ALL = range(11)
SET_OF_PIECE = np.array([0, 0, 1, 2, 3, 4, 5, 6, 7, 4, 4, 4, 4, 8, 9], np.int64)
