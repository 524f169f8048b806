"""Every setting of a run in a world of many agents: typed, validated, documented."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from keisei.config_schema import CheckpointConfig, MetricsConfig, Section

Scalar = bool | int | float | str
Value = Scalar | list[Scalar]


class LearnerConfig(Section):
    """How each agent learns, by itself; see docs/worlds.md."""

    kind: Literal["ppo", "iqn", "random"] = Field("ppo", description="The model of every agent.")
    train_steps: int = Field(
        1, ge=0, le=100_000, description="Train steps of each agent after an epoch."
    )
    settings: dict[str, Value] = Field(
        {}, description="Of the model, by name; what is left out has its default."
    )


class WorldConfig(Section):
    """All settings of a run in a world."""

    seed: int = Field(1, ge=0, lt=2**63, description="Same seed, same run.")
    runs_folder: str = Field("runs", min_length=1, description="Where run folders are made.")
    name: str = Field(
        "world",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        description="First part of the folder's name.",
    )
    game: str = Field(
        "treasurehunt",
        min_length=1,
        description="A game that ships, file.py:Class, or pettingzoo:module:function.",
    )
    rules: dict[str, Value] = Field(
        {}, description="Of the game, by name; what is left out has its default."
    )
    copies: int = Field(64, ge=1, le=100_000, description="Worlds side by side.")
    epochs: int = Field(300, ge=1, description="Epochs to play in all.")
    observe: Literal["in_turn", "together"] = Field(
        "in_turn", description="Each agent looks when its turn comes, or all look, then act."
    )
    threads: int = Field(1, ge=0, le=1024, description="CPU threads; 0: as many as there are.")
    record_interval: int = Field(
        0, ge=0, description="Epochs between two that are saved as a GIF; 0: none."
    )
    learner: LearnerConfig = LearnerConfig()
    checkpoints: CheckpointConfig = CheckpointConfig()
    logging: MetricsConfig = MetricsConfig()
