"""The planes of `tactics_kernel` by torch, for positions on a GPU.

Tensors [81, 2, B] are of both sides in their own views, the mover's first; the batch comes last, so
that a look copies whole rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from keisei.shogi.attacks import SLIDE_DIRECTIONS, STEP_DIRECTIONS
from keisei.shogi.batch import COLOUR, OWN_HAND
from keisei.shogi.bitboard import DIRECTION_STEPS, KNIGHT_LEFT, KNIGHT_RIGHT, OPPOSITE, step_from
from keisei.shogi.pieces import BISHOP, GOLD, KING, KNIGHT, LANCE, PAWN, ROOK, SILVER
from keisei.shogi.tactics_kernel import FORKING, GAINS, MATING, SLIDERS_TO, VALUES

# Python's numbers and not NumPy's, which tracing would make tensors of.
_DIRECTIONS = 8
_KING, _KNIGHT = int(KING), int(KNIGHT)
_HAND_KINDS = tuple(map(int, (PAWN, LANCE, KNIGHT, SILVER, GOLD, BISHOP, ROOK)))
_FORKING = tuple(map(int, FORKING))
_VALUES: list[int] = VALUES.tolist()
_SLIDERS_TO: list[int] = SLIDERS_TO.tolist()
_OPPOSITE = tuple(map(int, OPPOSITE))
_STEPS_OF, _SLIDES_OF = (
    {
        kind: tuple(int(direction) for direction in directions.get(kind, ()))
        for kind in _HAND_KINDS
    }
    for directions in (STEP_DIRECTIONS, SLIDE_DIRECTIONS)
)
_UNKNOWN = 64  # no piece and no value
_BUT_KING = ~(1 << _KING)

class TacticsTables(NamedTuple):
    """Constants, on one device."""

    values: Tensor  # [15] int16
    mating: Tensor  # [2 * 8 * 256] int16
    zone: Tensor  # [81, 1, 1] int16: 8 * 256 where the opponent's pieces promote
    hand_bits: Tensor  # [7] int16
    jumps: tuple[Tensor, Tensor]  # [81] each: rows of one board, a knight's jump ahead


def tactics_tables(device: torch.device) -> TacticsTables:
    """Those constants."""

    def constant(numbers: object, dtype: torch.dtype = torch.int16) -> Tensor:
        return torch.tensor(numbers, dtype=dtype, device=device)

    def jump(direction: np.int64) -> Tensor:
        targets = [step_from(square, direction) for square in range(81)]
        return constant([81 if target < 0 else target for target in targets], torch.int64)

    zone = (np.arange(81) // 9 >= 6) * _DIRECTIONS * 256
    return TacticsTables(
        values=constant(VALUES),
        mating=constant(MATING.reshape(-1)),
        zone=constant(zone[:, None, None]),
        hand_bits=constant([0, *(1 << piece for piece in _HAND_KINDS[1:])]),
        jumps=(jump(KNIGHT_LEFT), jump(KNIGHT_RIGHT)),
    )


class Sight(NamedTuple):
    """What is seen of B positions."""

    views: Tensor
    """[81, 2, B] int8: the board."""
    steps: Tensor
    """[10, 81, 2, B] int8: the piece one step back in each direction."""
    slides: Tensor
    """[8, 81, 2, B]: the first piece back in each direction."""
    kinds: Tensor
    """[81, 2, B] int16: which own pieces attack each square, bit n for piece n."""
    attackers: Tensor
    """[81, 2, B] int16: how many."""


class Looks(NamedTuple):
    """Where a square finds others, as numbers of rows; the number after the last means nothing."""

    one_step_back: Tensor
    """[10 * 81], of one board."""
    further_back: tuple[Tensor, ...]
    """[8 * 81] for 1, 2 and 4 steps, of 8 boards."""


def tactics_of(sight: Sight, positions: Tensor, looks: Looks, tables: TacticsTables) -> Tensor:
    """[B, 81] int64: the bits of `write_tactics`."""
    views = sight.views
    theirs, their_count = sight.kinds.flip((0, 1)), sight.attackers.flip((0, 1))
    piece, attacked = views.clamp(min=0).long(), their_count > 0
    goes = (views <= 0) & ~attacked
    mates = _mates(sight, positions, goes, theirs, their_count, looks, tables)
    groups = [
        _checks(sight, looks, tables),
        [_shields(sight)],
        [_beside_king(sight) & goes],
        _losses(sight, piece, theirs, their_count, tables),
        _forks(sight, attacked, looks, tables),
        [plane.flip((0, 1)) for plane in mates],
        [_xrays(sight, looks)],
    ]
    own, their = (torch.zeros_like(piece[:, 0]) for _ in range(2))
    bit = 0
    for planes in groups:
        for number, plane in enumerate(planes):
            own = own | plane[:, 0].long() << (bit + number)
            their = their | plane[:, 1].long() << (bit + len(planes) + number)
        bit += 2 * len(planes)
    return (own | their.flip(0)).t()


def _ahead(seen: Tensor, direction: int) -> Tensor:
    """What is ahead of each square in a direction, of what is back in each of them."""
    return seen[_OPPOSITE[direction]]


def _sees(kind: int, steps: Tensor, slides: Tensor, jumps: list[Tensor]) -> list[Tensor]:
    """What an own piece of a kind would attack from each square, a tensor for each direction."""
    if kind == _KNIGHT:
        return jumps
    steps_of = [_ahead(steps, d) for d in _STEPS_OF[kind]]
    return steps_of + [_ahead(slides, d) for d in _SLIDES_OF[kind]]


def _checks(sight: Sight, looks: Looks, tables: TacticsTables) -> list[Tensor]:
    jumps = [rows_of(sight.views, there) for there in tables.jumps]
    planes = []
    for kind in _HAND_KINDS:
        seen = _sees(kind, sight.steps, sight.slides, jumps)
        planes.append(torch.stack([piece == -_KING for piece in seen]).any(0))
    return planes


def _shields(sight: Sight) -> Tensor:
    """Either side's pieces that stand alone between the own king and a slider of theirs."""
    found = torch.zeros_like(sight.views, dtype=torch.bool)
    for direction in range(_DIRECTIONS):
        king_behind = sight.slides[direction] == _KING
        slider = (-_ahead(sight.slides, direction)).clamp(min=0).short()
        slides = (slider > 0) & ((_SLIDERS_TO[direction] >> slider) & 1 > 0)
        found = found | (king_behind & slides)
    return found & (sight.views != 0)


