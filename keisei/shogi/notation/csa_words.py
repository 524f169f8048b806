"""The words of CSA: pieces and endings."""

from __future__ import annotations

from keisei.shogi.notation.records import Ending

WORD_OF_PIECE = {
    "P": "FU",
    "L": "KY",
    "N": "KE",
    "S": "GI",
    "G": "KI",
    "B": "KA",
    "R": "HI",
    "K": "OU",
    "+P": "TO",
    "+L": "NY",
    "+N": "NK",
    "+S": "NG",
    "+B": "UM",
    "+R": "RY",
}
PIECE_OF_WORD = {word: letters for letters, word in WORD_OF_PIECE.items()}
SIGNS = "+-"
"""The mark of a colour, black first."""

WORD_OF_ENDING = {
    Ending.RESIGN: "%TORYO",
    Ending.CHECKMATE: "%TSUMI",
    Ending.NO_MATE: "%FUZUMI",
    Ending.TIME_UP: "%TIME_UP",
    Ending.ILLEGAL_MOVE: "%ILLEGAL_MOVE",
    Ending.DECLARATION_WIN: "%KACHI",
    Ending.DECLARED_DRAW: "%HIKIWAKE",
    Ending.IMPASSE: "%JISHOGI",
    Ending.REPETITION: "%SENNICHITE",
    Ending.MAX_MOVES: "%MAX_MOVES",
    Ending.ABORT: "%CHUDAN",
    Ending.TAKEBACK: "%MATTA",
    Ending.ERROR: "%ERROR",
}
ENDING_OF_WORD = {word: ending for ending, word in WORD_OF_ENDING.items()}
NEAREST_ENDING = {
    Ending.DEFAULT_LOSS: Ending.ABORT,
    Ending.DEFAULT_WIN: Ending.ABORT,
    Ending.SEALED_MOVE: Ending.ABORT,
}
"""What to write for endings that CSA has no word for."""

ILLEGAL_ACTION = "ILLEGAL_ACTION"
"""Written with the sign of the side that committed the foul: %+ILLEGAL_ACTION."""
