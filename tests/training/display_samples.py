"""A run in the middle, as displays are shown it, and a stream that says it is a terminal."""

import io

from keisei.shogi.shogi_game import ShogiGame
from keisei.training.training_snapshot import TrainingSnapshot

FIGURES = {
    "policy_loss": -0.0123,
    "value_loss": 0.512,
    "entropy": 2.345,
    "kl": 0.0117,
    "learning_rate": 9.5e-4,
    "explained_variance": 0.25,
    "legal_moves": 81.5,
    "cut_share": 0.04,
    "game_length": 131.0,
}
SNAPSHOT = TrainingSnapshot(
    run="shogi-[1]",
    updates=1234,
    steps=12_500_000,
    total_steps=50_000_000,
    seconds=754,
    steps_per_second=41_234.4,
    eta_seconds=3 * 3600 + 25 * 60 + 45,
    games=10_000,
    results={"black wins": 5000, "white wins": 4500, "draws": 200, "cut": 300},
    reasons={"checkmate": 9400, "repetition": 200, "perpetual_check": 100, "max_moves": 300},
    figures=FIGURES,
    history={name: [value * (1 + i % 7) for i in range(98)] for name, value in FIGURES.items()},
    evaluations=[f"update {u}: random 98.0 %, greedy {u // 20} % [±3]" for u in (400, 800, 1200)],
    board=str(ShogiGame()),
    shares={"games": 0.31, "inference": 0.42, "update": 0.22, "other": 0.05},
    workers=["worker 0 (pid 123): 6,250,000 plies", "worker 1 (given up): 0 plies"],
)


class TerminalText(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True
