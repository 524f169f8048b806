"""Make the book of openings, `keisei/evaluation/data/openings.txt`, with fairy-stockfish.

    python scripts/make_openings.py --count 256

Each opening begins as one of the well-known ones and goes on as a random walk among moves that a
shallow search finds almost as good as the best. It is kept if a deeper search calls its last
position even. One thread, fixed depths, a table that is cleared before each search and a fixed seed
make the book the same every time (with one version of the engine).
"""

from __future__ import annotations

import argparse
import random
import re
import time
from importlib.resources import files
from pathlib import Path

from keisei.evaluation.engine_process import EngineProcess
from keisei.shogi.shogi_game import ShogiGame

SHORTEST, LONGEST = 8, 20
BEGINNINGS = (
    "2g2f 8c8d 2f2e 8d8e",  # both push the rook's pawn
    "2g2f 8c8d 7g7f 8d8e",
    "2g2f 3c3d 2f2e 2b3c",
    "7g7f 8c8d 2g2f 8d8e 8h7g 3c3d",  # bishops exchanged
    "7g7f 3c3d 2g2f 2b8h+ 7i8h",
    "7g7f 8c8d 7i6h 3c3d 6h7g",  # fortress
    "7g7f 8c8d 7i6h 3c3d 6g6f",
    "7g7f 3c3d 2g2f 8c8d 2f2e 8d8e",  # side pawn
    "7g7f 3c3d 2g2f 4c4d",  # ranging rooks, of white
    "7g7f 3c3d 2g2f 5c5d",
    "2g2f 3c3d 7g7f 4c4d",
    "7g7f 3c3d 6g6f 8c8d 2h6h",  # and of black
    "7g7f 3c3d 6g6f 8c8d 2h7h",
    "7g7f 3c3d 6g6f 8c8d 8h7g",
    "7g7f 3c3d 7f7e",
    "5g5f 8c8d 2h5h",
    "7g7f 3c3d 6g6f 3d3e",  # both range
    "7g7f 3c3d 1g1f",
    "7g7f 8c8d 5g5f",
    "2g2f 8c8d",
)
WALK_DEPTH, WALK_MOVES, WALK_MARGIN = 5, 8, 60
JUDGE_DEPTH, EVEN = 11, 100
_SCORE = re.compile(r"info depth (\d+) .*multipv (\d+) score (cp|mate) (-?\d+) .* pv (\S+)")
_PATIENCE = 120.0


class Adviser:
    """fairy-stockfish, asked for the best moves of a position and their scores."""

    def __init__(self) -> None:
        self._process = EngineProcess(["fairy-stockfish"])
        self._ask("usi", until="usiok")

    def best_moves(self, moves: list[str], *, depth: int, count: int) -> list[tuple[str, int]]:
        """(move, centipawns for the mover) of the best moves, without those that lead to mate."""
        self._process.send(f"setoption name MultiPV value {count}", "setoption name Clear Hash")
        self._process.send("position startpos" + (f" moves {' '.join(moves)}" if moves else ""))
        found: dict[int, tuple[str, int]] = {}
        for line in self._ask(f"go depth {depth}", until="bestmove"):
            score = _SCORE.match(line)
            if score is not None and int(score[1]) == depth and score[3] == "cp":
                found[int(score[2])] = (score[5], int(score[4]))
        return [found[rank] for rank in sorted(found)]

    def _ask(self, question: str, *, until: str) -> list[str]:
        self._process.send(question)
        lines = [""]
        while lines[-1].split()[:1] != [until]:
            lines.append(self._process.read_line(time.monotonic() + _PATIENCE))
        return lines

    def close(self) -> None:
        """End the engine."""
        self._process.close()


def walk(adviser: Adviser, draw: random.Random) -> list[str] | None:
    """The moves of one opening; None if the walk ran into a mate."""
    moves = draw.choice(BEGINNINGS).split()
    for _ in range(draw.randrange(SHORTEST, LONGEST + 1) - len(moves)):
        best = adviser.best_moves(moves, depth=WALK_DEPTH, count=WALK_MOVES)
        if not best:
            return None
        good = [move for move, score in best if score >= best[0][1] - WALK_MARGIN]
        moves.append(draw.choice(good))
    return moves


def is_even(adviser: Adviser, moves: list[str]) -> bool:
    """Whether a deeper search calls the position after these moves even."""
    best = adviser.best_moves(moves, depth=JUDGE_DEPTH, count=1)
    return bool(best) and abs(best[0][1]) <= EVEN


def position_after(moves: list[str]) -> str:
    """The position without the number of the move; all moves must be legal by our rules too."""
    game = ShogiGame()
    for move in moves:
        game.make_move(move)
    return game.sfen().rsplit(" ", 1)[0]


def make_book(count: int, seed: int) -> list[list[str]]:
    """So many openings, all leading to different positions."""
    draw, adviser = random.Random(seed), Adviser()
    book: dict[str, list[str]] = {}
    try:
        while len(book) < count:
            moves = walk(adviser, draw)
            if moves is not None and is_even(adviser, moves):
                book.setdefault(position_after(moves), moves)
    finally:
        adviser.close()
    return sorted(book.values())


def main() -> None:
    """Write the book."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--count", type=int, default=256)
    parser.add_argument("--seed", type=int, default=1)
    target = Path(str(files("keisei.evaluation"))) / "data" / "openings.txt"
    parser.add_argument("--out", type=Path, default=target)
    options = parser.parse_args()
    book = make_book(options.count, options.seed)
    lines = ["# Even positions as USI moves from the start; made by scripts/make_openings.py."]
    lines += [" ".join(moves) for moves in book]
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text("\n".join(lines) + "\n", "utf-8")
    print(f"{len(book)} openings in {options.out}")


if __name__ == "__main__":
    main()
