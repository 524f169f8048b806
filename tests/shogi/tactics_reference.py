"""The planes of `tactics_kernel` once more, square by square, from the rules in `test_features`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

Board = NDArray[np.int8]
Square = tuple[int, int]
Planes = dict[str, NDArray[np.float32]]

LETTERS = ["P", "L", "N", "S", "G", "B", "R", "K", "+P", "+L", "+N", "+S", "+B", "+R"]
WORTH = dict(zip(LETTERS, [1, 3, 3, 5, 6, 9, 10, 100, 6, 6, 6, 6, 11, 13], strict=True))
IN_HAND = LETTERS[:7]
FORKING = ["N", "S", "G", "B", "R"]
SLIDERS = ["L", "B", "R", "+B", "+R"]
LOSSES = [1, 3, 5, 8]
PROMOTED = {"P": "+P", "L": "+L", "N": "+N", "S": "+S", "B": "+B", "R": "+R"}
EVERYWHERE = [(rank, file) for rank in range(9) for file in range(9)]


class Danger:
    """What threatens the side whose pieces are positive, on a board seen by that side."""

    def __init__(
        self,
        board: Board,
        hand: list[int],
        attacked: Callable[[Board, int, int], list[Square]],
        reach: Callable[[str, Square], set[Square]],
    ) -> None:
        """hand: of the other side; attacked: by the piece on a square of a board; reach: by a piece
        of the other side on a square of an empty board, which goes on beyond the board's edge.
        """
        self.board, self.hand, self.attacked, self.reach = board, hand, attacked, reach
        self.by: dict[tuple[int, Square], list[str]] = {}
        for square in EVERYWHERE:
            if piece := int(board[square]):
                for target in attacked(board, *square):
                    of = self.by.setdefault((np.sign(piece), target), [])
                    of.append(LETTERS[abs(piece) - 1])
        self.kings = [square for square in EVERYWHERE if board[square] == 8]

    def theirs(self, square: Square) -> list[str]:
        return self.by.get((-1, square), [])

    def ours(self, square: Square) -> list[str]:
        return self.by.get((1, square), [])

    def would_attack(self, letters: str, square: Square) -> list[Square]:
        """What a piece of theirs would attack from a square."""
        board = self.board.copy()
        board[square] = -1 - LETTERS.index(letters)
        return self.attacked(board, *square)

    def checks(self, letters: str) -> Iterator[Square]:
        for square in EVERYWHERE:
            targets = self.would_attack(letters, square)
            if any(king in targets and king != square for king in self.kings):
                yield square

    def shields(self) -> Iterator[Square]:
        for square in EVERYWHERE:
            if self.board[square] and any(
                self.is_shield(square, king) for king in self.kings if king != square
            ):
                yield square

    def is_shield(self, square: Square, king: Square) -> bool:
        without = self.board.copy()
        without[square] = 0
        for other in EVERYWHERE:
            piece = int(self.board[other])
            if other != square and piece < 0 and LETTERS[-piece - 1] in SLIDERS:
                before = king in self.attacked(self.board, *other)
                if not before and king in self.attacked(without, *other):
                    return True
        return False

    def beside(self, king: Square) -> list[Square]:
        return [s for s in EVERYWHERE if max(abs(s[0] - king[0]), abs(s[1] - king[1])) == 1]

    def escapes_of(self, king: Square) -> set[Square]:
        return {s for s in self.beside(king) if self.board[s] <= 0 and not self.theirs(s)}

    def losses(self, at_least: int) -> Iterator[Square]:
        for square in EVERYWHERE:
            piece = int(self.board[square])
            in_danger = piece > 0 and piece != 8 and self.theirs(square)
            if in_danger and self.price(LETTERS[piece - 1], square) >= at_least:
                yield square

    def price(self, letters: str, square: Square) -> int:
        theirs, ours = self.theirs(square), self.ours(square)
        if not ours:
            return WORTH[letters]
        taker, answer = (min(WORTH[each] for each in side) for side in (theirs, ours))
        last = taker if len(ours) > 1 else 0
        second = max(answer - last, 0) if len(theirs) > 1 else 0
        return WORTH[letters] - max(taker - second, 0)

    def forks(self, letters: str) -> Iterator[Square]:
        for square in EVERYWHERE:
            targets = self.would_attack(letters, square)
            if sum(self.is_target(target, letters) for target in targets) > 1:
                yield square

    def is_target(self, square: Square, letters: str) -> bool:
        piece = int(self.board[square])
        if piece <= 0:
            return False
        return piece == 8 or not self.ours(square) or WORTH[LETTERS[piece - 1]] > WORTH[letters]

    def mates(self, *, by_drop: bool) -> Iterator[Square]:
        for king in self.kings:
            for square in EVERYWHERE:
                guards = [letters for letters in self.ours(square) if letters != "K"]
                blocked = self.board[square] != 0 if by_drop else self.board[square] < 0
                if not guards and not blocked and self.is_mate(king, square, by_drop=by_drop):
                    yield square

    def is_mate(self, king: Square, square: Square, *, by_drop: bool) -> bool:
        escapes = self.escapes_of(king)
        if by_drop:
            comers = [letters for letters, held in zip(IN_HAND, self.hand, strict=True) if held]
            comers = [letters for letters in comers if letters != "P"]
        else:
            comers = [letters for letters in self.theirs(square) if letters != "K"]
            if square[0] >= 6:
                comers += [PROMOTED[letters] for letters in comers if letters in PROMOTED]
        if square in self.beside(king):
            supported = len(self.theirs(square)) >= (1 if by_drop else 2)
            escapes -= {square}
        else:
            supported, comers = True, [letters for letters in comers if letters == "N"]
        reaches = [self.reach(letters, square) for letters in comers]
        return supported and any(king in reach and escapes <= reach for reach in reaches)


def tactics_planes(danger_of: dict[str, Danger], turn: Callable[[Square], Square]) -> Planes:
    """danger_of: "own" and "their" pieces in danger; `turn`: a square as the other side sees it."""
    planes: Planes = {}

    def show(name: str, defender: str, squares: Iterator[Square]) -> None:
        plane = planes[name] = np.zeros((9, 9), np.float32)
        for square in squares:
            plane[square if defender == "own" else turn(square)] = 1

    sides = (("own", "their"), ("their", "own"))
    for attacker, defender in sides:
        for letters in IN_HAND:
            show(f"{attacker} {letters} checks", defender, danger_of[defender].checks(letters))
    for side, _ in sides:
        show(f"{side} shields", side, danger_of[side].shields())
    for side, _ in sides:
        danger = danger_of[side]
        escapes = (s for king in danger.kings for s in danger.escapes_of(king))
        show(f"{side} escapes", side, escapes)
    for side, _ in sides:
        for at_least in LOSSES:
            show(f"{side} losses >= {at_least}", side, danger_of[side].losses(at_least))
    for attacker, defender in sides:
        for letters in FORKING:
            show(f"{attacker} {letters} forks", defender, danger_of[defender].forks(letters))
    for attacker, defender in sides:
        for name, by_drop in (("drop", True), ("move", False)):
            squares = danger_of[defender].mates(by_drop=by_drop)
            show(f"{attacker} mates by a {name}", defender, squares)
    return planes
