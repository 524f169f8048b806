"""Slow, plain second opinions that the tests compare the engine with."""

import numpy as np

from keisei.shogi.judging import Reason

CSHOGI_KINDS = np.array([0, 1, 2, 3, 5, 6, 4])
"""Our kinds in hand by cshogi's numbers of drops, where the gold comes last."""


class RepetitionReference:
    """Fourfold repetition and perpetual check by the wording of the rule, on SFEN texts.

    Positions are compared as text; a side that gave check with each of its moves between the
    first and the fourth occurrence loses, unless both did.
    """

    def __init__(self, sfen):
        self.positions = [_without_number(sfen)]
        self.checks = []  # for each move: whether it gave check

    def push(self, sfen, gave_check):
        """(reason, whether the player to move lost or won: -1, 0, 1) after a move, or None."""
        self.positions.append(_without_number(sfen))
        self.checks.append(gave_check)
        occurrences = [i for i, p in enumerate(self.positions) if p == self.positions[-1]]
        if len(occurrences) < 4:
            return None
        cycle = self.checks[occurrences[0] :]
        opponents, own = cycle[-1::-2], cycle[-2::-2]
        if all(opponents) and not all(own):
            return Reason.PERPETUAL_CHECK, 1
        if all(own) and not all(opponents):
            return Reason.PERPETUAL_CHECK, -1
        return Reason.REPETITION, 0


def _without_number(sfen):
    return sfen.rsplit(" ", 1)[0]


def cshogi_actions(moves, turn):
    """Sorted Keisei actions of cshogi move numbers (array of int) for the side `turn`.

    cshogi numbers squares by file from 1a; drops have 81 + kind as their origin.
    """
    moves = np.asarray(moves, np.int64)
    target, origin, promotes = moves & 127, (moves >> 7) & 127, (moves >> 14) & 1
    drop = origin >= 81
    target, start = _our_square(target, turn), _our_square(np.where(drop, 0, origin), turn)
    on_board = 2 * (start * 80 + target - (target > start)) + promotes
    kinds = CSHOGI_KINDS[np.where(drop, origin - 81, 0)]
    return np.sort(np.where(drop, 12960 + target * 7 + kinds, on_board))


def _our_square(square, turn):
    file, rank = square // 9, square % 9
    ours = rank * 9 + 8 - file
    return 80 - ours if turn else ours
