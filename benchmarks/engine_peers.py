"""Other shogi engines as opponents of `keisei bench engine`, one per process.

`python benchmarks/engine_peers.py cshogi` answers lines `TASK SECONDS` with a line of JSON:
`{"rate": steps or nodes per second}`, or `{"missing": reason}` at once when it is not installed.
Tasks: `rules` (random self-play), `obs_mask` (the same, and for every position 46 float planes
and a mask over all actions), `perft` (depth 5 from the start; SECONDS is ignored).

Every engine is driven the fastest way its public interface allows.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np

MAX_MOVES = 512
_BLACK_SQUARES = np.array([square % 9 * 9 + 8 - square // 9 for square in range(81)])
OUR_SQUARES = (_BLACK_SQUARES, 80 - _BLACK_SQUARES)
"""The mover's view of cshogi's squares, which run down the files from 1a."""
KINDS = np.array([0, 1, 2, 3, 5, 6, 4])
"""Our kinds in hand by cshogi's numbers of drops."""


def measure(steps: Iterator[int], seconds: float) -> float:
    """Steps per second of an endless generator that yields after some number of steps."""
    done = 0
    start = time.perf_counter()
    for count in steps:
        done += count
        elapsed = time.perf_counter() - start
        if elapsed >= seconds:
            return done / elapsed
    raise AssertionError("a random player never stops")


class Cshogi:
    """cshogi: C++ behind Python, one game at a time."""

    def __init__(self) -> None:
        import cshogi

        self.board = cshogi.Board()
        self.planes = np.zeros((46, 9, 9), np.float32)
        self.mask = np.zeros(13527, np.bool_)
        self.full_hand = np.array([18, 4, 4, 4, 4, 2, 2], np.float32)

    def rules(self) -> Iterator[int]:
        board, draw = self.board, random.random
        while True:
            board.reset()
            plies = 0
            while plies < MAX_MOVES and (moves := list(board.legal_moves)):
                board.push(moves[int(draw() * len(moves))])
                plies += 1
            yield plies

    def obs_mask(self) -> Iterator[int]:
        board, draw = self.board, random.random
        while True:
            board.reset()
            plies = 0
            while plies < MAX_MOVES and (moves := list(board.legal_moves)):
                self.write_planes(plies)
                self.write_mask(np.array(moves))
                board.push(moves[int(draw() * len(moves))])
                plies += 1
                yield 1

    def write_planes(self, ply: int) -> None:
        board, planes = self.board, self.planes
        if board.turn:
            board.piece_planes_rotate(planes[:28])
        else:
            board.piece_planes(planes[:28])
        hands = np.array(board.pieces_in_hand, np.float32) / self.full_hand
        own = board.turn
        planes[28:35] = hands[own, :, None, None]
        planes[35:42] = hands[1 - own, :, None, None]
        planes[42] = own
        planes[43] = ply / 512
        planes[44] = 0
        planes[45] = board.is_check()

    def write_mask(self, moves: np.ndarray) -> None:
        squares = OUR_SQUARES[self.board.turn]
        origin = (moves >> 7) & 127
        drop = origin >= 81
        target, start = squares[moves & 127], squares[np.where(drop, 0, origin)]
        on_board = 2 * (start * 80 + target - (target > start)) + ((moves >> 14) & 1)
        drops = 12960 + target * 7 + KINDS[np.where(drop, origin - 81, 0)]
        self.mask[:] = False
        self.mask[np.where(drop, drops, on_board)] = True

    def perft(self, depth: int = 5) -> int:
        self.board.reset()
        return self._count(depth)

    def _count(self, depth: int) -> int:
        board = self.board
        if depth == 1:
            return len(board.legal_moves)
        leaves = 0
        for move in board.legal_moves:
            board.push(move)
            leaves += self._count(depth - 1)
            board.pop()
        return leaves


class Rsshogi:
    """rsshogi: Rust behind Python, one game at a time."""

    def __init__(self) -> None:
        from rsshogi.core import Board

        self.board = Board()

    def rules(self) -> Iterator[int]:
        board, draw = self.board, random.random
        while True:
            board.reset()
            plies = 0
            while plies < MAX_MOVES and (moves := board.legal_moves_move32()):
                board.apply_move32(moves[int(draw() * len(moves))])
                plies += 1
            yield plies

    def perft(self, depth: int = 5) -> int:
        self.board.reset()
        return self._count(depth)

    def _count(self, depth: int) -> int:
        board = self.board
        moves = board.legal_moves_move32()
        if depth == 1:
            return len(moves)
        leaves = 0
        for move in moves:
            board.apply_move32(move)
            leaves += self._count(depth - 1)
            board.undo_move32(move)
        return leaves


class Pgx:
    """Pgx on the CPU, where one game at a time is its fastest (larger batches were slower).

    Its step always makes the mask; `observe` makes the planes.
    """

    def __init__(self) -> None:
        import jax
        import jax.numpy as jnp
        import pgx

        env = pgx.make("shogi")

        def play(state, key, observe):  # type: ignore[no-untyped-def]
            key, choice = jax.random.split(key)
            logits = jnp.log(state.legal_action_mask.astype(jnp.float32))
            state = env.step(state, jax.random.categorical(choice, logits))
            seen = env.observe(state, state.current_player) if observe else 0.0
            return state, key, state.terminated | state.truncated, seen

        self.init = jax.jit(env.init)
        self.play = jax.jit(play, static_argnums=2)
        self.key = jax.random.PRNGKey(0)
        self.state = self.init(self.key)
        next(self.rules())
        next(self.obs_mask())

    def rules(self) -> Iterator[int]:
        return self._steps(observe=False)

    def obs_mask(self) -> Iterator[int]:
        return self._steps(observe=True)

    def _steps(self, *, observe: bool) -> Iterator[int]:
        while True:
            self.state, self.key, over, _ = self.play(self.state, self.key, observe)
            if over:
                self.state = self.init(self.key)
            yield 1


PEERS: dict[str, Callable[[], object]] = {"cshogi": Cshogi, "rsshogi": Rsshogi, "pgx": Pgx}


def answer(peer: object, task: str, seconds: float) -> float:
    """The rate of one task."""
    if task == "perft":
        start = time.perf_counter()
        leaves = peer.perft()  # type: ignore[attr-defined]
        assert leaves == 19861490, f"perft 5 is 19861490, not {leaves}"
        return leaves / (time.perf_counter() - start)
    return measure(getattr(peer, task)(), seconds)


def main() -> None:
    """Serve one engine on standard input and output."""
    try:
        peer = PEERS[sys.argv[1]]()
    except ImportError as error:
        print(json.dumps({"missing": str(error)}), flush=True)
        return
    tasks = [task for task in ("rules", "obs_mask", "perft") if hasattr(peer, task)]
    print(json.dumps({"tasks": tasks}), flush=True)
    for line in sys.stdin:
        task, seconds = line.split()
        print(json.dumps({"rate": answer(peer, task, float(seconds))}), flush=True)


if __name__ == "__main__":
    main()
