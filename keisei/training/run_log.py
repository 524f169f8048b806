"""The log of a run, written by all its processes: who said what, and when."""

from __future__ import annotations

import logging
from pathlib import Path

LOG_FILE = "run.log"


def open_run_log(path: Path, who: str) -> logging.Handler:
    """Have the loggers of this package append to a file, with the process's name and number.

    A line is one write at the end of the file, so lines of different processes do not mix.
    """
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(
        logging.Formatter(f"%(asctime)s %(levelname)s [{who}, pid %(process)d] %(message)s")
    )
    logger = logging.getLogger("keisei")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(handler)
    return handler


def close_run_log(handler: logging.Handler) -> None:
    """Stop appending to the file that `open_run_log` opened."""
    logging.getLogger("keisei").removeHandler(handler)
    handler.close()
