"""Every setting of a training run: typed, validated, documented.

`docs/configuration.md` is generated from these classes, and a test fails when a setting is read by
nothing.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1, le=1024)] | Literal["auto"]


class Section(BaseModel):
    """A group of settings; unknown keys are refused and values never change."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False
    )


class ModelConfig(Section):
    """The network that plays."""

    depth: int = Field(4, ge=0, le=80, description="Residual blocks of two convolutions each.")
    width: int = Field(64, ge=4, le=1024, description="Channels of the tower.")
    squeeze_excitation: bool = Field(
        False, description="Scale each block's channels by a summary of the whole board."
    )
    features: Literal["core46", "attack", "tactics"] = Field(
        "core46",
        description="What the network sees: pieces and hands; with attack also what each kind "
        "attacks; with tactics also checks, escapes, exchanges, forks and mates.",
    )
    value_width: int = Field(64, ge=1, le=4096, description="Hidden units of the value head.")


class GamesConfig(Section):
    """The games that are played to learn from."""

    count: int = Field(256, ge=1, description="Games played side by side.")
    max_moves: int = Field(512, ge=2, le=32767, description="A game is cut after this many plies.")
    declaration: Literal["off", "24", "27"] = Field(
        "off", description="The entering-king rule that ends games."
    )
    random_start_share: Share = Field(
        0.25, description="Share of games that begin after random legal plies."
    )
    random_start_plies: int = Field(
        40, ge=1, le=400, description="The most random plies at such a start."
    )
    rewind_share: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.0, description="Share of won games that go on from some plies before their end."
    )
    rewind_plies: int = Field(20, ge=1, le=400, description="The most plies that are taken back.")
    opponent_share: Share = Field(
        0.0,
        description="Share of games against a frozen past self; only the learner's moves train.",
    )
    opponent_ring: int = Field(8, ge=1, le=256, description="Past selves kept as opponents.")
    opponent_choice: Literal["uniform", "rating"] = Field(
        "uniform", description="How one is drawn: all alike, or rather those that are a match."
    )
    opponent_interval: int = Field(
        20, ge=1, description="Updates between two past selves, and between changes of opponent."
    )


class PPOConfig(Section):
    """How the network learns from what was played."""

    learning_rate: float = Field(1e-3, gt=0, le=1, description="Learning rate at the start.")
    final_learning_rate: float = Field(1e-4, ge=0, le=1, description="Learning rate at the end.")
    optimizer: Literal["adamw", "muon"] = Field(
        "adamw", description="What follows the gradients; muon: the tower's by `core/muon.py`."
    )
    weight_decay: float = Field(1e-4, ge=0, le=1, description="Weight decay of the optimizer.")
    epochs: int = Field(1, ge=1, le=100, description="Passes over each rollout.")
    minibatch: int = Field(1024, ge=1, description="Steps in one gradient step.")
    clip: float = Field(0.2, gt=0, lt=1, description="PPO's bound on the change of a probability.")
    value_coefficient: float = Field(0.5, ge=0, le=100, description="Weight of the value loss.")
    entropy: float = Field(0.01, ge=0, le=10, description="Weight of the entropy at the start.")
    final_entropy: float = Field(
        0.004, ge=0, le=10, description="Weight of the entropy at the end."
    )
    gamma: float = Field(0.995, gt=0, le=1, description="Discount a ply.")
    gae_lambda: float = Field(0.95, ge=0, le=1, description="Mix of GAE: 0 one step, 1 the result.")
    cut_games: Literal["draw", "bootstrap"] = Field(
        "draw", description="What a game cut by the move limit is worth: 0, or the network's value."
    )
    advantage_floor: float = Field(
        0.1, ge=0, description="Advantages are divided by their deviation, or by this if larger."
    )
    max_grad_norm: float = Field(1.0, gt=0, description="Gradients are clipped to this norm.")
    target_kl: float = Field(
        0.03, gt=0, description="An update stops early when the policy has moved further than this."
    )


