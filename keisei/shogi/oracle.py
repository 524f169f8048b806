"""The rules as an oracle: a question about a position in, a plain answer out."""

from __future__ import annotations

from typing import Any

from keisei.shogi.errors import IllegalMoveError, NotationError
from keisei.shogi.pieces import BLACK
from keisei.shogi.sfen import START_SFEN
from keisei.shogi.shogi_game import ShogiGame

_KNOWN = ("sfen", "moves")


def describe(question: object) -> dict[str, Any]:
    """Answer `{"sfen": …, "moves": […]}`, both optional; `{"error": …}` when it is unreadable."""
    try:
        return _answer(_play(question))
    except (NotationError, IllegalMoveError) as error:
        return {"error": str(error)}


def _play(question: object) -> ShogiGame:
    if not isinstance(question, dict):
        raise NotationError('a question is an object like {"sfen": "…", "moves": ["7g7f"]}')
    unknown = [key for key in question if key not in _KNOWN]
    if unknown:
        raise NotationError(f"unknown key {unknown[0]!r}; known are sfen and moves")
    sfen, moves = question.get("sfen", START_SFEN), question.get("moves", [])
    if not isinstance(sfen, str):
        raise NotationError("sfen must be a text")
    if not isinstance(moves, list) or not all(isinstance(move, str) for move in moves):
        raise NotationError("moves must be a list of texts")
    game = ShogiGame(sfen)
    for number, move in enumerate(moves, 1):
        try:
            game.make_move(move)
        except (NotationError, IllegalMoveError) as error:
            raise NotationError(f"move {number}: {error}") from None
    return game


def _answer(game: ShogiGame) -> dict[str, Any]:
    outcome = game.outcome()
    winner = None if outcome is None else outcome.winner
    return {
        "sfen": game.sfen(),
        "legal": game.legal_moves(),
        "in_check": game.in_check,
        "over": outcome is not None,
        "winner": None if winner is None else ("black" if winner == BLACK else "white"),
        "reason": None if outcome is None else outcome.reason.name.lower(),
        "declaration": {"27": game.declaration(27), "24": game.declaration(24)},
    }
