"""Which model plays when none is named: the packaged one, else that of the newest run."""

from __future__ import annotations

import re
from pathlib import Path

PACKAGED = Path(__file__).parent.parent / "models"
RUNS = Path("runs")
_GAME_OF_A_WORLD = re.compile(r"^game:", re.MULTILINE)


def choose_model(named: Path | None, *, packaged: Path = PACKAGED, runs: Path = RUNS) -> Path:
    """A run or checkpoint that is there: the named one, the packaged one, or the newest run.

    Nothing is loaded, so that it takes no time; a `ValueError` says what is missing.
    """
    if named is not None:
        if not named.is_dir():
            raise ValueError(f"{named} is not a run or one of its checkpoints")
        return named
    checkpoints = sorted(state.parent for state in packaged.glob("*/state.json"))
    if checkpoints:
        return checkpoints[0]
    candidates = [config.parent for config in runs.glob("*/config.yaml") if _plays_shogi(config)]
    if not candidates:
        raise ValueError(f"there is no trained model in {runs}/: name one, or run keisei train")
    return max(candidates, key=_last_saved)


def _plays_shogi(config: Path) -> bool:
    """Whether the run of a config trains a player of shogi and has a checkpoint."""
    saved = any(config.parent.glob("checkpoints/update-*/state.json"))
    return saved and not _GAME_OF_A_WORLD.search(config.read_text(encoding="utf-8"))


def _last_saved(run: Path) -> float:
    return max(state.stat().st_mtime for state in run.glob("checkpoints/update-*/state.json"))
