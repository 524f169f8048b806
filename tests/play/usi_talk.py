"""The other side of a USI conversation, for tests: with an engine in a thread or in a process."""

import os
import queue
import subprocess
import sys
import threading
from contextlib import contextmanager

from keisei.play.engine_player import EnginePlayer
from keisei.play.usi_engine import UsiEngine
from keisei.play.usi_stream import UsiStream
from keisei.training.checkpoints import CheckpointStore
from tests.core.small import SMALL_MODEL, small_agent
from tests.signals import heed_ctrl_c

KEISEI = [sys.executable, "-c", "from keisei.cli import main; main()"]
PATIENCE_S = 250.0
"""Kernels may have to be compiled first."""


class Talk:
    """Says lines and collects the answers."""

    def __init__(self, to_engine, from_engine):
        self._to_engine = to_engine
        self._answers = queue.SimpleQueue()
        self.heard = []
        self.failure = None
        self._ears = threading.Thread(target=self._listen, args=(from_engine,), daemon=True)
        self._ears.start()

    def _listen(self, from_engine):
        for line in from_engine:
            self._answers.put(line.decode("ascii").rstrip("\n"))
        self._answers.put(None)

    def say(self, *lines):
        for line in lines:
            data = line if isinstance(line, bytes) else line.encode()
            self._to_engine.write(data + b"\n")
        self._to_engine.flush()

    def hang_up(self):
        self._to_engine.close()

    def hear(self, *starts):
        """The next line that starts with one of these; what comes before it is kept in `heard`."""
        while (line := self._answers.get(timeout=PATIENCE_S)) is not None:
            self.heard.append(line)
            if line.startswith(starts):
                return line
        raise EOFError(f"the engine ended before it said {starts}: {self.heard[-5:]}")

    def ask(self, *lines):
        """Say lines of which the last is a `go`; its answer."""
        self.say(*lines)
        return self.hear("bestmove", "checkmate")

    def hear_rest(self):
        """All lines until the engine closes its end."""
        return list(iter(lambda: self._answers.get(timeout=PATIENCE_S), None))

    def stop_listening(self):
        """Wait for the end of the stream, after which it may be closed."""
        self._ears.join(PATIENCE_S)


@contextmanager
def engine_in_thread(load=None):
    """A `Talk` with an engine that plays a small network."""
    (read_end, to_engine), (from_engine, write_end) = os.pipe(), os.pipe()
    with (
        os.fdopen(read_end, "rb") as source,
        os.fdopen(write_end, "wb") as target,
        os.fdopen(to_engine, "wb") as sink,
        os.fdopen(from_engine, "rb") as answers,
    ):
        load = load or (lambda: EnginePlayer(small_agent()))
        engine = UsiEngine(UsiStream(source, target), load)
        talk = Talk(sink, answers)

        def run():
            try:
                engine.run()
            except RuntimeError as error:
                talk.failure = error

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield talk
        finally:
            if not sink.closed:
                talk.say("quit")
            thread.join(PATIENCE_S)
            assert not thread.is_alive()
            target.close()
            talk.stop_listening()


@contextmanager
def engine_process(*arguments, **options):
    """(process, `Talk`) of `keisei usi` as programs start it."""
    process = subprocess.Popen(
        [*KEISEI, "usi", *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=heed_ctrl_c,  # noqa: PLW1509
        **options,
    )
    talk = Talk(process.stdin, process.stdout)
    try:
        yield process, talk
    finally:
        process.kill()
        process.wait()
        talk.stop_listening()
        process.stdout.close()
        process.stderr.close()


def save_small_model(folder):
    """A checkpoint of a small network in a folder; its path."""
    tensors, _ = small_agent().state()
    named = {f"agent.{name}": tensor for name, tensor in tensors.items()}
    return CheckpointStore(folder, keep=1).save(1, named, {"model": SMALL_MODEL.model_dump()})
