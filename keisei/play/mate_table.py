"""The memory of a mate search: what is known of a position, for every depth."""

from __future__ import annotations

import numpy as np

from keisei.compiled.kernels import kernel

BIG = np.int64(1 << 30)
"""The number of what is settled the other way."""

MATE_ENTRY = np.dtype(
    [
        ("key", np.uint64),
        ("generation", np.int64),
        ("proof", np.int32),
        ("disproof", np.int32),
        ("left", np.int16),  # the depth that the two numbers are for
        ("proven", np.int16),  # mate within so many plies; `_NOT_PROVEN` if none is known
        ("disproven", np.int16),  # no mate within so many plies
        ("final", np.int16),  # 1: no mate within any number of plies
    ],
    align=True,
)
_NOT_PROVEN = 32767
_PROBES = 4


@kernel
def find_entry(room, key):
    """The place of a position in the table, -1 if it has none."""
    mask = len(room.table) - 1
    for probe in range(_PROBES):
        place = (np.int64(key & np.uint64(mask)) + probe) & mask
        entry = room.table[place]
        if entry.key == key and entry.generation == room.counters[0]:
            return place
    return -1


@kernel
def child_numbers(room, key, first_number, left):
    """(proof number, disproof number, is final) of a child, for mate within `left` plies.

    first_number: 0 for a mate, BIG for no mate, else what stands until the child is searched.
    """
    if first_number == 0:
        return np.int64(0), BIG, False
    if first_number == BIG:
        return BIG, np.int64(0), False
    place = find_entry(room, key)
    if place >= 0:
        entry = room.table[place]
        if entry.proven <= left:
            return np.int64(0), BIG, False
        if entry.final or entry.disproven >= left:
            return BIG, np.int64(0), entry.final == 1
        if entry.left == left:
            return np.int64(entry.proof), np.int64(entry.disproof), False
    return first_number, np.int64(1), False


@kernel
def _place_for(room, key):
    """Where to keep a position: its own place, an old one, else the first that is not solved."""
    mask = len(room.table) - 1
    first = np.int64(key & np.uint64(mask))
    chosen = first
    for probe in range(_PROBES):
        place = (first + probe) & mask
        entry = room.table[place]
        if entry.generation != room.counters[0]:
            chosen = place
            break
        if entry.proven == _NOT_PROVEN:
            chosen = place
    entry = room.table[chosen]
    entry.key = key
    entry.generation = room.counters[0]
    entry.left = entry.final = 0
    entry.disproven = 0
    entry.proven = _NOT_PROVEN
    return chosen


@kernel
def store_numbers(room, key, left, proof, disproof, final):
    """Keep what a search for mate within `left` plies found."""
    place = find_entry(room, key)
    if place < 0:
        place = _place_for(room, key)
    entry = room.table[place]
    if proof == 0:
        entry.proven = min(entry.proven, left)
    elif disproof == 0:
        entry.disproven = max(entry.disproven, left)
        if final:
            entry.final = 1
    else:
        entry.left = left
        entry.proof = proof
        entry.disproof = disproof
