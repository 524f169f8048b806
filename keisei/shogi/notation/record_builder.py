"""Playing a record through while it is read, so that its moves are known to be legal."""

from __future__ import annotations

from dataclasses import dataclass

from keisei.shogi.errors import IllegalMoveError, NotationError
from keisei.shogi.notation.ending_notes import restore_from_notes
from keisei.shogi.notation.record_text import excerpt
from keisei.shogi.notation.records import Ending, GameRecord, RecordedMove
from keisei.shogi.shogi_game import ShogiGame

_FOULS = frozenset({Ending.ILLEGAL_MOVE, Ending.FOUL_LOSS, Ending.FOUL_WIN})


@dataclass
class _RefusedMove:
    """A move that breaks the rules: an error, unless the record says that it lost the game."""

    usi: str
    reason: str
    line: int


class RecordBuilder:
    """Grows a `GameRecord` line by line: `begin`, then moves, comments and times, then `end`."""

    def __init__(self) -> None:
        self._record = GameRecord()
        self._game: ShogiGame | None = None
        self._refused: _RefusedMove | None = None

    @property
    def has_begun(self) -> bool:
        """Whether the start position is settled."""
        return self._game is not None

    @property
    def has_ended(self) -> bool:
        """Whether the record said how the game ended."""
        return self._record.ending is not None

    @property
    def game(self) -> ShogiGame:
        """The position reached so far."""
        if self._game is None:
            raise RuntimeError("begin the record before playing it")
        return self._game

    def begin(self, sfen: str) -> None:
        """Settle the start position."""
        self._game = ShogiGame(sfen, max_moves=None)
        self._record.start_sfen = self._game.sfen()

    def add_header(self, name: str, value: str) -> None:
        """Keep a header; values of a repeated header are kept as lines of one."""
        value = value.strip()
        before = self._record.headers.get(name)
        if value and before != value:
            self._record.headers[name] = value if before is None else f"{before}\n{value}"

    def add_comment(self, text: str) -> None:
        """Attach a line to the last thing read: the ending, a move, or the start."""
        record = self._record
        if self.has_ended or self._refused:
            record.ending_comment = _with_line(record.ending_comment, text)
        else:
            holder = record.moves[-1] if record.moves else record
            holder.comment = _with_line(holder.comment, text)

    def add_seconds(self, seconds: int) -> None:
        """Attach a time to the last move or to the ending."""
        record = self._record
        if self.has_ended or self._refused:
            record.ending_seconds = (record.ending_seconds or 0) + seconds
        elif record.moves:
            record.moves[-1].seconds = seconds
        else:
            raise NotationError("a time before the first move")

    def play(self, usi: str, *, text: str, line: int) -> None:
        """Play a move that the record writes as `text`."""
        self.expect_a_move(text)
        try:
            self.game.make_move(usi)
        except IllegalMoveError as error:
            self.refuse(usi, f"illegal move {excerpt(text)}: {error}", line=line)
        except NotationError as error:
            raise NotationError(f"move {excerpt(text)}: {error.reason}") from error
        else:
            self._record.moves.append(RecordedMove(usi))

    def refuse(self, usi: str, reason: str, *, line: int) -> None:
        """Note that a move is impossible; forgiven if the record goes on to call it a foul."""
        self.expect_a_move(usi)
        self._refused = _RefusedMove(usi, reason, line)

    def expect_a_move(self, text: str) -> None:
        """Complain if no move may come here, whatever it is."""
        self._raise_if_refused()
        if self.has_ended:
            raise NotationError(f"move {excerpt(text)} after the end of the game")

    def _raise_if_refused(self) -> None:
        if self._refused:
            raise NotationError(self._refused.reason, line=self._refused.line)

    def end(self, ending: Ending) -> None:
        """Say how the game ended."""
        if self.has_ended:
            raise NotationError("the game ends twice")
        if self._refused and ending in _FOULS:
            # Programs differ in whose turn they count after an illegal move, and so in whether
            # they write a foul lost or won; who played the move lost in either case.
            self._record.illegal_move = self._refused.usi
            ending, self._refused = Ending.ILLEGAL_MOVE, None
        self._raise_if_refused()
        self._record.ending = ending

    def finish(self) -> GameRecord:
        """The record, once all is read."""
        self._raise_if_refused()
        restore_from_notes(self._record)
        return self._record


def _with_line(text: str, line: str) -> str:
    return f"{text}\n{line}" if text else line
