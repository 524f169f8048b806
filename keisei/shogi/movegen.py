"""All legal moves of the mover, as action numbers.

Small pieces are generated a direction at a time: the set of pieces that step that way is shifted
as a whole, and every bit that stays is a move. Sliders and pinned pieces go one by one.
"""

from __future__ import annotations

import numpy as np

from keisei.compiled.kernels import kernel
from keisei.shogi.attacks import (
    STEPS,
    attacked_by_opponent,
    between,
    is_attacked,
    piece_attacks,
    sliders_on_lines_of,
    step_checkers,
    without_lowest,
)
from keisei.shogi.bitboard import (
    DIRECTION_STEPS,
    DOWN,
    DOWN_LEFT,
    DOWN_RIGHT,
    HIGH_MASK,
    KNIGHT_LEFT,
    KNIGHT_RIGHT,
    LEFT,
    LINE_DIRECTION,
    LOW_MASK,
    LOW_SQUARES,
    RAYS,
    RIGHT,
    UP,
    UP_LEFT,
    UP_RIGHT,
    ZONE,
    contains,
    count_bits,
    lowest_bit,
    lowest_square,
    shift_down,
    shift_left,
    shift_right,
    shift_up,
)
from keisei.shogi.pieces import (
    ALL,
    BISHOPS,
    DRAGONS,
    GOLDS,
    HORSES,
    KING,
    KNIGHT,
    KNIGHTS,
    LANCE,
    LANCES,
    PAWN,
    PAWNS,
    PROMOTES_TO,
    ROOKS,
    SILVERS,
)
from keisei.shogi.position import BOARD_MOVES, make_move, unmake_move

PLAIN, PROMOTING = np.int64(0), np.int64(1)
EMPTY = np.int64(0)
NOWHERE = np.int64(-1)
FIRST_RANK = (1 << 9) - 1
FIRST_TWO_RANKS = (1 << 18) - 1


def _make_step_actions() -> np.ndarray:
    """[10, 81] int64: the action that steps in each direction onto each square, unpromoted."""
    actions = np.zeros((10, 81), np.int64)
    for direction, (ranks, files) in enumerate(DIRECTION_STEPS):
        for target in range(81):
            rank, file = target // 9 - ranks, target % 9 - files
            if 0 <= rank < 9 and 0 <= file < 9:
                origin = rank * 9 + file
                actions[direction, target] = 2 * (origin * 80 + target - (target > origin))
    return actions


def _make_stuck_ranks() -> np.ndarray:
    """[15] int64: the squares (all in the low word) on which each piece could never move again."""
    stuck = np.zeros(15, np.int64)
    stuck[PAWN] = stuck[LANCE] = FIRST_RANK
    stuck[KNIGHT] = FIRST_TWO_RANKS
    return stuck


STEP_ACTIONS = _make_step_actions()
STUCK = _make_stuck_ranks()


@kernel
def _emit_steps(legal, row, count, direction, low, high, promotes):
    """Append the one-step moves in `direction` onto every square of the set."""
    while low:
        legal[row, count] = STEP_ACTIONS[direction, lowest_bit(low)] + promotes
        count += 1
        low &= low - 1
    while high:
        legal[row, count] = STEP_ACTIONS[direction, LOW_SQUARES + lowest_bit(high)] + promotes
        count += 1
        high &= high - 1
    return count


@kernel
def _emit_from(legal, row, count, origin, low, high, promotes):
    """Append the moves from `origin` to every square of the set."""
    base = origin * 160 + promotes
    while low:
        target = lowest_bit(low)
        legal[row, count] = base + 2 * (target - (target > origin))
        count += 1
        low &= low - 1
    while high:
        target = LOW_SQUARES + lowest_bit(high)
        legal[row, count] = base + 2 * (target - (target > origin))
        count += 1
        high &= high - 1
    return count


@kernel
def _emit_drops(legal, row, count, kind, low, high):
    """Append the drops of `kind` on every square of the set."""
    base = BOARD_MOVES + kind
    while low:
        legal[row, count] = base + 7 * lowest_bit(low)
        count += 1
        low &= low - 1
    base += 7 * LOW_SQUARES
    while high:
        legal[row, count] = base + 7 * lowest_bit(high)
        count += 1
        high &= high - 1
    return count