def _beside_king(sight: Sight) -> Tensor:
    return (sight.steps[:_DIRECTIONS] == _KING).any(0)


def _losses(
    sight: Sight, piece: Tensor, theirs: Tensor, their_count: Tensor, tables: TacticsTables
) -> list[Tensor]:
    victim = _looked_up(tables.values, piece)
    taker, taken_back = _least(theirs), _least(sight.kinds)
    zero = torch.zeros_like(taker)
    last = torch.where(sight.attackers >= 2, taker, zero)
    taken_back = torch.where(their_count >= 2, (taken_back - last).clamp(min=0), zero)
    price = torch.where(sight.attackers >= 1, (taker - taken_back).clamp(min=0), zero)
    in_danger = (piece > 0) & (piece != _KING) & (their_count > 0)
    gain = torch.where(in_danger, victim - price, zero)
    return [gain >= level for level in GAINS]


def _least(kinds: Tensor) -> Tensor:
    """The value of the least of some kinds, bit n for piece n."""
    by_value: dict[int, int] = {}
    for piece in range(1, 15):
        value = _VALUES[piece]
        by_value[value] = by_value.get(value, 0) | 1 << piece
    least = torch.zeros_like(kinds)
    for value in sorted(by_value, reverse=True):
        least = torch.where((kinds & by_value[value]) != 0, value, least)
    return least