class CheckpointConfig(Section):
    """What is kept of a run on disk."""

    interval: int = Field(50, ge=1, description="Updates or epochs between checkpoints.")
    keep: int = Field(3, ge=1, le=1000, description="Newest checkpoints kept; the best is too.")


class EvaluationConfig(Section):
    """Matches during training."""

    interval: int = Field(200, ge=1, description="Updates between evaluations.")
    games: int = Field(100, ge=2, le=100_000, description="Games in each evaluation.")
    final_games: int = Field(200, ge=2, le=100_000, description="Games in the last evaluation.")
    opponents: tuple[str, ...] = Field(
        ("random", "greedy"), min_length=1, description="Who is played, as for `keisei evaluate`."
    )
    ladder_games: int | None = Field(
        None,
        ge=10,
        le=10_000,
        description="Games for a rating on the ladder at each evaluation; default: no rating.",
    )


class MetricsConfig(Section):
    """Where figures go besides `metrics.jsonl` and TensorBoard."""

    wandb: Literal["off", "offline", "online"] = Field("off", description="Weights & Biases.")
    wandb_project: str = Field("keisei", min_length=1, description="Its project.")


class LoggingConfig(MetricsConfig):
    """Where figures go besides `metrics.jsonl` and TensorBoard, and games."""

    sample_games: int = Field(2, ge=0, le=1000, description="Games saved as KIF at an evaluation.")


class WorkerProfile(Section):
    """What one worker does otherwise than the others; what is left out stays as it is."""

    random_start_share: Share | None = Field(
        None, description="Share of its games that begin after random legal plies."
    )
    opponent_share: Share | None = Field(
        None, description="Share of its games against a frozen past self."
    )
    temperature: float = Field(
        1.0, gt=0, le=10, description="Above 1 it plays more varied moves, below 1 fewer."
    )


class ParallelConfig(Section):
    """Worker processes that play, and helpers that learn."""

    enabled: bool = Field(False, description="Play in worker processes.")
    num_workers: Count = Field(
        "auto", description="Processes that play; auto: by cores, memory and a measurement."
    )
    num_learners: Count = Field(
        "auto", description="Processes that compute gradients, the main one included; 1 on a GPU."
    )
    minibatches_at_once: Count = Field(
        "auto",
        description="Minibatches whose gradients the learners compute with the same weights; "
        "auto: 1 in sync mode, 4 in async mode, or as many as there are learners.",
    )
    games_per_worker: int | None = Field(
        None,
        ge=1,
        description="Games of each worker; default: games.count, shared out to those workers that "
        "an update is of.",
    )
    rollout_length: int | None = Field(
        None, ge=1, le=4096, description="Plies of each game; default: training.rollout_length."
    )
    episodes_per_worker: int | None = Field(
        None,
        ge=1,
        description="A worker reports when this many games have ended, or at rollout_length.",
    )
    mode: Literal["sync", "async"] = Field(
        "async", description="sync: play, then learn, repeatably. async: play while learning."
    )
    max_policy_lag: int = Field(
        1,
        ge=1,
        le=1000,
        description="Steps played by weights older than this do not train. An update is of one "
        "rollout of every worker; with 2, in async mode, of those of half of them, and so on.",
    )
    model_sync_interval: int = Field(
        1, ge=1, le=1000, description="Updates between publications of the weights."
    )
    adaptive_sync: bool = Field(
        False, description="Publish more often while the policy lag is above half its bound."
    )
    compression_enabled: bool = Field(
        False, description="Publish weights in half precision: half the bytes, rounded moves."
    )
    worker_timeout: float = Field(
        60.0, gt=0, description="Seconds of silence after which a worker is killed and replaced."
    )
    queue_maxsize: int | None = Field(
        None,
        ge=1,
        description="Slots for rollouts; default: what the policy lag allows, and one being read.",
    )
    use_shared_memory: bool = Field(
        True, description="Off: experience and weights travel through pipes, several times slower."
    )
    max_restarts: int = Field(
        5, ge=0, description="Failures in a row, without a rollout between, until one is given up."
    )
    restart_backoff: float = Field(
        0.5, ge=0, description="Seconds before the second restart in a row; doubles each time."
    )
    fallback_to_serial: bool = Field(
        True, description="Go on in this process when no worker can be kept alive; off: stop."
    )
    seed: int | None = Field(
        None, ge=0, lt=2**63, description="Of the workers' games; default: the run's seed."
    )
    worker_profiles: tuple[WorkerProfile, ...] = Field(
        (), description="What single workers do otherwise, in order; the rest stay alike."
    )

    @property
    def updates_ahead(self) -> int:
        """How many updates workers may play ahead, so that no step is older than allowed."""
        return 1 if self.mode == "sync" else self.max_policy_lag - self.model_sync_interval + 1

    # The sentences begin with a setting's name: config_loading puts the section before it.

    @model_validator(mode="after")
    def _steps_can_be_young_enough(self) -> Self:
        """Weights grow as old as the interval before newer ones are published."""
        if self.mode == "async" and self.max_policy_lag < self.model_sync_interval:
            raise ValueError(
                f"max_policy_lag is {self.max_policy_lag}, but must be at least "
                f"model_sync_interval ({self.model_sync_interval}) in async mode"
            )
        if self.mode == "sync" and self.model_sync_interval != 1:
            raise ValueError(
                f"model_sync_interval is {self.model_sync_interval}, but must be 1 in sync mode, "
                "where every rollout is played with the newest weights"
            )
        return self

    @model_validator(mode="after")
    def _every_profile_has_a_worker(self) -> Self:
        profiles, workers = len(self.worker_profiles), self.num_workers
        if isinstance(workers, int) and profiles > workers:
            raise ValueError(
                f"worker_profiles has {profiles} entries, but must have at most "
                f"num_workers ({workers})"
            )
        return self