@kernel
def _emit_piece(legal, row, count, piece, origin, low, high):
    """Append the moves of one piece to a set of targets, with and without promotion."""
    count = _emit_from(legal, row, count, origin, low & ~STUCK[piece], high, PLAIN)
    if PROMOTES_TO[piece]:
        if origin < 27:
            count = _emit_from(legal, row, count, origin, low, high, PROMOTING)
        else:
            count = _emit_from(legal, row, count, origin, low & ZONE, EMPTY, PROMOTING)
    return count


@kernel
def _small_piece_moves(legal, row, count, own, free_low, free_high, target_low, target_high):
    """Append the moves of the pawns, silvers, golds and knights in the set `free`."""
    pawns_low, pawns_high = own[PAWNS, 0] & free_low, own[PAWNS, 1] & free_high
    silvers_low, silvers_high = own[SILVERS, 0] & free_low, own[SILVERS, 1] & free_high
    golds_low, golds_high = own[GOLDS, 0] & free_low, own[GOLDS, 1] & free_high

    pawn_low, pawn_high = shift_up(pawns_low, pawns_high)
    pawn_low, pawn_high = pawn_low & target_low, pawn_high & target_high
    silver_low, silver_high = shift_up(silvers_low, silvers_high)
    gold_low, gold_high = shift_up(golds_low, golds_high)

    low = (silver_low | gold_low) & target_low | pawn_low & ~FIRST_RANK
    high = (silver_high | gold_high) & target_high | pawn_high
    count = _emit_steps(legal, row, count, UP, low, high, PLAIN)
    low = silver_low & target_low & ZONE | pawn_low & ZONE
    count = _emit_steps(legal, row, count, UP, low, EMPTY, PROMOTING)

    forward_low, forward_high = silver_low | gold_low, silver_high | gold_high
    low, high = shift_left(forward_low, forward_high)
    count = _emit_steps(legal, row, count, UP_LEFT, low & target_low, high & target_high, PLAIN)
    low, high = shift_right(forward_low, forward_high)
    count = _emit_steps(legal, row, count, UP_RIGHT, low & target_low, high & target_high, PLAIN)

    low, high = shift_left(golds_low, golds_high)
    count = _emit_steps(legal, row, count, LEFT, low & target_low, high & target_high, PLAIN)
    low, high = shift_right(golds_low, golds_high)
    count = _emit_steps(legal, row, count, RIGHT, low & target_low, high & target_high, PLAIN)
    low, high = shift_down(golds_low, golds_high)
    count = _emit_steps(legal, row, count, DOWN, low & target_low, high & target_high, PLAIN)

    back_low, back_high = shift_down(silvers_low, silvers_high)
    low, high = shift_left(back_low, back_high)
    count = _emit_steps(legal, row, count, DOWN_LEFT, low & target_low, high & target_high, PLAIN)
    low, high = shift_right(back_low, back_high)
    count = _emit_steps(legal, row, count, DOWN_RIGHT, low & target_low, high & target_high, PLAIN)

    # Silvers promote when they enter the zone, and when they leave it backwards from its ranks.
    low, high = shift_left(silver_low & ZONE, EMPTY)
    count = _emit_steps(legal, row, count, UP_LEFT, low & target_low, EMPTY, PROMOTING)
    low, high = shift_right(silver_low & ZONE, EMPTY)
    count = _emit_steps(legal, row, count, UP_RIGHT, low & target_low, EMPTY, PROMOTING)
    back_low, back_high = shift_down(silvers_low & ZONE, EMPTY)
    low, high = shift_left(back_low, back_high)
    count = _emit_steps(legal, row, count, DOWN_LEFT, low & target_low, EMPTY, PROMOTING)
    low, high = shift_right(back_low, back_high)
    count = _emit_steps(legal, row, count, DOWN_RIGHT, low & target_low, EMPTY, PROMOTING)

    knights_low, knights_high = own[KNIGHTS, 0] & free_low, own[KNIGHTS, 1] & free_high
    if knights_low | knights_high:
        low, high = shift_up(knights_low, knights_high)
        jump_low, jump_high = shift_up(low, high)
        low, high = shift_left(jump_low, jump_high)
        low, high = low & target_low, high & target_high
        count = _emit_steps(legal, row, count, KNIGHT_LEFT, low & ~FIRST_TWO_RANKS, high, PLAIN)
        count = _emit_steps(legal, row, count, KNIGHT_LEFT, low & ZONE, EMPTY, PROMOTING)
        low, high = shift_right(jump_low, jump_high)
        low, high = low & target_low, high & target_high
        count = _emit_steps(legal, row, count, KNIGHT_RIGHT, low & ~FIRST_TWO_RANKS, high, PLAIN)
        count = _emit_steps(legal, row, count, KNIGHT_RIGHT, low & ZONE, EMPTY, PROMOTING)
    return count


