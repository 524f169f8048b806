"""Feature sets: what a network sees of compact positions, expanded by torch on any device.

A feature set turns positions [B, 100] int8 (see `batch.POSITION_BYTES`) into planes [B, C, 9, 9] in
the mover's view. Planes of pieces are ordered by piece number, those of hands P L N S G B R.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from keisei.shogi.attacks import SLIDE_DIRECTIONS, STEP_DIRECTIONS
from keisei.shogi.batch import COLOUR, IN_CHECK, OWN_HAND, PLY_HIGH, PLY_LOW, REPETITIONS
from keisei.shogi.bitboard import DIRECTION_STEPS
from keisei.shogi.pieces import PIECES_IN_A_SET
from keisei.shogi.plane_kernel import (
    WORD_BITS,
    write_even_planes,
    write_planes,
    write_square_sets,
)
from keisei.shogi.tactics import (
    Looks,
    Sight,
    TacticsTables,
    look_back,
    tactics_of,
    tactics_tables,
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

# The ways a square looks for its attackers: one step in each direction, then along the rays, which
# are the directions without the knights' jumps.
_STEPS, _RAYS = len(DIRECTION_STEPS), 8
_NO_BIT = 62  # of a set of squares: 62 planes at most show something of each square

_SCALES = np.array([*HAND_SIZES, *HAND_SIZES, 1, PLY_SCALE, REPETITIONS_SCALE, 1], np.float32)
_UNARY_KINDS = np.repeat(np.arange(len(HAND_SIZES)), UNARY_SIZES)
_UNARY_LEVELS = np.concatenate([np.arange(1, size + 1) for size in UNARY_SIZES])
_UNARY = (  # [56] each: 0-6 a kind in the own hand, 7-13 in theirs; at least so many
    np.concatenate([_UNARY_KINDS, len(HAND_SIZES) + _UNARY_KINDS]),
    np.tile(_UNARY_LEVELS, 2),
)


class Expand(Protocol):
    """Turns positions [B, 100] int8 into planes [B, C, 9, 9] of `dtype` on the same device."""

    def __call__(self, positions: Tensor, *, dtype: torch.dtype = torch.float32) -> Tensor:
        """Expand `positions`."""


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
    num_planes: int
    expand: Expand
    square_planes: NDArray[np.int64]
    """The planes that say something of each square, 0 or 1."""
    even_planes: NDArray[np.int64]
    """Those that are alike on all squares."""
    depth: int = 0

    @property
    def words(self) -> int:
        """How many words hold the bits of a square."""
        return -(-len(self.square_planes) // WORD_BITS)

    def sparse(self, positions: NDArray[np.int8]) -> SparsePlanes:
        """The planes of positions [B, 100] as sets of bits, in microseconds."""
        sets = np.empty((len(positions), 81, self.words), np.int64)
        even = np.empty((len(positions), len(self.even_planes)), np.float32)
        write_square_sets(positions, self.depth, sets)
        write_even_planes(positions, _SCALES, *_UNARY, even)
        return SparsePlanes(sets, even)


def feature_set(name: str) -> FeatureSet:
    """The feature set called `name`."""
    if name not in FEATURE_SETS:
        raise ValueError(f"no feature set is called {name!r}; choose from {list(FEATURE_SETS)}")
    return FEATURE_SETS[name]


def expand_core46(positions: Tensor, *, dtype: torch.dtype = torch.float32) -> Tensor:
    """Pieces, hands, colour, ply, earlier occurrences and check: [B, 46, 9, 9]."""
    return _expanded(positions, CORE46, dtype)


def expand_attack(positions: Tensor, *, dtype: torch.dtype = torch.float32) -> Tensor:
    """core46, what each kind attacks, how many attack a square, unary hands: [B, 136, 9, 9]."""
    return _expanded(positions, ATTACK, dtype)


def expand_tactics(positions: Tensor, *, dtype: torch.dtype = torch.float32) -> Tensor:
    """attack, and what is about to happen on each square: [B, 176, 9, 9]."""
    return _expanded(positions, TACTICS, dtype)


def _expanded(positions: Tensor, features: FeatureSet, dtype: torch.dtype) -> Tensor:
    """[B, C, 9, 9] of `dtype`; in memory the channels come last."""
    if kernels_can_read(positions) and dtype in _BITS:
        return _expand_in_memory(positions, features, dtype)
    tables = _tables(positions.device, features.name)
    words, even = [_pieces(positions)], _scalars(positions, tables)
    if features.depth >= 1:
        sight = _sight(positions, tables)
        words[0] = words[0] | _attacks(sight)
        even = torch.cat([even, _unary_hands(positions, tables)], dim=1)
        if features.depth >= 2:
            words.append(tactics_of(sight, positions, tables.looks, tables.tactics))
    # One sum for all planes: a GPU takes long to find out which part a plane comes from.
    planes = (even.index_select(1, tables.columns) * tables.is_even).unsqueeze(1)
    for word, bits in zip(words, tables.bits, strict=True):
        planes = planes + word.unsqueeze(2).bitwise_right_shift(bits).bitwise_and(1)
    planes = planes.to(dtype)
    return planes.view(-1, 9, 9, features.num_planes).permute(0, 3, 1, 2)


def kernels_can_read(tensor: Tensor) -> bool:
    """Whether a tensor is in the memory of kernels, and not just traced."""
    return tensor.device.type == "cpu" and not torch.compiler.is_compiling()


_BITS = {  # types that a kernel can write, as what, and their one: it copies the bits of bfloat16
    torch.bfloat16: (torch.uint16, np.uint16(0x3F80)),
    torch.float32: (torch.float32, np.float32(1)),
}


def _expand_in_memory(positions: Tensor, features: FeatureSet, dtype: torch.dtype) -> Tensor:
    """The same by kernels, ten times as fast and more; in memory the channels come last."""
    bits, one = _BITS[dtype]
    planes = torch.empty(len(positions), 81, features.num_planes, dtype=bits)
    sparse = features.sparse(positions.numpy())
    even = torch.from_numpy(sparse.even).to(dtype).view(bits).numpy()
    write_planes(
        sparse.sets, even, features.square_planes, features.even_planes, one, planes.numpy()
    )
    return planes.view(dtype).view(-1, 9, 9, features.num_planes).permute(0, 3, 1, 2)


CORE46 = FeatureSet(
    "core46",
    CORE46_PLANES,
    expand_core46,
    np.arange(OWN_HAND_COUNTS),
    np.arange(OWN_HAND_COUNTS, CORE46_PLANES),
)
ATTACK = FeatureSet(
    "attack",
    ATTACK_PLANES,
    expand_attack,
    np.r_[:OWN_HAND_COUNTS, OWN_ATTACKS:OWN_UNARY_HAND],
    np.r_[OWN_HAND_COUNTS:CORE46_PLANES, OWN_UNARY_HAND:ATTACK_PLANES],
    1,
)
TACTICS = FeatureSet(
    "tactics",
    TACTICS_PLANES,
    expand_tactics,
    np.r_[ATTACK.square_planes, ATTACK_PLANES:TACTICS_PLANES],
    ATTACK.even_planes,
    2,
)
FEATURE_SETS = {features.name: features for features in (CORE46, ATTACK, TACTICS)}


def _pieces(positions: Tensor) -> Tensor:
    """Where the pieces of both sides stand: [B, 81] int64, bits of `SparsePlanes.sets`."""
    board = positions[:, :OWN_HAND].long()
    own_bit, their_bit = board - 1, NUM_PIECES - 1 - board
    return (board != 0).long().bitwise_left_shift(torch.where(board > 0, own_bit, their_bit))


def _attacks(sight: Sight) -> Tensor:
    """What attacks each square, and how many: [B, 81] int64, bits of `SparsePlanes.sets`."""
    kinds, attackers = (_in_movers_view(said).long() for said in (sight.kinds, sight.attackers))
    levels = torch.zeros_like(attackers)
    for bit, level in enumerate(ATTACKER_LEVELS):
        levels = levels | (attackers >= level).long() << bit
    sets, bit = torch.zeros_like(kinds[:, 0]), 2 * NUM_PIECES
    for of_both_sides, size in ((kinds >> 1, NUM_PIECES), (levels, len(ATTACKER_LEVELS))):
        for side in of_both_sides.unbind(1):
            sets, bit = sets | side << bit, bit + size
    return sets


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


def _sight(positions: Tensor, tables: _Tables) -> Sight:
    """What each square sees, which kinds attack it, and how many pieces.

    Each square looks back along each direction, at the piece one step away and at the first piece
    in sight, and is attacked by it if it moves that way.
    """
    board = positions[:, :OWN_HAND].t()
    views = torch.stack([board, -board.flip(0)], dim=1)  # [81, 2, B]
    steps, slides = look_back(views, tables.looks)
    kinds = attackers = torch.zeros_like(views, dtype=torch.int16)
    for seen, movers in zip([*steps, *slides], _KINDS_BY_LOOK, strict=True):
        own = seen.clamp(min=0).short()  # 0 means nothing, which no bit of `movers` stands for
        hit = torch.ones_like(own).bitwise_left_shift(own).bitwise_and(movers)
        kinds, attackers = kinds | hit, attackers + (hit != 0)
    return Sight(views, steps, slides, kinds, attackers)


def _in_movers_view(squares: Tensor) -> Tensor:
    """Squares [81, 2, B] in each side's own view as the mover sees them: [B, 2, 81]."""
    own, theirs = squares.unbind(1)
    return torch.stack([own, theirs.flip(0)]).permute(2, 0, 1)


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
    looks: Looks
    tactics: TacticsTables


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
        looks=Looks(
            one_step_back=constant(_rows_back(_STEPS, 1, board_rows=0)),
            further_back=tuple(constant(_rows_back(_RAYS, n, board_rows=81)) for n in (1, 2, 4)),
        ),
        tactics=tactics_tables(device),
    )


def _rows_back(directions: int, distance: int, *, board_rows: int) -> list[int]:
    """For each direction and square, the row of the square `distance` steps back.

    The boards of the directions begin `board_rows` apart; 0 means that they share one board.
    """
    off_board = max(81, directions * board_rows)
    rows = []
    for direction, (ranks, files) in enumerate(DIRECTION_STEPS[:directions]):
        for square in range(81):
            rank, file = square // 9 - distance * ranks, square % 9 - distance * files
            on_board = 0 <= rank < 9 and 0 <= file < 9
            rows.append(direction * board_rows + rank * 9 + file if on_board else off_board)
    return rows


def _kinds_by_look() -> list[int]:
    """For each look the kinds that attack that way, bit n for piece n."""
    kinds = [0] * (_STEPS + _RAYS)
    for first_look, directions_of in ((0, STEP_DIRECTIONS), (_STEPS, SLIDE_DIRECTIONS)):
        for piece, directions in directions_of.items():
            for direction in directions:
                kinds[first_look + int(direction)] |= 1 << int(piece)
    return kinds


_KINDS_BY_LOOK = _kinds_by_look()
