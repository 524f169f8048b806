"""Train shogi in parallel from Python, watch the workers, and measure the result.

Run it with `python examples/parallel_training_example.py`.
"""

from __future__ import annotations

from keisei.config_loading import load_config
from keisei.evaluation.model_player import evaluate_for_training
from keisei.training.trainer import Trainer


def main() -> None:
    """Twenty updates with two workers."""
    config = load_config(
        "shogi-laptop",
        [
            "training.parallel.enabled=true",
            "training.parallel.num_workers=2",
            "training.parallel.mode=async",
            "training.parallel.max_policy_lag=2",
        ],
    )
    trainer = Trainer(config)
    trainer.on_news = print  # a worker that is replaced is told here
    try:
        for _ in range(20):
            rollout = trainer.collect()  # from the workers, which go on playing meanwhile
            figures = trainer.perform_ppo_update()  # publishes the new weights
            print(
                f"update {trainer.updates}: {rollout.steps} plies, {rollout.games} games, "
                f"loss {figures['loss']:.3f}, entropy {figures['entropy']:.2f}"
            )
        for line in trainer.collector.report().workers:
            print(line)
        print(evaluate_for_training(trainer.agent, "random", games=20, seed=1).line)
    finally:
        trainer.close()  # ends every process


if __name__ == "__main__":  # workers import this file: without this line they would train too
    main()
