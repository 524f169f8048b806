"""Whether the mover can force mate with checks alone: a proof-number search, compiled.

The question always has a depth: mate within `left` plies. Positions with a depth form no cycles, so
a proof never rests on a repetition and needs no care for the path to it; asking for 1, 3, 5, ...
plies finds the shortest mate. Odd depths are the attacker's turn, even ones the defender's.
A position that the game has seen before counts as no mate, whatever follows: the fourth
occurrence would end the game.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from keisei.compiled.kernels import kernel
from keisei.play.checks import keep_checks
from keisei.play.mate_table import BIG, MATE_ENTRY, child_numbers, store_numbers
from keisei.shogi.judging import SEEN_BITS
from keisei.shogi.movegen import generate
from keisei.shogi.position import MAX_LEGAL_MOVES, make_move, unmake_move

PROVEN, DISPROVEN, NEVER, OPEN = range(4)
"""Answers of `prove`: mate within so many plies, none within so many plies, none at all, unknown
when the budget ran out."""
MOST_PLIES = 63
_DEFENDER_KEY = np.uint64(0x5851F42D4C957F2D)
_FIRST_ROW = np.int64(0)  # not literals: see the directions in `bitboard`
_SECOND_ROW = np.int64(1)


class MateRoom(NamedTuple):
    """The memory of one mate search; D levels of at most 593 moves."""

    table: np.ndarray  # [2 ** k] MATE_ENTRY
    counters: np.ndarray  # [2] int64: generation of the table's entries, nodes searched
    actions: np.ndarray  # [D, 593] uint16
    counts: np.ndarray  # [D] int64
    keys: np.ndarray  # [D, 593] uint64: of the positions after each action
    first_numbers: np.ndarray  # [D, 593] int64: proof number of a child that nobody has searched
    level_keys: np.ndarray  # [D] uint64
    chosen: np.ndarray  # [D, 2] int64: the child entered, the piece it captured
    limits: np.ndarray  # [D, 2] int64: proof and disproof number at which to go back up
    replies: np.ndarray  # [2, 593] uint16
    reach: np.ndarray  # [15, 2] int64


GENERATION, NODES = range(2)


def new_mate_room(table_bits: int) -> MateRoom:
    """Room for a mate search with 2 ** table_bits entries."""
    levels, moves = MOST_PLIES + 2, MAX_LEGAL_MOVES
    return MateRoom(
        table=np.zeros(1 << table_bits, MATE_ENTRY).view(np.recarray),
        counters=np.zeros(2, np.int64),
        actions=np.zeros((levels, moves), np.uint16),
        counts=np.zeros(levels, np.int64),
        keys=np.zeros((levels, moves), np.uint64),
        first_numbers=np.zeros((levels, moves), np.int64),
        level_keys=np.zeros(levels, np.uint64),
        chosen=np.zeros((levels, 2), np.int64),
        limits=np.zeros((levels, 2), np.int64),
        replies=np.zeros((2, moves), np.uint16),
        reach=np.zeros((15, 2), np.int64),
    )


@kernel
def _occurred(game, keys, row):
    """Whether the game had this position already, keys [B, M + 1] up to its ply."""
    bit = np.int64(game.key & np.uint64(SEEN_BITS - 1))
    if np.int64(game.seen[bit >> 3]) & (1 << (bit & 7)) == 0:
        return False
    found = False
    for ply in range(game.ply + 1):  # no early exit: the loop becomes SIMD
        found |= keys[row, ply] == game.key
    return found


@kernel
def _expand_attack(game, level, left, keys, row, room):
    """List the checks; one that mates at once stands alone."""
    found = generate(game, room.actions, level)
    count = keep_checks(game, room.actions, level, found, room.reach)
    for index in range(count):
        action = np.int64(room.actions[level, index])
        captured = make_move(game, action)
        replies = generate(game, room.replies, _FIRST_ROW)
        room.keys[level, index] = game.key ^ _DEFENDER_KEY
        room.first_numbers[level, index] = replies
        if replies and (left == 1 or _occurred(game, keys, row)):
            room.first_numbers[level, index] = BIG
        unmake_move(game, action, captured)
        if replies == 0:
            room.actions[level, 0] = action
            room.first_numbers[level, 0] = 0
            count = 1
            break
    room.counts[level] = count


@kernel
def _expand_defence(game, level, keys, row, room):
    """List the replies to a check."""
    count = generate(game, room.actions, level)
    for index in range(count):
        action = np.int64(room.actions[level, index])
        captured = make_move(game, action)
        room.keys[level, index] = game.key
        room.first_numbers[level, index] = BIG if _occurred(game, keys, row) else 1
        unmake_move(game, action, captured)
    room.counts[level] = count


@kernel
def _expand(game, level, left, keys, row, room):
    room.counters[NODES] += 1
    if left & 1:
        room.level_keys[level] = game.key
        _expand_attack(game, level, left, keys, row, room)
    else:
        room.level_keys[level] = game.key ^ _DEFENDER_KEY
        _expand_defence(game, level, keys, row, room)


@kernel
def _weigh(level, left, room):
    """(proof, disproof number, is final, best child, its other number, second best number).

    The attacker needs one child and the defender needs one: each goes by the lowest of its own
    numbers, and the other's numbers add up.
    """
    attacks = left & 1
    lowest = second = BIG
    total = other_of_best = best = np.int64(0)
    all_final, one_final = True, False
    for index in range(room.counts[level]):
        proof, disproof, final = child_numbers(
            room, room.keys[level, index], room.first_numbers[level, index], left - 1
        )
        own, other = (proof, disproof) if attacks else (disproof, proof)
        all_final &= final
        one_final |= final
        total = min(total + other, BIG)
        if own < lowest:
            lowest, second, best, other_of_best = own, lowest, np.int64(index), other
        elif own < second:
            second = own
    if attacks:
        return lowest, total, all_final, best, other_of_best, second
    return total, lowest, one_final, best, other_of_best, second


@kernel
def _enter_child(game, level, left, room, numbers, best, other_of_best, second):
    """Play the best child's move and set how far to pursue it."""
    proof, disproof = numbers
    own_side = 0 if left & 1 else 1
    own_limit, other_limit = room.limits[level, own_side], room.limits[level, 1 - own_side]
    total = disproof if left & 1 else proof
    # A quarter more than the second best: to and fro between equals costs more than it finds.
    room.limits[level + 1, own_side] = min(own_limit, second + 1 + (second >> 2))
    room.limits[level + 1, 1 - own_side] = other_limit - total + other_of_best
    action = np.int64(room.actions[level, best])
    room.chosen[level, 0] = action
    room.chosen[level, 1] = make_move(game, action)