@kernel
def _slider_moves(legal, row, count, board, own, free_low, free_high, occupied, targets):
    """Append the moves of the lances, bishops, rooks, horses and dragons in the set `free`."""
    low = own[LANCES, 0] | own[BISHOPS, 0] | own[ROOKS, 0] | own[HORSES, 0] | own[DRAGONS, 0]
    high = own[LANCES, 1] | own[BISHOPS, 1] | own[ROOKS, 1] | own[HORSES, 1] | own[DRAGONS, 1]
    low, high = low & free_low, high & free_high
    while low | high:
        origin = lowest_square(low, high)
        low, high = without_lowest(low, high)
        piece = np.int64(board[origin])
        to_low, to_high = piece_attacks(piece, origin, occupied[0], occupied[1])
        to_low, to_high = to_low & targets[0], to_high & targets[1]
        count = _emit_piece(legal, row, count, piece, origin, to_low, to_high)
    return count


@kernel
def _pinned_moves(legal, row, count, board, king, pinned_low, pinned_high, occupied, targets):
    """Append the moves of pinned pieces: along the line between their king and the pinner."""
    while pinned_low | pinned_high:
        origin = lowest_square(pinned_low, pinned_high)
        pinned_low, pinned_high = without_lowest(pinned_low, pinned_high)
        piece = np.int64(board[origin])
        direction = np.int64(LINE_DIRECTION[king, origin])
        low, high = piece_attacks(piece, origin, occupied[0], occupied[1])
        low &= targets[0] & RAYS[direction, king + 1, 0]
        high &= targets[1] & RAYS[direction, king + 1, 1]
        count = _emit_piece(legal, row, count, piece, origin, low, high)
    return count


@kernel
def _pins_and_checkers(king, own, theirs, occupied_low, occupied_high):
    """(pinned low, high, checkers low, high): own pieces pinned, sliders that give check."""
    pinned_low = pinned_high = checkers_low = checkers_high = EMPTY
    low, high = sliders_on_lines_of(king, theirs)
    while low | high:
        slider = lowest_square(low, high)
        low, high = without_lowest(low, high)
        inner_low, inner_high = between(king, slider)
        inner_low, inner_high = inner_low & occupied_low, inner_high & occupied_high
        blockers = count_bits(inner_low) + count_bits(inner_high)
        if blockers == 0:
            if slider < LOW_SQUARES:
                checkers_low |= 1 << slider
            else:
                checkers_high |= 1 << (slider - LOW_SQUARES)
        elif blockers == 1:
            pinned_low |= inner_low & own[ALL, 0]
            pinned_high |= inner_high & own[ALL, 1]
    return pinned_low, pinned_high, checkers_low, checkers_high


@kernel
def _files_without_pawn(pawns_low, pawns_high):
    """(low, high): all squares of the files on which we have no unpromoted pawn."""
    files = pawns_low | (pawns_low >> 27) | pawns_high
    files = (files | (files >> 9) | (files >> 18)) & FIRST_RANK
    empty = files ^ FIRST_RANK
    three = empty | (empty << 9) | (empty << 18)
    return three | (three << 27), three


@kernel
def _drop_moves(legal, row, count, hand, own, low, high, mating_square):
    """Append the drops on the empty squares of the set; a pawn not on `mating_square`."""
    if hand[0]:
        file_low, file_high = _files_without_pawn(own[PAWNS, 0], own[PAWNS, 1])
        file_low, file_high = file_low & low & ~FIRST_RANK, file_high & high
        if mating_square >= LOW_SQUARES:
            file_high &= ~(1 << (mating_square - LOW_SQUARES))
        elif mating_square >= 0:
            file_low &= ~(1 << mating_square)
        count = _emit_drops(legal, row, count, PAWN - 1, file_low, file_high)
    if hand[1]:
        count = _emit_drops(legal, row, count, LANCE - 1, low & ~FIRST_RANK, high)
    if hand[2]:
        count = _emit_drops(legal, row, count, KNIGHT - 1, low & ~FIRST_TWO_RANKS, high)
    for kind in range(3, 7):
        if hand[kind]:
            count = _emit_drops(legal, row, count, kind, low, high)
    return count