class TrainingConfig(Section):
    """The loop."""

    total_steps: int = Field(1_000_000, ge=1, description="Plies to play in all.")
    rollout_length: int = Field(32, ge=1, le=4096, description="Plies of each game an update.")
    threads: int = Field(0, ge=0, le=1024, description="CPU threads; 0: as many as there are.")
    compile: bool = Field(True, description="Compile the network with torch.compile on a GPU.")
    cuda_graphs: bool = Field(
        True, description="Record what a GPU does for each batch, and start it as a whole."
    )
    mixed_precision: bool = Field(
        True, description="bfloat16 arithmetic where the GPU or CPU has it."
    )
    collector: Literal["auto", "processes", "device"] = Field(
        "auto",
        description="Who plays. device: the learner's network in large batches, rollouts staying "
        "on its GPU. processes: as `parallel` says. auto: device on a GPU unless `parallel` is on.",
    )
    parallel: ParallelConfig = ParallelConfig()


class Config(Section):
    """All settings of a run."""

    seed: int = Field(1, ge=0, lt=2**63, description="Same seed, same run.")
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="Where the network runs; auto takes a GPU if there is one."
    )
    runs_folder: str = Field("runs", min_length=1, description="Where run folders are made.")
    name: str = Field(
        "shogi",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        description="First part of the folder's name.",
    )
    model: ModelConfig = ModelConfig()
    games: GamesConfig = GamesConfig()
    ppo: PPOConfig = PPOConfig()
    training: TrainingConfig = TrainingConfig()
    checkpoints: CheckpointConfig = CheckpointConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    logging: LoggingConfig = LoggingConfig()


def with_parallel(config: Config, **changes: object) -> Config:
    """The config with other settings of `training.parallel`."""
    parallel = config.training.parallel.model_copy(update=changes)
    training = config.training.model_copy(update={"parallel": parallel})
    return config.model_copy(update={"training": training})
