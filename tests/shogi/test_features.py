"""Feature sets against a slow reference that reads compact positions square by square."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numba
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from keisei.shogi import features
from keisei.shogi.features import FEATURE_SETS, feature_set
from keisei.shogi.policy_output_mapper import PolicyOutputMapper
from keisei.shogi.vector_shogi import VectorShogi
from tests.shogi.tactics_reference import Danger, tactics_planes

# The rules once more, written by hand: piece letters by number, and moves as (right, up) steps.
LETTERS = ["P", "L", "N", "S", "G", "B", "R", "K", "+P", "+L", "+N", "+S", "+B", "+R"]
PLUS = [(0, 1), (1, 0), (0, -1), (-1, 0)]
CROSS = [(1, 1), (1, -1), (-1, -1), (-1, 1)]
GOLD = [*PLUS, (1, 1), (-1, 1)]
STEPS = {
    "P": [(0, 1)],
    "N": [(1, 2), (-1, 2)],
    "S": [(0, 1), *CROSS],
    "G": GOLD,
    "+P": GOLD,
    "+L": GOLD,
    "+N": GOLD,
    "+S": GOLD,
    "K": PLUS + CROSS,
    "+B": PLUS,
    "+R": CROSS,
}
SLIDES = {"L": [(0, 1)], "B": CROSS, "R": PLUS, "+B": CROSS, "+R": PLUS}
FULL_SET = {"P": 18, "L": 4, "N": 4, "S": 4, "G": 4, "B": 2, "R": 2}

ONE_KING = "4k4/9/9/9/4P4/9/9/9/9 b RBG2S 1"
SHARED_HANDS = "4k4/9/9/9/9/9/9/9/4K4 b 10P2LNSGBR8p2l3n3s3gbr 1"
MOVER_HOLDS_ALL = "4k4/9/9/9/9/9/9/9/4K4 w 18p4l4n4s4g2b2r 1"
OPPONENT_HOLDS_ALL = "4k4/9/9/9/9/9/9/9/4K4 b 18p4l4n4s4g2b2r 1"
PROMOTED = "3+R1k3/2+P+L+N4/3+S5/1+B7/K8/7+b1/5+s3/4+n+l+p2/5+r3 w - 1"
CHECKED = "4k4/9/4P4/9/4R4/4+s4/9/4l4/4K4 b - 1"
SFENS = [ONE_KING, SHARED_HANDS, MOVER_HOLDS_ALL, OPPONENT_HOLDS_ALL, PROMOTED, CHECKED]

Planes = dict[str, NDArray[np.float32]]


def full(value: float) -> NDArray[np.float32]:
    return np.full((9, 9), value, np.float32)


def core46_reference(position: NDArray[np.int8]) -> Planes:
    """The planes of one position by name, in order."""
    board = position[:81].reshape(9, 9)
    planes: Planes = {}
    for side, sign in (("own", 1), ("their", -1)):
        for number, letters in enumerate(LETTERS, start=1):
            planes[f"{side} {letters}"] = (board == sign * number).astype(np.float32)
    for side, first in (("own", 81), ("their", 88)):
        for kind, (letter, most) in enumerate(FULL_SET.items()):
            planes[f"{side} hand {letter}"] = full(int(position[first + kind]) / most)
    ply = int(position[98]) % 256 + 256 * (int(position[99]) % 256)
    planes["colour"] = full(position[95])
    planes["ply"] = full(min(ply / 512, 1))
    planes["repetitions"] = full(int(position[97]) / 3)
    planes["in check"] = full(position[96])
    return planes


def attacked_squares(board: NDArray[np.int8], rank: int, file: int) -> list[tuple[int, int]]:
    """What the piece on a square attacks; `board` [9, 9] has rank 0 at the top, own pieces > 0."""
    piece = int(board[rank, file])
    letters, up = LETTERS[abs(piece) - 1], 1 if piece > 0 else -1
    reached = []
    for moves, reach in ((STEPS, 1), (SLIDES, 8)):
        for right, forward in moves.get(letters, []):
            for distance in range(1, reach + 1):
                to_rank = rank - up * forward * distance
                to_file = file + up * right * distance
                if not (0 <= to_rank < 9 and 0 <= to_file < 9):
                    break
                reached.append((to_rank, to_file))
                if board[to_rank, to_file]:
                    break
    return reached


def attack_reference(position: NDArray[np.int8]) -> Planes:
    board = position[:81].reshape(9, 9)
    planes = core46_reference(position)
    counts = {(side, letters): full(0) for side in ("own", "their") for letters in LETTERS}
    for rank, file in zip(*np.nonzero(board), strict=True):
        piece = int(board[rank, file])
        of_kind = counts["own" if piece > 0 else "their", LETTERS[abs(piece) - 1]]
        for square in attacked_squares(board, rank, file):
            of_kind[square] += 1
    for (side, letters), count in counts.items():
        planes[f"{side} {letters} attacks"] = np.minimum(count, 1)
    for side in ("own", "their"):
        total = np.sum([counts[side, letters] for letters in LETTERS], axis=0)
        for level in (1, 2, 3):
            planes[f"{side} attackers >= {level}"] = (total >= level).astype(np.float32)
    for side, first in (("own", 81), ("their", 88)):
        for kind, (letter, most) in enumerate(FULL_SET.items()):
            for level in range(1, min(most, 8) + 1):
                planes[f"{side} hand {letter} >= {level}"] = full(position[first + kind] >= level)
    return planes


def reach_of(letters: str, square: tuple[int, int]) -> set[tuple[int, int]]:
    """What a piece of the opponent reaches on a board without edges or other pieces."""
    moves = [(step, 1) for step in STEPS.get(letters, [])]
    moves += [(slide, 8) for slide in SLIDES.get(letters, [])]
    return {
        (square[0] + forward * distance, square[1] - right * distance)
        for (right, forward), furthest in moves
        for distance in range(1, furthest + 1)
    }


def tactics_reference(position: NDArray[np.int8]) -> Planes:
    board = position[:81].reshape(9, 9)
    own_hand, their_hand = position[81:88].tolist(), position[88:95].tolist()
    turned = -board[::-1, ::-1]
    dangers = {
        "own": Danger(board, their_hand, attacked_squares, reach_of),
        "their": Danger(turned, own_hand, attacked_squares, reach_of),
    }
    new = tactics_planes(dangers, lambda square: (8 - square[0], 8 - square[1]))
    return {**attack_reference(position), **new}


REFERENCES = {
    "core46": core46_reference,
    "attack": attack_reference,
    "tactics": tactics_reference,
}
NAMES = {name: list(planes(np.zeros(100, np.int8))) for name, planes in REFERENCES.items()}
ATTACK_NAMES = NAMES["attack"]


@cache
def played_positions() -> NDArray[np.int8]:
    """Positions of 60 random games, from the first move to beyond the scale of the ply plane."""
    games = VectorShogi(60, seed=5, max_moves=1000, threads=1)
    taken = [games.positions.copy()]
    for steps in (1, 2, 40, 57, 100, 101, 120, 140):
        games.play_random(steps)
        taken.append(games.positions.copy())
    return np.concatenate(taken)


@cache
def repeated_positions() -> NDArray[np.int8]:
    """The start position each time it comes back, up to the fourth occurrence, which ends it."""
    games = VectorShogi(1, threads=1)
    taken = []
    for turn, move in enumerate(["2h3h", "8b7b", "3h2h", "7b8b"] * 3):
        games.step([PolicyOutputMapper.action_of(move, turn % 2)])
        taken.append((games.final_positions if games.reason[0] else games.positions).copy())
    return np.concatenate(taken)


def position_of(sfen: str) -> NDArray[np.int8]:
    return VectorShogi(1, start_sfen=sfen, threads=1).positions.copy()


@cache
def scattered_positions() -> NDArray[np.int8]:
    """Boards no game reaches: any piece anywhere, from nearly empty to nearly full."""
    rng = np.random.default_rng(3)
    positions = np.zeros((100, 100), np.int8)
    pieces = rng.integers(-14, 15, (100, 81))
    positions[:, :81] = pieces * (rng.random((100, 81)) < rng.random((100, 1)))
    return positions


@cache
def legal_positions() -> NDArray[np.int8]:
    by_hand = [position_of(sfen) for sfen in SFENS]
    return np.concatenate([played_positions(), repeated_positions(), *by_hand])


def planes_of(sfen: str, name: str = "attack") -> dict[str, torch.Tensor]:
    """The planes of a set by name; core46 is the first part of attack, and that of tactics."""
    planes = feature_set(name).expand(torch.from_numpy(position_of(sfen)))[0]
    return dict(zip(NAMES[name], planes, strict=True))


def squares_of(plane: torch.Tensor) -> set[str]:
    """The squares where a plane is 1, as black names them."""
    return {f"{9 - file}{'abcdefghi'[rank]}" for rank, file in plane.nonzero().tolist()}


@pytest.mark.parametrize("name", REFERENCES)
def test_every_plane_equals_the_reference_exactly(name: str) -> None:
    positions = np.concatenate([legal_positions(), scattered_positions()])
    if name == "tactics":  # its reference takes 0.1 s a position
        positions = positions[::4]
    planes = feature_set(name).expand(torch.from_numpy(positions)).numpy()
    assert planes.dtype == np.float32
    references = [REFERENCES[name](position) for position in positions]
    assert planes.shape == (len(positions), len(references[0]), 9, 9)
    for index, plane_name in enumerate(references[0]):
        expected = np.stack([reference[plane_name] for reference in references])
        np.testing.assert_array_equal(planes[:, index], expected, err_msg=plane_name)


def test_the_compared_positions_cover_what_is_rare() -> None:
    positions = legal_positions().astype(int)
    ply = positions[:, 98] % 256 + 256 * positions[:, 99]
    assert len(positions) > 500
    assert set(positions[:, 95]) == {0, 1}, "both colours to move"
    assert positions[:, 96].sum() > 10, "in check"
    assert set(positions[:, 97]) == {0, 1, 2, 3}, "repeated"
    assert (ply > 255).sum() > 10
    assert (ply > 512).any()
    assert ((ply & 128) > 0).any(), "a low byte that is negative as int8"
    planes = feature_set("attack").expand(torch.from_numpy(legal_positions()))
    used = planes.amax((0, 2, 3)) > 0
    assert [name for name, is_used in zip(ATTACK_NAMES, used, strict=True) if not is_used] == []


def test_the_first_planes_of_the_groups_are_where_their_constants_say() -> None:
    first_planes = {
        "own P": features.OWN_PIECES,
        "their P": features.THEIR_PIECES,
        "own hand P": features.OWN_HAND_COUNTS,
        "their hand P": features.THEIR_HAND_COUNTS,
        "colour": features.COLOUR_PLANE,
        "ply": features.PLY_PLANE,
        "repetitions": features.REPETITIONS_PLANE,
        "in check": features.IN_CHECK_PLANE,
        "own P attacks": features.OWN_ATTACKS,
        "their P attacks": features.THEIR_ATTACKS,
        "own attackers >= 1": features.OWN_ATTACKER_LEVELS,
        "their attackers >= 1": features.THEIR_ATTACKER_LEVELS,
        "own hand P >= 1": features.OWN_UNARY_HAND,
        "their hand P >= 1": features.THEIR_UNARY_HAND,
    }
    assert {name: ATTACK_NAMES.index(name) for name in first_planes} == first_planes
    counts = (features.CORE46_PLANES, features.ATTACK_PLANES, features.TACTICS_PLANES)
    assert counts == (46, 136, 176)


def test_a_slider_attacks_up_to_and_including_the_first_piece_of_either_side() -> None:
    planes = planes_of("4k4/9/4p4/9/4R1P2/9/9/9/4K4 b - 1")
    assert squares_of(planes["own R attacks"]) == {
        *("5d", "5c"),
        *("4e", "3e"),
        *("6e", "7e", "8e", "9e"),
        *("5f", "5g", "5h", "5i"),
    }
    assert squares_of(planes["their P attacks"]) == {"5d"}


def test_a_blocked_slider_does_not_count_as_an_attacker() -> None:
    planes = planes_of("4k4/9/9/9/9/4P4/4L4/4R4/4K4 b - 1")
    assert squares_of(planes["own L attacks"]) == {"5f"}
    assert "5f" not in squares_of(planes["own attackers >= 2"])
    assert "5h" in squares_of(planes["own K attacks"])


def test_attackers_are_counted_over_all_kinds() -> None:
    planes = planes_of("4k4/9/1B7/9/4p4/4P4/3NG4/3N5/4K4 b - 1")
    levels = [squares_of(planes[f"own attackers >= {level}"]) for level in (1, 2, 3)]
    assert "5e" in levels[1]  # the pawn and the knight on 6g
    assert "5e" not in levels[2]
    assert "5f" in levels[2]  # the gold, the knight on 6h and the bishop
    assert levels[2] < levels[1] < levels[0]


def test_white_sees_the_turned_board_as_black_would() -> None:
    black = planes_of("4k4/9/4p4/9/4R1P2/9/9/9/3GK4 b 2Pl 1")
    white = planes_of("4kg3/9/9/9/2p1r4/9/4P4/9/4K4 w 2pL 1")
    assert float(white["colour"].min()) == 1
    differing = [name for name in black if not torch.equal(black[name], white[name])]
    assert differing == ["colour"]


class TestTactics:
    def test_a_gold_dropped_before_the_king_and_backed_by_a_pawn_mates(self) -> None:
        planes = planes_of("4k4/9/4P4/9/9/9/9/9/4K4 b G 1", "tactics")
        assert squares_of(planes["own mates by a drop"]) == {"5b"}
        without = planes_of("4k4/9/9/9/9/9/9/9/4K4 b G 1", "tactics")
        assert squares_of(without["own mates by a drop"]) == set()

    def test_a_guard_of_the_square_or_an_escape_prevents_the_mate(self) -> None:
        guarded = planes_of("4k4/3s5/4P4/9/9/9/9/9/4K4 b S 1", "tactics")
        assert squares_of(guarded["own mates by a drop"]) == set()
        silver = planes_of("4k4/9/4P4/9/9/9/9/9/4K4 b S 1", "tactics")
        assert squares_of(silver["own mates by a drop"]) == set()

    def test_a_knight_mates_a_king_that_its_own_men_shut_in(self) -> None:
        planes = planes_of("7nk/7nl/9/9/9/9/9/9/4K4 b N 1", "tactics")
        assert squares_of(planes["own mates by a drop"]) == {"2c"}

    def test_a_pawn_is_not_dropped_for_mate_but_moved(self) -> None:
        planes = planes_of("4k4/9/3GPG3/9/9/9/9/9/4K4 b P 1", "tactics")
        assert "5b" in squares_of(planes["own mates by a move"])
        assert squares_of(planes["own mates by a drop"]) == set()

    def test_the_mate_that_threatens_the_mover_is_seen_too(self) -> None:
        planes = planes_of("4k4/9/9/9/9/9/4p4/9/4K4 b g 1", "tactics")
        assert squares_of(planes["their mates by a drop"]) == {"5h"}
        assert squares_of(planes["own escapes"]) == {"6i", "4i", "6h", "4h"}

    def test_an_exchange_counts_who_takes_back(self) -> None:
        free = planes_of("4k4/9/9/9/4s4/4L4/9/9/4K4 b - 1", "tactics")
        assert squares_of(free["their losses >= 5"]) == {"5e"}
        backed = planes_of("4k4/9/9/4l4/4s4/4L4/9/9/4K4 b - 1", "tactics")
        assert squares_of(backed["their losses >= 1"]) == {"5e"}
        assert squares_of(backed["their losses >= 3"]) == set()

    def test_a_fork_attacks_two_that_are_worth_more_or_stand_alone(self) -> None:
        planes = planes_of("4k4/9/9/3r1b3/9/9/9/9/4K4 b N 1", "tactics")
        assert squares_of(planes["own N forks"]) == {"5f"}

    def test_a_shield_stands_alone_before_the_king(self) -> None:
        planes = planes_of("4k4/9/9/4r4/9/4S4/9/9/4K4 b - 1", "tactics")
        assert squares_of(planes["own shields"]) == {"5f"}


def test_more_than_8_pawns_in_hand_differ_only_in_the_count() -> None:
    nine = planes_of("4k4/9/9/9/9/9/9/9/4K4 b 9P 1")
    eighteen = planes_of("4k4/9/9/9/9/9/9/9/4K4 b 18P 1")
    differing = [name for name in nine if not torch.equal(nine[name], eighteen[name])]
    assert differing == ["own hand P"]
    assert float(eighteen["own hand P"].min()) == 1
    assert float(eighteen["own hand P >= 8"].min()) == 1


@pytest.mark.parametrize("ply", [0, 127, 128, 200, 256, 511, 512, 513, 32768, 65535])
def test_ply_is_read_as_two_unsigned_bytes_and_clipped_at_512(ply: int) -> None:
    position = np.zeros((1, 100), np.int8)
    position[0, 98:] = np.array([ply], "<u2").view(np.int8)
    planes = feature_set("core46").expand(torch.from_numpy(position))
    assert float(planes[0, features.PLY_PLANE, 0, 0]) == min(ply, 512) / 512


@pytest.mark.parametrize("chosen", FEATURE_SETS.values(), ids=FEATURE_SETS)
class TestEverySet:
    def test_has_the_number_of_planes_it_names(self, chosen: features.FeatureSet) -> None:
        positions = torch.from_numpy(position_of(ONE_KING))
        assert chosen.expand(positions).shape == (1, chosen.num_planes, 9, 9)
        assert feature_set(chosen.name) is chosen

    def test_a_position_looks_the_same_alone_and_in_a_batch(
        self, chosen: features.FeatureSet
    ) -> None:
        positions = torch.from_numpy(played_positions()[::20])
        alone = [chosen.expand(positions[row : row + 1]) for row in range(len(positions))]
        assert torch.equal(chosen.expand(positions), torch.cat(alone))

    def test_an_empty_batch_has_no_planes(self, chosen: features.FeatureSet) -> None:
        positions = torch.zeros((0, 100), dtype=torch.int8)
        assert chosen.expand(positions).shape == (0, chosen.num_planes, 9, 9)

    def test_does_not_change_the_positions(self, chosen: features.FeatureSet) -> None:
        positions = torch.from_numpy(played_positions())
        before = positions.clone()
        chosen.expand(positions)
        assert torch.equal(positions, before)

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    def test_half_precision_is_the_rounded_float32(
        self, chosen: features.FeatureSet, dtype: torch.dtype
    ) -> None:
        positions = torch.from_numpy(played_positions())
        assert torch.equal(
            chosen.expand(positions, dtype=dtype), chosen.expand(positions).to(dtype)
        )

    def test_autocast_changes_nothing(self, chosen: features.FeatureSet) -> None:
        positions = torch.from_numpy(played_positions())
        with torch.autocast("cpu", dtype=torch.bfloat16):
            planes = chosen.expand(positions)
        assert torch.equal(planes, chosen.expand(positions))

    def test_is_traced_as_one_graph_that_holds_its_tables(
        self, chosen: features.FeatureSet
    ) -> None:
        graphs: list[torch.fx.GraphModule] = []

        def keep(graph: torch.fx.GraphModule, _: list[torch.Tensor]) -> torch.fx.GraphModule:
            graphs.append(graph)
            return graph

        torch.compiler.reset()
        compiled = torch.compile(chosen.expand, fullgraph=True, backend=keep)
        positions = torch.from_numpy(played_positions())
        sets = chosen.sets_of(positions.numpy())
        assert torch.equal(compiled(positions, sets), chosen.expand(positions))
        (graph,) = graphs
        targets = [str(node.target) for node in graph.graph.nodes]
        assert any("columns" in target for target in targets)
        assert not any("method tensor" in target for target in targets), "made in every call"


@pytest.fixture
def _two_threads() -> Iterator[None]:
    before = numba.get_num_threads()
    numba.set_num_threads(2)
    yield
    numba.set_num_threads(before)


@pytest.mark.usefixtures("_two_threads")
@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="Numba has one thread here")
@pytest.mark.parametrize("chosen", FEATURE_SETS.values(), ids=FEATURE_SETS)
def test_threads_write_the_sets_that_one_writes(
    chosen: features.FeatureSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    positions = legal_positions()
    shared_out: list[int] = []
    write = features.write_square_sets_in_parallel

    def noting(positions: NDArray[np.int8], detail: int, sets: NDArray[np.int64]) -> None:
        shared_out.append(len(positions))
        write(positions, detail, sets)

    monkeypatch.setattr(features, "write_square_sets_in_parallel", noting)
    by_threads = chosen.sets_of(positions)
    chosen.sets_of(positions[:100])
    numba.set_num_threads(1)
    by_one = chosen.sets_of(positions)
    assert shared_out == [len(positions)]
    assert torch.equal(by_threads, by_one)
    alone = [chosen.sets_of(positions[row : row + 1]) for row in range(0, len(positions), 7)]
    assert torch.equal(by_one[::7], torch.cat(alone))


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"'core48'.*core46.*attack"):
        feature_set("core48")


@pytest.mark.uncompiled
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("chosen", FEATURE_SETS.values(), ids=FEATURE_SETS)
def test_planes_by_kernels_equal_planes_by_tensors(
    chosen: features.FeatureSet, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    games = VectorShogi(16, seed=3, threads=1)
    games.play_random(120)
    positions = torch.from_numpy(games.positions.copy())
    by_kernels = chosen.expand(positions, dtype=dtype)
    assert by_kernels.is_contiguous(memory_format=torch.channels_last)
    monkeypatch.setattr(features, "kernels_can_read", lambda _: False)
    by_tensors = chosen.expand(positions, dtype=dtype)
    assert by_tensors.is_contiguous(memory_format=torch.channels_last)
    assert by_kernels.dtype == by_tensors.dtype == dtype
    assert torch.equal(by_kernels, by_tensors)