@kernel
def _moves(game, legal, row, mating_square):
    """Write the legal moves, taking `mating_square` as the one forbidden pawn drop (-1: none)."""
    us = game.mover & 1
    own = game.squares[us, 0]
    theirs = game.squares[us, 1]
    board = game.board[us]
    occupied_low = own[ALL, 0] | theirs[ALL, 0]
    occupied_high = own[ALL, 1] | theirs[ALL, 1]
    target_low = LOW_MASK & ~own[ALL, 0]
    target_high = HIGH_MASK & ~own[ALL, 1]
    pinned_low = pinned_high = EMPTY
    count = np.int64(0)
    game.in_check = 0

    king = np.int64(game.king[us])
    if king >= 0:
        # The king does not shield the squares behind it from a slider.
        safe_low, safe_high = attacked_by_opponent(
            theirs, occupied_low & ~own[KING - 1, 0], occupied_high & ~own[KING - 1, 1]
        )
        checked = contains(safe_low, safe_high, king)
        safe_low = STEPS[KING, king, 0] & target_low & ~safe_low
        safe_high = STEPS[KING, king, 1] & target_high & ~safe_high
        count = _emit_from(legal, row, count, king, safe_low, safe_high, PLAIN)
        pinned_low, pinned_high, checkers_low, checkers_high = _pins_and_checkers(
            king, own, theirs, occupied_low, occupied_high
        )
        if checked:
            game.in_check = 1
            step_low, step_high = step_checkers(king, theirs)
            checkers_low, checkers_high = checkers_low | step_low, checkers_high | step_high
            if count_bits(checkers_low) + count_bits(checkers_high) > 1:
                return count
            inner_low, inner_high = between(king, lowest_square(checkers_low, checkers_high))
            target_low &= inner_low | checkers_low
            target_high &= inner_high | checkers_high
        elif pinned_low | pinned_high:
            # A pinned piece can never parry a check: it cannot leave its own line.
            count = _pinned_moves(
                legal,
                row,
                count,
                board,
                king,
                pinned_low,
                pinned_high,
                (occupied_low, occupied_high),
                (target_low, target_high),
            )

    free_low = ~pinned_low
    free_high = ~pinned_high
    count = _small_piece_moves(legal, row, count, own, free_low, free_high, target_low, target_high)
    count = _slider_moves(
        legal,
        row,
        count,
        board,
        own,
        free_low,
        free_high,
        (occupied_low, occupied_high),
        (target_low, target_high),
    )
    return _drop_moves(
        legal,
        row,
        count,
        game.hands[us],
        own,
        target_low & ~occupied_low,
        target_high & ~occupied_high,
        mating_square,
    )


@kernel
def _pawn_drop_that_checks(game):
    """The square where a pawn drop would check and the pawn be defended: perhaps forbidden."""
    us = game.mover & 1
    their_king = np.int64(game.king[1 - us])
    if game.hands[us, 0] == 0 or their_king < 9:  # no pawn, no king, or a king on our first rank
        return NOWHERE
    square = 89 - their_king
    if game.board[us, square] != 0:
        return NOWHERE
    own = game.squares[us, 0]
    low, high = _files_without_pawn(own[PAWNS, 0], own[PAWNS, 1])
    if not contains(low, high, square):
        return NOWHERE
    # A pawn that nothing defends can be taken by the king; that settles most cases cheaply.
    them = 1 - us
    if is_attacked(80 - square, game.squares[them, 0], game.squares[them, 1]):
        return square
    return NOWHERE


@kernel(entry=True)
def generate(game, legal, row):
    """Write the mover's legal actions to legal[row] and return how many; sets `in_check`.

    legal: [rows, 593] uint16.
    """
    mating_square = NOWHERE
    square = _pawn_drop_that_checks(game)
    if square >= 0:
        drop = BOARD_MOVES + 7 * square
        make_move(game, drop)
        if _moves(game, legal, row, NOWHERE) == 0:
            mating_square = square
        unmake_move(game, drop, EMPTY)
    return _moves(game, legal, row, mating_square)
