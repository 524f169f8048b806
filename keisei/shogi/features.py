"""Feature sets: what a network sees of compact positions, expanded on any device.

A feature set turns positions [B, 100] int8 (see `batch.POSITION_BYTES`) into planes [B, C, 9, 9] in
the mover's view. Planes of pieces are ordered by piece number, those of hands P L N S G B R.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from keisei.shogi.batch import COLOUR, IN_CHECK, OWN_HAND, PLY_HIGH, PLY_LOW, REPETITIONS
from keisei.shogi.pieces import PIECES_IN_A_SET
from keisei.shogi.plane_kernel import (
    WORD_BITS,
    Expansion,
    write_planes,
    write_sparse_planes,
    write_square_sets,
    write_square_sets_in_parallel,
)
from keisei.shogi.tactics_kernel import TACTICS_BITS

NUM_PIECES = 14
HAND_SIZES = PIECES_IN_A_SET[1:8]
"""The most a hand can hold of each kind."""
UNARY_SIZES = (8, *HAND_SIZES[1:])
"""How far the unary planes of each kind count: more pawns than 8 look like 8."""
ATTACKER_LEVELS = (1, 2, 3)
PLY_SCALE, REPETITIONS_SCALE = 512, 3

# The first plane of each group.
OWN_PIECES = 0
THEIR_PIECES = OWN_PIECES + NUM_PIECES
OWN_HAND_COUNTS = THEIR_PIECES + NUM_PIECES
THEIR_HAND_COUNTS = OWN_HAND_COUNTS + len(HAND_SIZES)
COLOUR_PLANE = THEIR_HAND_COUNTS + len(HAND_SIZES)
PLY_PLANE, REPETITIONS_PLANE, IN_CHECK_PLANE = range(COLOUR_PLANE + 1, COLOUR_PLANE + 4)
CORE46_PLANES = IN_CHECK_PLANE + 1

OWN_ATTACKS = CORE46_PLANES
THEIR_ATTACKS = OWN_ATTACKS + NUM_PIECES
OWN_ATTACKER_LEVELS = THEIR_ATTACKS + NUM_PIECES
THEIR_ATTACKER_LEVELS = OWN_ATTACKER_LEVELS + len(ATTACKER_LEVELS)
OWN_UNARY_HAND = THEIR_ATTACKER_LEVELS + len(ATTACKER_LEVELS)
THEIR_UNARY_HAND = OWN_UNARY_HAND + sum(UNARY_SIZES)
ATTACK_PLANES = THEIR_UNARY_HAND + sum(UNARY_SIZES)
TACTICS_PLANES = ATTACK_PLANES + TACTICS_BITS

_MANY_POSITIONS = 256
_NO_BIT = WORD_BITS  # of a set of squares
_SCALES = np.array([*HAND_SIZES, *HAND_SIZES, 1, PLY_SCALE, REPETITIONS_SCALE, 1], np.float32)
_UNARY_KINDS = np.repeat(np.arange(len(HAND_SIZES)), UNARY_SIZES)
_UNARY_LEVELS = np.concatenate([np.arange(1, size + 1) for size in UNARY_SIZES])
_UNARY = (  # [56] each: 0-6 a kind in the own hand, 7-13 in theirs; at least so many
    np.concatenate([_UNARY_KINDS, len(HAND_SIZES) + _UNARY_KINDS]),
    np.tile(_UNARY_LEVELS, 2),
)


class SparsePlanes(NamedTuple):
    """The planes of B positions, most of which are 0: see `plane_kernel`."""

    sets: NDArray[np.int64]
    """[B, 81, W]: bit n of word w says whether `square_planes`[62 w + n] is 1 on a square."""
    even: NDArray[np.float32]
    """[B, E]: what `even_planes` say."""


@dataclass(frozen=True)
class FeatureSet:
    """One way to show positions to a network."""

    name: str
    detail: int
    """How much the sets of squares tell: see `write_square_sets`."""
    num_planes: int
    square_planes: NDArray[np.int64]
    """The planes that say something of each square, 0 or 1."""
    even_planes: NDArray[np.int64]
    """Those that are alike on all squares."""

    @property
    def words(self) -> int:
        """How many words hold the bits of a square."""
        return -(-len(self.square_planes) // WORD_BITS)

    def expand(
        self,
        positions: Tensor,
        sets: Tensor | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> Tensor:
        """Planes [B, C, 9, 9] of `dtype` of positions [B, 100], where these are.

        In memory the channels come last. sets: what `sets_of` says of the positions, there too, if
        that is known; a compiled function cannot find it out.
        """
        if kernels_can_read(positions) and dtype in _BITS:
            return self._expand_in_memory(positions, dtype)
        tables = _tables(positions.device, self.name)
        even = _scalars(positions, tables)
        if len(self.even_planes) > len(_SCALES):
            even = torch.cat([even, _unary_hands(positions, tables)], dim=1)
        # One sum for all planes: a GPU takes long to find out which part a plane comes from.
        planes = (even.index_select(1, tables.columns) * tables.is_even).unsqueeze(1)
        if sets is None:
            sets = self.sets_of(positions.cpu().numpy()).to(positions.device)
        for word, bits in zip(sets.unbind(2), tables.bits, strict=True):
            planes = planes + word.unsqueeze(2).bitwise_right_shift(bits).bitwise_and(1)
        return planes.to(dtype).view(-1, 9, 9, self.num_planes).permute(0, 3, 1, 2)

    def sets_of(self, positions: NDArray[np.int8]) -> Tensor:
        """[B, 81, W] int64: the sets of `SparsePlanes` of positions [B, 100]."""
        sets = np.empty((len(positions), 81, self.words), np.int64)
        self.write_sets(positions, sets)
        return torch.from_numpy(sets)

    def write_sets(self, positions: NDArray[np.int8], sets: NDArray[np.int64]) -> None:
        """Set sets [B, 81, W], for many positions by as many threads as Numba has for this one."""
        shared_out = len(positions) >= _MANY_POSITIONS and numba.get_num_threads() > 1
        write = write_square_sets_in_parallel if shared_out else write_square_sets
        write(positions, self.detail, sets)

    @property
    def expansion(self) -> Expansion:
        """The same for kernels."""
        return Expansion(self.detail, self.words, len(self.even_planes), _SCALES, *_UNARY)

    def sparse(self, positions: NDArray[np.int8]) -> SparsePlanes:
        """The planes of positions [B, 100] as sets of bits, in microseconds."""
        sets = np.empty((len(positions), 81, self.words), np.int64)
        even = np.empty((len(positions), len(self.even_planes)), np.float32)
        write_sparse_planes(positions, self.expansion, sets, even)
        return SparsePlanes(sets, even)

    def _expand_in_memory(self, positions: Tensor, dtype: torch.dtype) -> Tensor:
        """All of it by kernels."""
        bits, one = _BITS[dtype]
        planes = torch.empty(len(positions), 81, self.num_planes, dtype=bits)
        sparse = self.sparse(positions.numpy())
        even = torch.from_numpy(sparse.even).to(dtype).view(bits).numpy()
        write_planes(sparse.sets, even, self.square_planes, self.even_planes, one, planes.numpy())
        return planes.view(dtype).view(-1, 9, 9, self.num_planes).permute(0, 3, 1, 2)


def feature_set(name: str) -> FeatureSet:
    """The feature set called `name`."""
    if name not in FEATURE_SETS:
        raise ValueError(f"no feature set is called {name!r}; choose from {list(FEATURE_SETS)}")
    return FEATURE_SETS[name]


def kernels_can_read(tensor: Tensor) -> bool:
    """Whether a tensor is in the memory of kernels, and not just traced."""
    return tensor.device.type == "cpu" and not torch.compiler.is_compiling()


_BITS = {  # types that a kernel can write, as what, and their one: it copies the bits of bfloat16
    torch.bfloat16: (torch.uint16, np.uint16(0x3F80)),
    torch.float32: (torch.float32, np.float32(1)),
}


CORE46 = FeatureSet(
    "core46",
    0,
    CORE46_PLANES,
    np.arange(OWN_HAND_COUNTS),
    np.arange(OWN_HAND_COUNTS, CORE46_PLANES),
)
"""Pieces, hands, colour, ply, earlier occurrences and check."""
ATTACK = FeatureSet(
    "attack",
    1,
    ATTACK_PLANES,
    np.r_[:OWN_HAND_COUNTS, OWN_ATTACKS:OWN_UNARY_HAND],
    np.r_[OWN_HAND_COUNTS:CORE46_PLANES, OWN_UNARY_HAND:ATTACK_PLANES],
)
"""And what each kind attacks, how many attack a square, unary hands."""
TACTICS = FeatureSet(
    "tactics",
    2,
    TACTICS_PLANES,
    np.r_[ATTACK.square_planes, ATTACK_PLANES:TACTICS_PLANES],
    ATTACK.even_planes,
)
"""And what is about to happen on each square: see `tactics_kernel`."""
FEATURE_SETS = {features.name: features for features in (CORE46, ATTACK, TACTICS)}


def _scalars(positions: Tensor, tables: _Tables) -> Tensor:
    """Hands, colour, ply, earlier occurrences and check, scaled to at most 1: [B, 18] float."""
    low, high = (positions[:, PLY_LOW : PLY_HIGH + 1].int() & 255).unbind(1)
    ply = (low + 256 * high).clamp(max=PLY_SCALE).unsqueeze(1)
    hands_and_colour = positions[:, OWN_HAND : COLOUR + 1]
    repetitions, in_check = (positions[:, byte : byte + 1] for byte in (REPETITIONS, IN_CHECK))
    scalars = torch.cat([hands_and_colour, ply, repetitions, in_check], dim=1)
    return scalars.div(tables.scales)


def _unary_hands(positions: Tensor, tables: _Tables) -> Tensor:
    """Whether a side holds at least 1, 2, ... of each kind: [B, 56] bool."""
    held = positions[:, OWN_HAND:COLOUR].index_select(1, tables.unary_slots)
    return torch.ge(held, tables.unary_levels)


class _Tables(NamedTuple):
    """The constants of the expansion of a feature set, on one device.

    A plane shows a bit of the squares' sets, or a column of what is alike on all squares.
    """

    bits: tuple[Tensor, ...]  # [C] for each word
    columns: Tensor  # [C]
    is_even: Tensor  # [C] 1, or 0 for a plane of bits
    scales: Tensor  # [18]
    unary_slots: Tensor  # [56]
    unary_levels: Tensor  # [56]


def _tables(device: torch.device, name: str) -> _Tables:
    return _make_tables(device, name)


# Dynamo traces through `functools.cache`: a compiled graph would make the tables, and copy them to
# the GPU, in every call. The mark makes them constants of the graph. It is all that
# `torch.compiler.assume_constant_result` sets, but that imports Dynamo: 0.9 s and 70 MB in each
# process that only plays.
_tables._dynamo_marked_constant = True  # type: ignore[attr-defined]


@cache
def _make_tables(device: torch.device, name: str) -> _Tables:
    features = FEATURE_SETS[name]
    bits = np.full((features.words, features.num_planes), _NO_BIT)
    number = np.arange(len(features.square_planes))
    bits[number // WORD_BITS, features.square_planes] = number % WORD_BITS
    columns = np.zeros(features.num_planes, np.int64)
    columns[features.even_planes] = np.arange(len(features.even_planes))

    def constant(numbers: Sequence[int] | NDArray[Any], dtype: torch.dtype = torch.int64) -> Tensor:
        return torch.tensor(numbers, dtype=dtype, device=device)

    return _Tables(
        bits=tuple(constant(of_word) for of_word in bits),
        columns=constant(columns),
        is_even=constant((bits == _NO_BIT).all(0), torch.float32),
        scales=constant(_SCALES, torch.float32),
        unary_slots=constant(_UNARY[0]),
        unary_levels=constant(_UNARY[1], torch.int8),
    )
