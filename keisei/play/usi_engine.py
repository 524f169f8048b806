"""`UsiEngine`: the conversation. One thread reads, another loads and thinks.

The one that reads never waits for the other: `usi`, `stop`, `ponderhit` and `quit` are heard while
a network loads or a search runs. What takes time is put in a queue as a job.
"""

from __future__ import annotations

import gc
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from keisei.play.engine_thought import Thought
from keisei.play.usi_answers import info_string
from keisei.play.usi_options import Options, option_lines, with_option
from keisei.play.usi_protocol import Command, Go, Position, SetOption, Word, parse
from keisei.play.usi_stream import UsiStream

_NAME = "Keisei"
_AUTHOR = "the Keisei developers"
_PATIENCE_S = 1.0


class Player(Protocol):
    """Who thinks: `EnginePlayer`."""

    def get_ready(self, options: Options) -> None:
        """Do all that would otherwise delay the first move."""

    def new_game(self) -> None:
        """Forget the last game."""

    def answer(self, thought: Thought, tell: Callable[[str], None]) -> str:
        """The line that ends a `go`; `tell` gets the lines before it."""


class UnplayableModelError(ValueError):
    """The model cannot be loaded; the sentence says why."""


class UsiEngine:
    """Answers a stream until it ends or says `quit`.

    `load` gives the player, at the first `isready` (or `go`) because it takes a second or two; it
    raises a `ValueError` for a model that cannot be played.
    """

    def __init__(self, stream: UsiStream, load: Callable[[], Player]) -> None:
        self._stream = stream
        self._load = load
        self._player: Player | None = None
        self._options = Options()
        self._ready_for: Options | None = None
        self._position = Position()
        self._thought: Thought | None = None
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._has_ended = threading.Event()
        self._failure: BaseException | None = None

    def run(self) -> None:
        """Listen and answer until the end; raises what the thread that thinks has raised.

        After `quit` that thread gets a second to end a search, but a network that loads is not
        waited for: it may still be loading when this returns.
        """
        thinker = threading.Thread(target=self._do_jobs, name="thinker", daemon=True)
        thinker.start()
        threading.Thread(target=self._listen, name="listener", daemon=True).start()
        self._has_ended.wait()
        thinker.join(_PATIENCE_S)
        if self._failure is not None:
            raise self._failure

    def _listen(self) -> None:
        """The thread that reads. At the end of the stream, what was asked is still answered."""
        try:
            for line in self._stream.lines():
                if self._obey(parse(line), time.monotonic()):
                    self._has_ended.set()
                    break
        except OSError as error:  # of the input, or of a log on a full disk
            self._failure = error
        self._stop()
        self._jobs.put(None)

    def _do_jobs(self) -> None:
        """The thread that thinks: one job after the other."""
        try:
            while (job := self._jobs.get()) is not None and not self._has_ended.is_set():
                job()
        except BaseException as error:
            self._failure = error
            self._stream.tell(info_string(f"the engine ends: {error}"))
        self._has_ended.set()

    def _obey(self, command: Command | None, read_at: float) -> bool:
        """Do or queue what a command asks; whether it was `quit`."""
        match command:
            case Go():
                self._go(command, read_at)
            case Position():
                self._position = command
            case SetOption():
                self._set_option(command)
            case Word.USI:
                lines = option_lines(self._options)
                self._stream.tell(f"id name {_NAME}", f"id author {_AUTHOR}", *lines, "usiok")
            case Word.ISREADY:
                self._get_ready(self._options)
            case Word.NEW_GAME:
                self._jobs.put(self._new_game)
            case Word.STOP | Word.GAME_OVER:
                self._stop()
            case Word.PONDERHIT if self._thought is not None:
                self._thought.ponder_hit(read_at)
        return command is Word.QUIT

    def _set_option(self, command: SetOption) -> None:
        try:
            self._options = with_option(self._options, command.name, command.value)
        except ValueError as error:
            self._stream.tell(info_string(error))

    def _get_ready(self, options: Options) -> None:
        if self._ready_for == options:  # at once, also in the middle of a search
            self._stream.tell("readyok")
        else:
            self._jobs.put(lambda: self._load_and_tell(options))

    def _load_and_tell(self, options: Options) -> None:
        with _without_collecting():
            self._loaded().get_ready(options)
        self._ready_for = options
        self._stream.tell("readyok")

    def _go(self, go: Go, read_at: float) -> None:
        last = self._thought
        if last is not None and not last.is_stopped and not last.is_answered:
            self._stream.tell(info_string("go is ignored: the last one has no answer yet"))
            return
        thought = Thought(go, self._position, self._options, read_at=read_at)
        self._thought = thought
        self._jobs.put(lambda: self._think(thought))

    def _think(self, thought: Thought) -> None:
        answer = self._loaded().answer(thought, self._stream.tell)
        thought.is_answered = True  # before it can be read: the next `go` may follow at once
        self._stream.tell(answer)

    def _new_game(self) -> None:
        if self._player is not None:
            self._player.new_game()

    def _stop(self) -> None:
        if self._thought is not None:
            self._thought.stop()

    def _loaded(self) -> Player:
        if self._player is None:
            try:
                self._player = self._load()
            except ValueError as error:
                raise UnplayableModelError(str(error)) from None
        return self._player


@contextmanager
def _without_collecting() -> Iterator[None]:
    """No garbage collection meanwhile, and none later of what is made: half a second of 2.4."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