def _forks(
    sight: Sight, attacked: Tensor, looks: Looks, tables: TacticsTables
) -> list[Tensor]:
    """Where an own piece would attack two that are worth it: a king, undefended, or worth more."""
    views = sight.views
    victim = (-views).clamp(min=0).long()
    worth = _looked_up(tables.values, victim)
    free = (victim == _KING) | ~attacked
    most = _VALUES[_KING]
    code = torch.where(views < 0, torch.where(free, most, worth), -(views > 0).short())
    code = code.to(torch.int8)
    steps, slides = look_back(code, looks)
    jumps = [rows_of(code, there) for there in tables.jumps]
    planes = []
    for kind in _FORKING:
        seen = _sees(kind, steps, slides, jumps)
        hits = torch.stack([(target > _VALUES[kind]) for target in seen])
        planes.append(hits.sum(0) >= 2)
    return planes


def look_back(board: Tensor, looks: Looks) -> tuple[Tensor, Tensor]:
    """[10, 81, ...] what is one step back on boards [81, ...], and [8, 81, ...] what is the first."""
    steps = rows_of(board, looks.one_step_back)
    slides = steps[: _DIRECTIONS * 81]
    for further_back in looks.further_back:  # the first piece within 2, then 4, then 8 steps
        slides = slides + rows_of(slides, further_back) * (slides == 0)
    return (
        steps.view(len(DIRECTION_STEPS), *board.shape),
        slides.view(_DIRECTIONS, *board.shape),
    )


def _mates(
    sight: Sight,
    positions: Tensor,
    goes: Tensor,
    theirs: Tensor,
    their_count: Tensor,
    looks: Looks,
    tables: TacticsTables,
) -> list[Tensor]:
    """Where a piece of theirs, dropped or moved beside the own king, would mate it."""
    can_go = rows_of(goes.to(torch.int16), looks.one_step_back[: _DIRECTIONS * 81])
    can_go = can_go.view(_DIRECTIONS, *goes.shape)
    escapes = torch.zeros_like(sight.kinds)
    for direction in range(_DIRECTIONS):
        escapes = escapes | _ahead(can_go, direction) << direction
    of_king = rows_of(escapes, looks.one_step_back[: _DIRECTIONS * 81])
    of_king = of_king.view(_DIRECTIONS, *goes.shape)
    place = torch.zeros_like(sight.kinds)
    near = torch.zeros_like(goes)
    for direction in range(_DIRECTIONS):
        here = sight.steps[direction] == _KING
        place = torch.where(here, 256 * direction + of_king[direction], place)
        near = near | here
    unguarded = near & (sight.views >= 0) & ((sight.kinds & _BUT_KING) == 0)
    hands = positions[:, OWN_HAND:COLOUR].view(-1, 2, 7)
    in_hand = ((hands > 0) * tables.hand_bits).sum(2, dtype=torch.int16).t().flip(0)
    drops = _looked_up(tables.mating, place.long()) & in_hand
    moves = _looked_up(tables.mating, (place + tables.zone).long()) & theirs
    return [
        unguarded & (sight.views == 0) & (their_count >= 1) & (drops != 0),
        unguarded & (their_count >= 2) & (moves != 0),
    ]


def _xrays(sight: Sight, looks: Looks) -> Tensor:
    """What own sliders would attack if the first piece in their way were gone."""
    steps = sight.steps[:_DIRECTIONS]
    first = sight.slides.flatten(0, 1)
    nearest = steps.flatten(0, 1)
    behind = rows_of(first, looks.further_back[0])
    second = torch.where(nearest != 0, behind, _UNKNOWN)
    for further_back in looks.further_back:
        second = torch.where(second == _UNKNOWN, rows_of(second, further_back), second)
    second = second.view_as(steps)
    found = torch.zeros_like(sight.views, dtype=torch.bool)
    for direction in range(_DIRECTIONS):
        slider = second[direction].clamp(min=0).short()
        known = (slider > 0) & (slider != _UNKNOWN)
        found = found | (known & ((_SLIDERS_TO[direction] >> slider.clamp(max=14)) & 1 > 0))
    return found


def rows_of(rows: Tensor, wanted: Tensor) -> Tensor:
    """The rows of those numbers; the number after the last means a row of zeros."""
    return pad(rows, (0, 0) * (rows.dim() - 1) + (0, 1)).index_select(0, wanted)


def _looked_up(table: Tensor, index: Tensor) -> Tensor:
    return table.index_select(0, index.flatten()).view_as(index)
