"""Names of headers: the neutral ones of a `GameRecord`, and what KIF and CSA call them.

Headers outside these tables keep the name they have in their file. Values stay as they were
written; only dates and time limits are rewritten when they leave for the other format.
"""

from __future__ import annotations

import re

KIF_NAMES = {
    "black": "先手",
    "white": "後手",
    "start_time": "開始日時",
    "end_time": "終了日時",
    "event": "棋戦",
    "site": "場所",
    "time_limit": "持ち時間",
    "opening": "戦型",
    "note": "備考",
}
CSA_NAMES = {
    "start_time": "START_TIME",
    "end_time": "END_TIME",
    "event": "EVENT",
    "site": "SITE",
    "time_limit": "TIME_LIMIT",
    "opening": "OPENING",
    "note": "NOTE",
}
NEUTRAL_OF_KIF = {name: neutral for neutral, name in KIF_NAMES.items()} | {
    "下手": "black",
    "上手": "white",
    "対局日": "start_time",
}
NEUTRAL_OF_CSA = {name: neutral for neutral, name in CSA_NAMES.items()}

KIF_HEADER_NAME = r"(?!まで|変化|手合割|[先後下上]手の持ち?駒)[^\W\d_][^\s：:]*"
"""What may stand before the colon in KIF without being taken for something else."""
CSA_HEADER_NAME = r"[^\s:]+"

_WEEKDAY = re.compile(r"[(（][月火水木金土日][)）]")
_CSA_TIME_LIMIT = re.compile(r"(\d{1,4}):(\d{2})\+(\d{1,4})")
_KIF_TIME_LIMIT = re.compile(
    r"(?:(\d{1,4})時間)?(?:(\d{1,4})分)?(?:\s*[+＋]\s*(\d{1,4})秒)?", re.ASCII
)


def csa_value(name: str, value: str) -> str:
    """A header's value as CSA wants it: no weekday in dates, time limits as `HH:MM+SS`."""
    if name in ("start_time", "end_time"):
        return _WEEKDAY.sub("", value)
    match = _KIF_TIME_LIMIT.fullmatch(value)
    if name != "time_limit" or not match or not value:
        return value
    hours, minutes, byoyomi = (int(number or 0) for number in match.groups())
    hours, minutes = hours + minutes // 60, minutes % 60
    return f"{hours:02}:{minutes:02}+{byoyomi:02}"


def kif_value(name: str, value: str) -> str:
    """A header's value as KIF wants it: time limits in words."""
    match = _CSA_TIME_LIMIT.fullmatch(value)
    if name != "time_limit" or not match:
        return value
    hours, minutes, byoyomi = (int(number) for number in match.groups())
    text = f"{hours}時間{minutes}分" if hours and minutes else ""
    text = text or (f"{hours}時間" if hours else f"{minutes}分")
    return f"{text}+{byoyomi}秒" if byoyomi else text
