"""SFEN: positions as text, read into game records and written out."""

from __future__ import annotations

import re

import numpy as np

from keisei.shogi.attacks import is_attacked
from keisei.shogi.errors import NotationError
from keisei.shogi.movegen import FIRST_RANK, FIRST_TWO_RANKS
from keisei.shogi.pieces import (
    BLACK,
    HAND_LETTERS,
    KING,
    KNIGHT,
    LANCE,
    LETTERS,
    PAWN,
    PIECE_OF_LETTERS,
    PIECES_IN_A_SET,
    UNPROMOTED,
    WHITE,
)
from keisei.shogi.position import gain, new_games, place
from keisei.shogi.squares import RANKS

START_SFEN = "lnsgkgsnl/1r5b1/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL b - 1"
_HAND_ORDER = "RBGSNLP"
_BOARD_TOKEN = re.compile(r"\+?[PLNSGBRK]|[1-9]", re.IGNORECASE)
_HAND_TOKEN = re.compile(r"([0-9]*)([PLNSGBR])", re.IGNORECASE)


def parse_sfen(sfen: str) -> tuple[np.ndarray, int]:
    """(a record array of one game, move number) of a position.

    The move number may be missing. Fewer than 40 pieces, and a single king, are fine.
    """
    fields = sfen.split()
    if len(fields) not in (3, 4):
        raise NotationError(f"a SFEN has a board, a side, hands and a move number, not {sfen!r}")
    board, side, hands = fields[:3]
    number = fields[3] if len(fields) == 4 else "1"
    if side not in ("b", "w"):
        raise NotationError(f"the side to move is b or w, not {side!r}")
    if not (number.isascii() and number.isdigit() and len(number) <= 6):
        raise NotationError(f"the move number {number!r} is not a whole number")
    games = new_games(1)
    _read_board(games[0], board)
    _read_hands(games[0], hands)
    games[0].mover = BLACK if side == "b" else WHITE
    _check_possible(games[0])
    return games, max(int(number), 1)


def _read_board(game: np.record, text: str) -> None:
    ranks = text.split("/")
    if len(ranks) != 9:
        raise NotationError(f"the board has {len(ranks)} ranks instead of 9")
    for rank, row in enumerate(ranks):
        file = 0
        tokens = _BOARD_TOKEN.findall(row)
        if "".join(tokens) != row:
            raise NotationError(f"rank {RANKS[rank]} is unreadable: {row!r}")
        for token in tokens:
            if token.isdigit():
                file += int(token)
                continue
            piece = PIECE_OF_LETTERS.get(token.upper())
            if piece is None:
                raise NotationError(f"no piece is written {token!r} (rank {RANKS[rank]})")
            if file < 9:
                _put(game, token, piece, rank * 9 + file)
            file += 1
        if file != 9:
            raise NotationError(f"rank {RANKS[rank]} has {file} squares instead of 9: {row!r}")


def _put(game: np.record, token: str, piece: int, square: int) -> None:
    black = token.isupper()
    if piece == KING and game.king[BLACK if black else WHITE] >= 0:
        raise NotationError(f"{'black' if black else 'white'} has two kings")
    place(game, BLACK if black else WHITE, square if black else 80 - square, np.int64(piece))


def _read_hands(game: np.record, text: str) -> None:
    if text == "-":
        return
    tokens = list(_HAND_TOKEN.finditer(text))
    if not tokens or "".join(token[0] for token in tokens) != text:
        raise NotationError(f"the hands {text!r} are unreadable; write - or pieces like 2Pb")
    for token in tokens:
        digits, letter = token.groups()
        if len(digits) > 2 or digits.startswith("0"):
            raise NotationError(f"{token[0]!r} is no number of pieces in hand")
        colour = BLACK if letter.isupper() else WHITE
        for _ in range(int(digits or 1)):
            gain(game, colour, HAND_LETTERS.index(letter.upper()))


def _check_possible(game: np.record) -> None:
    """Refuse positions that no sequence of legal moves could reach from a set of pieces."""
    if game.king[BLACK] < 0 and game.king[WHITE] < 0:
        raise NotationError("there is no king on the board")
    for piece in range(1, 8):
        on_board = int(np.sum(UNPROMOTED[np.abs(game.board[BLACK])] == piece))
        count = on_board + int(game.hands[:, piece - 1].sum())
        if count > PIECES_IN_A_SET[piece]:
            raise NotationError(f"{count} {LETTERS[piece]} are more than {PIECES_IN_A_SET[piece]}")
    for colour in (BLACK, WHITE):
        _check_pieces_of(game.board[colour], "black" if colour == BLACK else "white")
    mover = int(game.mover)
    target = int(game.king[1 - mover])
    sets = game.squares[1 - mover]
    if target >= 0 and is_attacked(target, sets[0], sets[1]):
        raise NotationError("the side that is not to move is in check")


def _check_pieces_of(board: np.ndarray, owner: str) -> None:
    pawns = np.sum(board.reshape(9, 9) == PAWN, axis=0)
    if pawns.max() > 1:
        raise NotationError(f"{owner} has two pawns on a file")
    stuck = {PAWN: FIRST_RANK, LANCE: FIRST_RANK, KNIGHT: FIRST_TWO_RANKS}
    for piece, ranks in stuck.items():
        if np.any(board[: ranks.bit_length()] == piece):
            raise NotationError(f"{owner} has a {LETTERS[piece]} that could never move")


def format_sfen(game: np.record, move_number: int) -> str:
    """The SFEN of a game record."""
    ranks = []
    for row in game.board[BLACK].reshape(9, 9):
        text = "".join(piece_letters(int(piece)) for piece in row)
        ranks.append(re.sub("1+", lambda run: str(len(run[0])), text))
    side = "b" if game.mover == BLACK else "w"
    return f"{'/'.join(ranks)} {side} {_format_hands(game.hands)} {move_number}"


def piece_letters(piece: int) -> str:
    """SFEN letters of a piece of black's view; "1" for an empty square."""
    if piece == 0:
        return "1"
    return LETTERS[piece] if piece > 0 else LETTERS[-piece].lower()


def _format_hands(hands: np.ndarray) -> str:
    text = ""
    for colour in (BLACK, WHITE):
        for letter in _HAND_ORDER:
            count = int(hands[colour, HAND_LETTERS.index(letter)])
            if count:
                text += (str(count) if count > 1 else "") + (
                    letter if colour == BLACK else letter.lower()
                )
    return text or "-"
