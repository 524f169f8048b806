"""A game from a start position and moves, or a sentence that says why there is none."""

from __future__ import annotations

from collections.abc import Sequence

from keisei.shogi.errors import IllegalMoveError, NotationError
from keisei.shogi.shogi_game import ShogiGame


def game_of(sfen: str, moves: Sequence[str]) -> ShogiGame:
    """The game after the USI moves; `NotationError` for a position or move that cannot be."""
    game = ShogiGame(sfen, max_moves=None)
    for number, move in enumerate(moves, 1):
        try:
            game.make_move(move)
        except (NotationError, IllegalMoveError) as error:
            raise NotationError(f"move {number}: {error}") from None
    return game
