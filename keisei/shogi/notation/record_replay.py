"""Playing a record through while it is written, for what its moves do not say themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from keisei.shogi.notation.records import GameRecord, RecordedMove
from keisei.shogi.shogi_game import ShogiGame


class ReplayedMove(NamedTuple):
    """A move with its player and the SFEN letters of its piece before the move, upper case."""

    move: RecordedMove
    mover: int
    piece: str


def replay(record: GameRecord) -> Iterator[ReplayedMove]:
    """The moves of a record in order; `IllegalMoveError` at one that cannot be played."""
    game = ShogiGame(record.start_sfen, max_moves=None)
    for move in record.moves:
        mover = game.mover
        is_drop = move.usi[1:2] == "*"
        piece = move.usi[0] if is_drop else game.piece_at(move.usi[:2])
        game.make_move(move.usi)
        yield ReplayedMove(move, mover, (piece or "").upper())