@kernel
def prove(game, left, budget, keys, row, room):
    """Whether the attacker mates within `left` plies; leaves `game` as it was but for `in_check`.

    budget: nodes to search at most. keys: [B, M + 1], the game's history in `row`.
    """
    end = room.counters[NODES] + budget
    level = np.int64(0)
    room.limits[0, 0] = room.limits[0, 1] = BIG
    _expand(game, level, left, keys, row, room)
    while True:
        here = left - level
        proof, disproof, final, best, other_of_best, second = _weigh(level, here, room)
        exhausted = room.counters[NODES] >= end
        solved = proof == 0 or disproof == 0
        if solved or proof >= room.limits[level, 0] or disproof >= room.limits[level, 1]:
            store_numbers(room, room.level_keys[level], here, proof, disproof, final)
        elif not exhausted:
            _enter_child(game, level, here, room, (proof, disproof), best, other_of_best, second)
            level += 1
            _expand(game, level, here - 1, keys, row, room)
            continue
        if level == 0:
            if proof == 0:
                return PROVEN
            if disproof == 0:
                return NEVER if final else DISPROVEN
            return OPEN
        level -= 1
        unmake_move(game, room.chosen[level, 0], room.chosen[level, 1])


@kernel
def forget_proofs(room):
    """Begin with an empty table: another game, or another player attacks."""
    room.counters[GENERATION] += 1


@kernel
def quick_mate(game, most_plies, budget, keys, row, room):
    """Plies to the shortest mate found within the budget, 0 if none was."""
    forget_proofs(room)
    end = room.counters[NODES] + budget
    for left in range(1, most_plies + 1, 2):
        answer = prove(game, left, end - room.counters[NODES], keys, row, room)
        if answer == PROVEN:
            return np.int64(left)
        if answer != DISPROVEN or room.counters[NODES] >= end:
            return np.int64(0)
    return np.int64(0)


@kernel
def _mating_check(game, left, budget, keys, row, room):
    """Play a check that mates within `left` plies; (action, number of replies), -1 if none is."""
    count = generate(game, room.replies, _SECOND_ROW)
    count = keep_checks(game, room.replies, _SECOND_ROW, count, room.reach)
    for index in range(count):
        # `prove` and `generate` use the other row.
        action = np.int64(room.replies[1, index])
        captured = make_move(game, action)
        replies = generate(game, room.replies, _FIRST_ROW)
        if replies == 0:
            return action, replies
        provable = left > 1 and not _occurred(game, keys, row)
        if provable and prove(game, left - 1, budget, keys, row, room) == PROVEN:
            return action, replies
        unmake_move(game, action, captured)
    return np.int64(-1), np.int64(0)


@kernel
def _longest_reply(game, left, budget, keys, row, room):
    """Play the reply that holds out longest; (action, plies left until the mate after it)."""
    count = generate(game, room.replies, _SECOND_ROW)
    left -= 1
    while True:
        for index in range(count):
            action = np.int64(room.replies[1, index])
            captured = make_move(game, action)
            if left < 3 or prove(game, left - 2, budget, keys, row, room) != PROVEN:
                return action, left
            unmake_move(game, action, captured)
        left -= 2


@kernel
def mating_line(game, left, budget, keys, row, room, line):
    """Play out a mate that is proven within `left` plies, into line [D] int64; its length.

    0 when a budget of nodes for each of its moves was too small to find the line again.
    """
    length = 0
    while True:
        action, replies = _mating_check(game, left, budget, keys, row, room)
        if action < 0:
            return 0
        line[length] = action
        length += 1
        if replies == 0:
            return length
        line[length], left = _longest_reply(game, left - 1, budget, keys, row, room)
        length += 1
