"""The words of KIF: pieces, numbers, handicaps and endings."""

from __future__ import annotations

from keisei.shogi.notation.records import Ending
from keisei.shogi.sfen import START_SFEN

FULL_WIDTH_FILES = "１２３４５６７８９"
KANJI_RANKS = "一二三四五六七八九"

WORD_OF_PIECE = {
    "P": "歩",
    "L": "香",
    "N": "桂",
    "S": "銀",
    "G": "金",
    "B": "角",
    "R": "飛",
    "K": "玉",
    "+P": "と",
    # One character each: it is what diagrams need, and some readers know only these in moves.
    "+L": "杏",
    "+N": "圭",
    "+S": "全",
    "+B": "馬",
    "+R": "龍",
}
PIECE_OF_WORD = {word: letters for letters, word in WORD_OF_PIECE.items()} | {
    "王": "K",
    "成香": "+L",
    "成桂": "+N",
    "成銀": "+S",
    "竜": "+R",
}

COUNT_WORDS = ["零", *KANJI_RANKS, "十", *(f"十{unit}" for unit in KANJI_RANKS)]
"""Numbers up to 19 by their value."""

EVEN_GAME = "平手"
OTHER_START = "その他"


def _without(back_rank: str, second_rank: str = "9") -> str:
    """The start of a handicap game: white lacks pieces and moves first."""
    rest = START_SFEN.split()[0].split("/")[2:]
    return "/".join([back_rank, second_rank, *rest]) + " w - 1"


HANDICAPS = {
    EVEN_GAME: START_SFEN,
    "香落ち": _without("lnsgkgsn1", "1r5b1"),
    "右香落ち": _without("1nsgkgsnl", "1r5b1"),
    "角落ち": _without("lnsgkgsnl", "1r7"),
    "飛車落ち": _without("lnsgkgsnl", "7b1"),
    "飛香落ち": _without("lnsgkgsn1", "7b1"),
    "二枚落ち": _without("lnsgkgsnl"),
    "三枚落ち": _without("lnsgkgsn1"),
    "四枚落ち": _without("1nsgkgsn1"),
    "五枚落ち": _without("2sgkgsn1"),
    "左五枚落ち": _without("1nsgkgs2"),
    "六枚落ち": _without("2sgkgs2"),
    "左七枚落ち": _without("2sgkg3"),
    "右七枚落ち": _without("3gkgs2"),
    "八枚落ち": _without("3gkg3"),
    "十枚落ち": _without("4k4"),
}
HANDICAP_OF_SFEN = {sfen: name for name, sfen in HANDICAPS.items()}

ENDING_OF_WORD = {
    "投了": Ending.RESIGN,
    "詰み": Ending.CHECKMATE,
    "詰": Ending.CHECKMATE,
    "不詰": Ending.NO_MATE,
    "切れ負け": Ending.TIME_UP,
    "時間切れ": Ending.TIME_UP,
    "反則負け": Ending.ILLEGAL_MOVE,
    "反則手": Ending.ILLEGAL_MOVE,
    "反則勝ち": Ending.FOUL_WIN,
    "入玉勝ち": Ending.DECLARATION_WIN,
    "入玉宣言": Ending.DECLARATION_WIN,
    "宣言勝ち": Ending.DECLARATION_WIN,
    "持将棋": Ending.IMPASSE,
    "引き分け": Ending.DECLARED_DRAW,
    "千日手": Ending.REPETITION,
    "最大手数": Ending.MAX_MOVES,
    "不戦敗": Ending.DEFAULT_LOSS,
    "不戦勝": Ending.DEFAULT_WIN,
    "封じ手": Ending.SEALED_MOVE,
    "中断": Ending.ABORT,
}
WORD_OF_ENDING = {
    Ending.RESIGN: "投了",
    Ending.CHECKMATE: "詰み",
    Ending.NO_MATE: "不詰",
    Ending.TIME_UP: "切れ負け",
    Ending.ILLEGAL_MOVE: "反則負け",
    Ending.FOUL_WIN: "反則勝ち",
    Ending.DECLARATION_WIN: "入玉勝ち",
    Ending.IMPASSE: "持将棋",
    Ending.REPETITION: "千日手",
    Ending.DEFAULT_LOSS: "不戦敗",
    Ending.DEFAULT_WIN: "不戦勝",
    Ending.SEALED_MOVE: "封じ手",
    Ending.ABORT: "中断",
}
NEAREST_ENDING = {
    Ending.FOUL_LOSS: Ending.ILLEGAL_MOVE,
    Ending.DECLARED_DRAW: Ending.IMPASSE,
    Ending.MAX_MOVES: Ending.IMPASSE,
    Ending.TAKEBACK: Ending.ABORT,
    Ending.ERROR: Ending.ABORT,
}
"""What to write for endings that KIF has no word for."""
