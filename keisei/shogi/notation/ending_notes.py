"""Notes for what a format has no word for.

KIF knows no move limit, CSA no sealed move, and neither has a place for the illegal move that lost
a game. Such things are written as a comment in front of the ending, where a person sees them and
where our readers find them again; the ending itself becomes the nearest one the format knows.
"""

from __future__ import annotations

import re

from keisei.shogi.notation.records import Ending, GameRecord

_ILLEGAL_MOVE_NOTE = re.compile(r"反則手：((?:[1-9][a-i]){2}\+?|[PLNSGBR]\*[1-9][a-i])")
_ENDING_NOTE = re.compile(r"終局：([a-z_]+)")
_ENDING_OF_VALUE = {ending.value: ending for ending in Ending}


def ending_notes(record: GameRecord, written: Ending | None) -> list[str]:
    """The comment lines needed beside the ending that is `written`."""
    notes = []
    if record.illegal_move:
        notes.append(f"反則手：{record.illegal_move}")
    if record.ending is not None and record.ending != written:
        notes.append(f"終局：{record.ending.value}")
    return notes


def restore_from_notes(record: GameRecord) -> None:
    """Turn notes in front of the ending back into what they stand for."""
    if record.ending is None:
        return
    holder = record.moves[-1] if record.moves else record
    other_lines = []
    for line in holder.comment.split("\n"):
        match = _ILLEGAL_MOVE_NOTE.fullmatch(line)
        if match and record.ending is Ending.ILLEGAL_MOVE:
            record.illegal_move = match[1]
        elif (match := _ENDING_NOTE.fullmatch(line)) and match[1] in _ENDING_OF_VALUE:
            record.ending = _ENDING_OF_VALUE[match[1]]
        else:
            other_lines.append(line)
    holder.comment = "\n".join(other_lines)
