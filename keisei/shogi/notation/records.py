"""A game as a record: what KIF, CSA, USI and SFEN files have in common.

The readers turn a file into a `GameRecord`, the writers turn one into a file, and neither knows of
the other formats. Moves are USI text, headers have neutral names (`record_headers` lists them).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from keisei.shogi.pieces import BLACK, WHITE
from keisei.shogi.sfen import START_SFEN


class Ending(Enum):
    """How a game ended. "The mover" is the side whose turn it was then.

    Perpetual check is a foul: `FOUL_WIN` when the mover was the one checked, else `FOUL_LOSS`.
    """

    RESIGN = "resign"  # the mover gave up
    CHECKMATE = "checkmate"  # the mover is mated; in a problem: solved
    NO_MATE = "no_mate"  # a problem without solution
    TIME_UP = "time_up"  # the mover ran out of time
    ILLEGAL_MOVE = "illegal_move"  # the mover lost by an illegal move
    FOUL_LOSS = "foul_loss"  # the mover lost by another foul
    FOUL_WIN = "foul_win"  # the mover won by a foul of the opponent
    DECLARATION_WIN = "declaration_win"  # the mover's king entered and the points sufficed
    DECLARED_DRAW = "declared_draw"  # the points sufficed for a draw only
    IMPASSE = "impasse"  # both kings entered; drawn by agreement
    REPETITION = "repetition"
    MAX_MOVES = "max_moves"
    DEFAULT_LOSS = "default_loss"  # the mover did not appear
    DEFAULT_WIN = "default_win"  # the opponent did not appear
    SEALED_MOVE = "sealed_move"  # adjourned with the mover's next move in an envelope
    ABORT = "abort"
    TAKEBACK = "takeback"
    ERROR = "error"


MOVER_LOSES = frozenset(
    {
        Ending.RESIGN,
        Ending.CHECKMATE,
        Ending.TIME_UP,
        Ending.ILLEGAL_MOVE,
        Ending.FOUL_LOSS,
        Ending.DEFAULT_LOSS,
    }
)
MOVER_WINS = frozenset({Ending.FOUL_WIN, Ending.DECLARATION_WIN, Ending.DEFAULT_WIN})


@dataclass
class RecordedMove:
    """One move, the time it took (None: not recorded) and what was said about it.

    A comment may have several lines; a line that begins with `&` is a bookmark.
    """

    usi: str
    seconds: int | None = None
    comment: str = ""


@dataclass
class GameRecord:
    """One game: where it began, what was played, how it ended, and who played when and where."""

    start_sfen: str = START_SFEN
    moves: list[RecordedMove] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    comment: str = ""
    """What was said before the first move."""
    ending: Ending | None = None
    ending_seconds: int | None = None
    """Time the mover used between the last move and the ending."""
    ending_comment: str = ""
    illegal_move: str = ""
    """The move, in USI, that lost the game because it was illegal. It is not among `moves`."""

    @property
    def mover(self) -> int:
        """The side whose turn it was when the game ended."""
        first = WHITE if self.start_sfen.split()[1] == "w" else BLACK
        return first ^ len(self.moves) % 2

    @property
    def winner(self) -> int | None:
        """0 for black, 1 for white, None when nobody won."""
        if self.ending in MOVER_LOSES:
            return 1 - self.mover
        return self.mover if self.ending in MOVER_WINS else None
