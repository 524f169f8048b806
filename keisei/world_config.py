"""Every setting of a run in a world of many agents: typed, validated, documented."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

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


class AgentsInParallel(Section):
    """What agents do at the same time; see docs/parallel-agents.md."""

    enabled: bool = Field(False, description="Off: one agent after the other.")
    parallel_actions: bool = Field(
        True, description="Agents with networks alike decide in one pass; all look first."
    )
    parallel_training: bool = Field(
        True, description="Agents train at the same time: in threads, on a GPU in one pass."
    )
    async_learning: bool = Field(
        False, description="Learn beside the collection, from copies of what was collected."
    )
    train_interval: int = Field(
        1, ge=1, description="Epochs between two lessons of the learner beside the collection."
    )
    backlog: int = Field(
        4, ge=1, description="Epochs that wait for a busy learner; older ones are forgotten."
    )
    keep_pace: bool = Field(
        True, description="Wait a little before each turn, so that a learner beside keeps up."
    )
    lesson_timeout: float | None = Field(
        None,
        gt=0,
        description="Seconds after which a lesson beside is abandoned, as a failure; null: never.",
    )
    max_agents_per_lesson: int | None = Field(
        None,
        ge=1,
        description="Learn at once beside, most new experience first; null: all that are due.",
    )
    num_workers: int | None = Field(
        None, ge=1, le=1024, description="Threads, or processes; null: as many as processors."
    )
    use_threads: bool = Field(
        True,
        description="Off: processes play, each some of the copies; see docs/parallel-agents.md.",
    )
    training_processes: int = Field(
        0,
        ge=0,
        le=1024,
        description="Processes that train agents unlike all others; 0: threads of this one.",
    )
    deterministic: bool = Field(
        False, description="Take up new weights at fixed times, so that runs can be repeated."
    )

    @model_validator(mode="after")
    def _lessons_fit_the_backlog(self) -> Self:
        if self.backlog < self.train_interval:
            raise ValueError(
                f"backlog is {self.backlog}, but must be at least train_interval "
                f"({self.train_interval})"
            )
        return self

    @model_validator(mode="after")
    def _only_a_learner_beside_is_limited(self) -> Self:
        for name in ("lesson_timeout", "max_agents_per_lesson"):
            if getattr(self, name) is not None and not self.async_learning:
                raise ValueError(f"{name} is for a learner beside: set async_learning")
        if self.training_processes and not self.parallel_training:
            raise ValueError("training_processes train at the same time: set parallel_training")
        return self


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
    observe: Literal["in_turn", "together"] | None = Field(
        None,
        description="Each agent looks when its turn comes, or all look, then act; "
        "null: in_turn, but together with parallel_actions.",
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        "cpu", description="Where agents decide and learn; auto takes a GPU if there is one."
    )
    threads: int = Field(1, ge=0, le=1024, description="CPU threads; 0: as many as there are.")
    record_interval: int = Field(
        0, ge=0, description="Epochs between two that are saved as a GIF; 0: none."
    )
    learner: LearnerConfig = LearnerConfig()
    parallel: AgentsInParallel = AgentsInParallel()
    checkpoints: CheckpointConfig = CheckpointConfig()
    logging: MetricsConfig = MetricsConfig()
