"""Histories of games: what has been noted of each ply so far, [B, M + 1], by kernels.

The numbers behind a game's ply are left from earlier games and never read. They are most of it:
games of a hundred plies have room for 512.
"""

from __future__ import annotations

from keisei.compiled.kernels import kernel


@kernel(entry=True)
def clear_future(plies, history):
    """Set to 0 what is behind the plies [B] of each game."""
    for row in range(len(plies)):
        for index in range(plies[row] + 1, history.shape[1]):
            history[row, index] = 0


@kernel(entry=True)
def pack_history(plies, history, packed):
    """Put what belongs to the games into `packed`, one game behind the other."""
    used = 0
    for row in range(len(plies)):
        for index in range(plies[row] + 1):
            packed[used] = history[row, index]
            used += 1


@kernel(entry=True)
def unpack_history(plies, packed, history):
    """The way back; what is behind each game stays."""
    used = 0
    for row in range(len(plies)):
        for index in range(plies[row] + 1):
            history[row, index] = packed[used]
            used += 1
