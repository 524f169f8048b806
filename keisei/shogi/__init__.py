"""Shogi: the rules, batches of games, notation and encodings. Knows nothing of learning."""

from keisei.shogi.errors import IllegalMoveError, NotationError
from keisei.shogi.judging import Declaration, Reason
from keisei.shogi.policy_output_mapper import PolicyOutputMapper
from keisei.shogi.sfen import START_SFEN
from keisei.shogi.shogi_game import Outcome, ShogiGame
from keisei.shogi.vector_shogi import VectorShogi

__all__ = [
    "START_SFEN",
    "Declaration",
    "IllegalMoveError",
    "NotationError",
    "Outcome",
    "PolicyOutputMapper",
    "Reason",
    "ShogiGame",
    "VectorShogi",
]
