"""Talk nonsense to the USI engine and check every answer.

Random lines (whole commands, broken ones, bytes) go to an engine in this process. Each `go` that it
accepts must have one answer: a legal move, `resign`, `win`, or one to `go mate`.

Example: python scripts/fuzz_usi.py --lines 1000000
"""

from __future__ import annotations

import argparse
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from keisei.config_schema import ModelConfig, PPOConfig
from keisei.core.ppo_agent import PPOAgent
from keisei.play.engine_player import EnginePlayer, load_player
from keisei.play.engine_position import game_of
from keisei.play.usi_engine import UsiEngine
from keisei.play.usi_protocol import Command, Go, Position, Word, parse
from keisei.play.usi_stream import UsiStream
from keisei.shogi.sfen import START_SFEN
from keisei.shogi.shogi_game import ShogiGame

OPTIONS = (
    *("USI_Hash", "USI_Ponder", "USI_MultiPV", "Nodes", "Temperature", "TemperaturePlies"),
    *("DeclarationRule", "ResignValue", "MarginMs", "Seed", "Threads", "Book", ""),
)
VALUES = ("0", "1", "2", "7", "30", "true", "false", "24", "27", "off", "-1", "x", "", "9" * 30)
CLOCKS = ("btime", "wtime", "byoyomi", "binc", "winc", "movetime")
TIMES = ("0", "1", "3", "-5", "x", "")
LIMITS = (
    *("ponder", "infinite", "mate 3", "mate infinite", "mate", "mate x"),
    *("depth 1", "depth x", "nodes 0", "nodes 5", "nodes 20", "?"),
)
PLAIN = ("usi", "isready", "usinewgame", "stop", "ponderhit", "gameover win", "gameover", "hello")
SFENS = (
    START_SFEN,
    "4k4/9/4P4/9/9/9/9/9/4K4 b G 1",
    "k8/2+R6/1G7/9/9/9/7g1/6+r2/8K b Pp 1",
    "9/9/9/9/4R4/9/9/9/8K b P 1",
    "4k4/9/9/9/9/9/9/9/9 w r2b4g4s4n4l18p 7",
    "+P+P+P+PK+P+P+P+P/+P+R7/9/9/9/9/9/9/4k4 b R2B2G2S 1",
    "8k/9/9/9/9/9/7g1/8g/8K b - 1",
    "4k4/9/9/9/9/9/9/9/4K4 b 2r2b4g4s4n4l18p 1",
    "nonsense",
)


