"""`keisei usi` as a process: its streams, its log, how it ends."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import NoReturn

from keisei.play.usi_engine import Player, UnplayableModelError, UsiEngine
from keisei.play.usi_stream import UsiStream

_FAILED = 1
_BAD_INPUT = 2
_INTERRUPTED = 130


def speak_usi(model: Path, log: Path | None) -> NoReturn:
    """Answer standard input until it ends, with the player of a run or checkpoint."""

    def load() -> Player:
        # Imports torch, which takes a second: `usi` is answered before.
        from keisei.play.engine_player import load_player

        return load_player(model)

    log_file = None if log is None else log.open("a", encoding="utf-8")
    stream = UsiStream(sys.stdin.buffer, sys.stdout.buffer, log_file)
    code = 0
    try:
        UsiEngine(stream, load).run()
    except UnplayableModelError as error:
        sys.stderr.write(f"keisei: {error}\n")
        code = _BAD_INPUT
    except KeyboardInterrupt:
        code = _INTERRUPTED
    except BaseException:
        traceback.print_exc()
        code = _FAILED
    sys.stderr.flush()
    # Python would wait here for the thread that reads, which waits for a line.
    os._exit(code)
