"""What the engine says: search reports, scores and moves as lines of USI."""

from __future__ import annotations

import math

from keisei.play.searching import Line, SearchReport

_CENTIPAWNS = 600.0
_NEAREST_TO_CERTAIN = 1 - 1e-6
MATE_CENTIPAWNS = 31_000


def centipawns(value: float) -> int:
    """A value from -1 to 1 in the unit that shogi programs show, from -8705 to 8705.

    It is 600 ln((1 + v) / (1 - v)): the expected result as the odds of winning, in the scale by
    which shogi programs turn odds into scores. It rises with the value everywhere.
    """
    certain = min(max(value, -_NEAREST_TO_CERTAIN), _NEAREST_TO_CERTAIN)
    return round(_CENTIPAWNS * math.log((1 + certain) / (1 - certain)))


def score_of(line: Line) -> int:
    """Centipawns that also order mates: sooner is more, and any mate more than any value."""
    if line.mate is None:
        return centipawns(line.value)
    return MATE_CENTIPAWNS - line.mate if line.mate > 0 else -MATE_CENTIPAWNS - line.mate


def info_lines(report: SearchReport, *, shown: int) -> list[str]:
    """The `info` of the best `shown` lines of a report."""
    nps = round(report.nodes / report.seconds) if report.seconds > 0 else 0
    lines = []
    for number, line in enumerate(report.lines[:shown], 1):
        multipv = f" multipv {number}" if shown > 1 else ""
        lines.append(
            f"info depth {len(line.moves)} seldepth {max(report.seldepth, len(line.moves))}"
            f"{multipv} score {_score(line)} nodes {report.nodes} nps {nps}"
            f" time {round(report.seconds * 1000)} hashfull {report.hashfull}"
            f" pv {' '.join(line.moves)}"
        )
    return lines


def _score(line: Line) -> str:
    return f"cp {centipawns(line.value)}" if line.mate is None else f"mate {line.mate}"


def info_string(sentence: object) -> str:
    """A sentence for the log of the other program, on one line whatever it quotes."""
    return f"info string {' '.join(str(sentence).split())[:500]}"