class Fuzzer:
    """Makes lines, and counts them by kind."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._positions = [self._position() for _ in range(2000)]
        self.said: Counter[str] = Counter()

    def lines(self) -> Iterator[bytes]:
        """Lines for ever; none says `quit`."""
        kinds = {
            self._any_position: 12,
            self._option: 15,
            self._plain: 20,
            self._go: 1,
            self._broken: 30,
            self._bytes: 20,
        }
        while True:
            make = self._random.choices(list(kinds), list(kinds.values()))[0]
            line = make().replace(b"\n", b"")
            if parsed(line) is not Word.QUIT:
                self.said[make.__name__] += 1
                yield line

    def _any_position(self) -> bytes:
        return self._random.choice(self._positions)

    def _position(self) -> bytes:
        """A start and moves, mostly legal ones."""
        sfen = self._random.choice(SFENS)
        moves: list[str] = []
        if sfen != "nonsense":
            game = ShogiGame(sfen, max_moves=None)
            for _ in range(self._random.choice((0, 1, 2, 5, 20, 80))):
                if game.legal_actions():
                    game.make_move(self._random.choice(game.legal_actions()))
            moves = game.moves
        if self._random.random() < 0.1:
            moves = [*moves, self._random.choice(("5e5e", "P*0z", "7g7f+", "moves"))]
        start = "startpos" if sfen == START_SFEN and self._random.random() < 0.5 else f"sfen {sfen}"
        return f"position {start}{' moves ' if moves else ''}{' '.join(moves)}".encode()

    def _option(self) -> bytes:
        name, value = self._random.choice(OPTIONS), self._random.choice(VALUES)
        return f"setoption name {name} value {value}".encode()

    def _plain(self) -> bytes:
        return self._random.choice(PLAIN).encode()

    def _go(self) -> bytes:
        words = ["go"]
        for _ in range(self._random.randrange(4)):
            words += [self._random.choice(CLOCKS), self._random.choice(TIMES)]
        if self._random.random() < 0.5:
            words.append(self._random.choice(LIMITS))
        return " ".join(words).encode()

    def _broken(self) -> bytes:
        """A line of the protocol with bytes left out, put in or changed."""
        makers = (self._any_position, self._option, self._plain, self._go)
        make = self._random.choices(makers, (10, 10, 10, 1))[0]
        line = bytearray(make())
        for _ in range(self._random.randrange(1, 4)):
            place = self._random.randrange(min(len(line), 30) + 1)
            line[place : place + self._random.randrange(3)] = self._random.randbytes(1)
        return bytes(line)

    def _bytes(self) -> bytes:
        return self._random.randbytes(self._random.randrange(60))


def _game_at(position: Position) -> ShogiGame | None:
    """None where a `position` is none."""
    try:
        return game_of(position.sfen, position.moves)
    except ValueError:
        return None


def parsed(line: bytes) -> Command | None:
    """What the engine will make of a line."""
    return parse(line.decode("utf-8", errors="replace").strip())


class Referee:
    """Writes to the engine, and holds every answer against the position it was asked about."""

    def __init__(self, to_engine: int, from_engine: int) -> None:
        self._to_engine = os.fdopen(to_engine, "wb")
        self._from_engine = os.fdopen(from_engine, "rb")
        self.answers: Counter[str] = Counter()

    def say(self, *lines: bytes) -> None:
        """Write lines."""
        self._to_engine.write(b"".join(line + b"\n" for line in lines))
        self._to_engine.flush()

    def close(self) -> None:
        """End the input."""
        self._to_engine.close()

    def check_answer(self, go: Go, game: ShogiGame | None) -> None:
        """Read up to the answer of `go`; raises if it is not one that the rules allow."""
        for data in self._from_engine:
            words = data.decode("ascii").split()
            self.answers[words[0]] += 1
            if words[0] in ("bestmove", "checkmate"):
                _require_sound(go, game, words)
                return
        raise EOFError(f"the engine ended without an answer to {go}")


def _require_sound(go: Go, game: ShogiGame | None, words: list[str]) -> None:
    mates = go.is_for_mate
    if words[0] != ("checkmate" if mates else "bestmove"):
        raise AssertionError(f"{go} was answered by {words}")
    if words[1] in ("resign", "win", "nomate", "timeout"):
        return
    if game is None:
        raise AssertionError(f"{words} where there is no position")
    after = game.copy()
    for move in words[1:] if mates else [word for word in words[1:] if word != "ponder"]:
        after.make_move(move)  # raises for an illegal one
    if mates and after.legal_actions():
        raise AssertionError(f"{words} is no mate in {game.sfen()}")


def fuzz(player: EnginePlayer, lines: int, seed: int) -> tuple[Counter[str], Counter[str]]:
    """Say so many lines; what was said and what was answered, by kind."""
    (read_end, to_engine), (from_engine, write_end) = os.pipe(), os.pipe()
    stream = UsiStream(os.fdopen(read_end, "rb"), os.fdopen(write_end, "wb"))
    engine = threading.Thread(target=UsiEngine(stream, lambda: player).run, daemon=True)
    engine.start()
    fuzzer, referee = Fuzzer(seed), Referee(to_engine, from_engine)
    position = Position()
    for line in islice(fuzzer.lines(), lines):
        command = parsed(line)
        referee.say(line)
        if isinstance(command, Position):
            position = command
        elif isinstance(command, Go):
            referee.say(b"stop")  # else one that is infinite would never be answered
            referee.check_answer(command, _game_at(position))
    referee.close()
    engine.join(60)
    if engine.is_alive():
        raise AssertionError("the engine did not end with its input")
    return fuzzer.said, referee.answers


def main() -> None:
    """Fuzz and print what happened."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", type=Path, help="a run or checkpoint; default: a tiny network")
    given = parser.parse_args()
    tiny = ModelConfig(depth=1, width=8, value_width=8)
    player = load_player(given.model) if given.model else EnginePlayer(PPOAgent(tiny, PPOConfig()))
    began = time.monotonic()
    said, answers = fuzz(player, given.lines, given.seed)
    print(f"{given.lines:,} lines in {time.monotonic() - began:.0f} s: every answer was sound")
    print("said:", dict(said))
    print("answered:", dict(answers))


if __name__ == "__main__":
    main()
