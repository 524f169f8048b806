"""What the command line does with bad input: one sentence on stderr and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 130


@contextmanager
def one_sentence_for_bad_input() -> Iterator[None]:
    """Turn errors about the user's input into one sentence and exit code 2."""
    try:
        yield
    except OSError as error:
        sys.stderr.write(f"keisei: cannot write {error.filename}: {error.strerror}\n")
        raise typer.Exit(BAD_INPUT) from None
    except ValueError as error:
        sys.stderr.write(f"keisei: {error}\n")
        raise typer.Exit(BAD_INPUT) from None
