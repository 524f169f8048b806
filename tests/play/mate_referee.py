"""Mates by looking at everything: the plain method that the mate search is checked with.

The rules here are cshogi's, so that nothing is shared with what is tested.
"""

import cshogi


def gives_mate_within(board, plies, known=None):
    """Whether the player to move has checks that mate within `plies`, whatever the replies."""
    known = {} if known is None else known
    place = board.sfen().rsplit(" ", 1)[0], plies
    if place not in known:
        known[place] = any(
            is_mated_within(board, move, plies, known) for move in list(board.legal_moves)
        )
    return known[place]


def is_mated_within(board, move, plies, known):
    """Whether `move` is a check, and leads to mate within `plies`, itself included."""
    board.push(move)
    mated = False
    if board.is_check():
        replies = list(board.legal_moves)
        mated = not replies
        if replies and plies > 2:
            mated = all(_after(board, reply, plies - 2, known) for reply in replies)
    board.pop()
    return mated


def _after(board, reply, plies, known):
    board.push(reply)
    mated = gives_mate_within(board, plies, known)
    board.pop()
    return mated


def forces_mate(sfen, move, plies):
    """Whether a USI move forces mate within `plies`, itself included."""
    board = cshogi.Board(sfen)
    return is_mated_within(board, board.move_from_usi(move), plies, {})


def has_mate(sfen, plies):
    """Whether a position has a mate within `plies`."""
    return gives_mate_within(cshogi.Board(sfen), plies)
