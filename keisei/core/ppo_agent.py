"""`PPOAgent`: the network, how it chooses moves, and how it learns from a rollout."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from keisei.config_schema import ModelConfig, PPOConfig
from keisei.core.experience_buffer import ExperienceBuffer
from keisei.core.fused_network import FusedNetwork, half_network
from keisei.core.half_copy import HalfCopy
from keisei.core.legal_policy import choose_moves, played_moves
from keisei.core.legal_pool import padded_width
from keisei.core.minibatch import (
    Lesson,
    Minibatch,
    lesson_of,
    minibatch_of,
    own_steps,
    shuffled_minibatches,
)
from keisei.core.muon import Muon
from keisei.core.ppo_loss import ppo_losses
from keisei.core.res_tower import model_factory
from keisei.core.rollout_health import rollout_health


class Choice(NamedTuple):
    """What a network says of B positions."""

    actions: NDArray[np.int64]
    log_probs: NDArray[np.float32]
    values: NDArray[np.float32]


class Answer(NamedTuple):
    """What weights of some version say of B positions, on the agent's device."""

    logits: Tensor
    """As the functions of `legal_policy` take them."""
    values: Tensor
    """[B] for the mover."""
    version: int


class NonFiniteLossError(RuntimeError):
    """An update met a loss or gradient that is not a number; the weights before it are kept."""


@dataclass(frozen=True)
class ScheduledUpdate:
    """What the schedule says for one update."""

    learning_rate: float
    entropy_weight: float

    def figures(self) -> dict[str, float]:
        """For the metrics."""
        return {"learning_rate": self.learning_rate, "entropy_weight": self.entropy_weight}


class GradientSource(Protocol):
    """Who computes the gradients of an agent's minibatches."""

    def gradients_in_turn(
        self, lesson: Lesson, minibatches: Iterable[NDArray[np.int64]]
    ) -> Iterator[dict[str, Tensor]]:
        """For one minibatch after another set the gradient of every parameter of the agent's model.

        A minibatch is [N] numbers of steps in the lesson's buffer. Yields its losses, by name,
        whereupon the agent takes a step. What is not finite is left to the agent to refuse.
        """


class PPOAgent:
    """A network and its optimizer.

    `mixed_precision` counts where the hardware has bfloat16, `compile` and `record` on a GPU, the
    latter for what plays and learns there (`device_policy`). Random numbers for shuffling come from
    the agent's own generator, whose state belongs to a checkpoint. Gradients come from
    `gradient_source`; without one the agent computes them itself.
    """

    def __init__(
        self,
        model_config: ModelConfig,
        ppo_config: PPOConfig,
        *,
        device: torch.device | str = "cpu",
        seed: int = 0,
        compile: bool = False,
        record: bool = False,
        mixed_precision: bool = False,
    ) -> None:
        self.model_config = model_config
        self.config = ppo_config
        self.device = torch.device(device)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.model = model_factory(model_config, device=self.device)
        self._parameters = list(self.model.parameters())
        on_gpu = self.device.type == "cuda"
        # The compiled module shares its parameters with `model`, whose names stay as they are.
        self.compiles = compile and on_gpu
        self.records = record and on_gpu
        self._forward: Any = torch.compile(self.model) if self.compiles else self.model
        self.mixed_precision = mixed_precision and _has_bfloat16(self.device)
        self._half = half_network(self.model) if self.mixed_precision and not on_gpu else None
        self.generator = torch.Generator().manual_seed(seed)
        self.gradient_source: GradientSource | None = None
        self.version = 0

    @cached_property
    def optimizer(self) -> torch.optim.Optimizer:
        """Made when something learns: torch takes a second to import what it needs for it."""
        settings: dict[str, Any] = {
            "lr": self.config.learning_rate,
            "weight_decay": self.config.weight_decay,
        }
        if self.config.optimizer == "adamw":
            return torch.optim.AdamW(self.model.parameters(), **settings, fused=True)
        return Muon(self.model.parameters(), self.model.matrices(), **settings)

    def use_threads(self, count: int) -> None:
        """Compute with so many threads on a CPU.

        Where kernels of our own do the work torch keeps one: its threads wait for more by turning
        round and round, and update and collection took 1.2 times as long on two cores.
        """
        if isinstance(self._half, FusedNetwork):
            self._half.threads, count = count, 1
        torch.set_num_threads(count)

    def copy_for_playing(self) -> PPOAgent:
        """An agent of the same kind with its own weights, to be loaded with others."""
        return PPOAgent(
            self.model_config,
            self.config,
            device=self.device,
            compile=self.compiles,
            record=self.records,
            mixed_precision=self.mixed_precision,
        )

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Everything that learning continues from, as tensors and JSON.

        The tensors are the live ones, which the next update changes: write or copy them before.
        """
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        for number, slots in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{number}.{name}": value for name, value in slots.items()}
        tensors["generator"] = self.generator.get_state()
        return tensors, {"version": self.version}

    def load_state(self, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
        """Continue from copies of what `state` gave, here or elsewhere."""
        model = {k.removeprefix("model."): v for k, v in tensors.items() if k.startswith("model.")}
        self.model.load_state_dict(model)
        optimizer = self.optimizer.state_dict()
        optimizer["state"] = {}
        groups = self.optimizer.param_groups
        parameters = [parameter for group in groups for parameter in group["params"]]
        for key, value in tensors.items():
            if key.startswith("optimizer."):
                _, number, name = key.split(".")
                copy = _laid_out_like(parameters[int(number)], value)
                optimizer["state"].setdefault(int(number), {})[name] = copy
        self.optimizer.load_state_dict(optimizer)
        self.generator.set_state(tensors["generator"])
        self.version = state["version"]

    def autocast(self) -> Any:
        """The arithmetic that the network computes in, to be used by `with`."""
        if self.mixed_precision:
            return torch.autocast(self.device.type, dtype=torch.bfloat16)
        return nullcontext()

    @torch.no_grad()
    def select_actions(
        self,
        positions: NDArray[np.int8],
        legal: NDArray[np.uint16],
        counts: NDArray[Any],
        fractions: NDArray[np.float64] | None,
        *,
        temperature: float = 1.0,
        answer: Answer | None = None,
    ) -> Choice:
        """Choose a legal action for each of B positions.

        positions [B, 100], legal [B, 593], counts [B]; `fractions` [B] in [0, 1) decide the
        sampling, None takes the most probable move. A `temperature` above 1 samples more evenly;
        the log-probabilities told are those of temperature 1, which the update clips against.
        `answer` is what `ask` says of these positions, if that is known already.
        """
        moves = self._moves_here(legal, counts)
        logits, values, _ = self.ask(positions, legal, counts) if answer is None else answer
        drawn = None if fractions is None else torch.from_numpy(fractions).to(self.device)
        actions, log_probs = choose_moves(logits, *moves, drawn, temperature=temperature)
        return Choice(*(tensor.cpu().numpy() for tensor in (actions, log_probs, values)))

    @torch.no_grad()
    def ask(
        self, positions: NDArray[np.int8], legal: NDArray[np.uint16], counts: NDArray[Any]
    ) -> Answer:
        """What the network says of positions [B, 100] and their legal moves."""
        here, sets = self._positions_here(positions)
        moves = self._moves_here(legal, counts)
        return Answer(*self._for_moves(self.model, here, *moves, sets), self.version)

    @torch.no_grad()
    def answer(self, positions: NDArray[np.int8]) -> tuple[Tensor, Tensor]:
        """Logits [B, 2187] and values [B] of positions [B, 100], on the agent's device."""
        # Not compiled: every match would compile its batch sizes.
        return self._pass(self.model, *self._positions_here(positions))

    @torch.no_grad()
    def evaluate_positions(self, positions: NDArray[np.int8]) -> NDArray[np.float32]:
        """[B] value of each position for its mover."""
        values: NDArray[np.float32] = self.answer(positions)[1].cpu().numpy()
        return values

    def _positions_here(self, positions: NDArray[np.int8]) -> tuple[Tensor, Tensor | None]:
        """Positions [B, 100] on the device, and what `FeatureSet.expand` has to know there."""
        here = torch.from_numpy(positions).to(self.device)
        if self.device.type == "cpu":
            return here, None
        return here, self.model.features.sets_of(positions).to(self.device)

    def _moves_here(self, legal: NDArray[np.uint16], counts: NDArray[Any]) -> tuple[Tensor, Tensor]:
        """Actions [B, L] and counts [B] on the device.

        As int16: action numbers fit, and torch can index with them. On a CPU no copy, if L is the
        `padded_width` already.
        """
        some = np.ascontiguousarray(legal[:, : padded_width(counts)])
        actions = torch.from_numpy(some.view(np.int16))
        return actions.to(self.device), torch.from_numpy(counts).to(self.device)

    def update(self, buffer: ExperienceBuffer, progress: float) -> dict[str, float]:
        """Learn from a rollout whose advantages are computed; figures of the update.

        `progress` from 0 to 1 sets learning rate and entropy bonus. Raises `NonFiniteLossError`
        before a bad gradient touches the weights.
        """
        with self.scheduled_update(progress) as scheduled:
            figures = self._learn_from(buffer, scheduled.entropy_weight)
        return {**figures, **scheduled.figures(), **_health(buffer)}

    @contextmanager
    def scheduled_update(self, progress: float) -> Iterator[ScheduledUpdate]:
        """One update: learning rate and entropy weight for `progress`, and a new version after it.

        When it meets a `NonFiniteLossError`, everything is as before.
        """
        scheduled = ScheduledUpdate(
            _between(self.config.learning_rate, self.config.final_learning_rate, progress),
            _between(self.config.entropy, self.config.final_entropy, progress),
        )
        for group in self.optimizer.param_groups:
            group["lr"] = scheduled.learning_rate
        before = self._copy_of_state()
        try:
            yield scheduled
        except NonFiniteLossError:
            self.load_state(*before)
            raise
        self.version += 1

    def _copy_of_state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors, state = self.state()
        return {name: tensor.clone() for name, tensor in tensors.items()}, state

    def _learn_from(self, buffer: ExperienceBuffer, entropy_weight: float) -> dict[str, float]:
        """Take gradient steps until the rollout is used up or the policy has moved too far."""
        lesson = self._lesson(buffer, entropy_weight)
        sums: dict[str, Tensor] = {}
        done = 0
        stopped = False
        source = self if self.gradient_source is None else self.gradient_source
        minibatches = self.shuffled(own_steps(buffer))
        for losses in source.gradients_in_turn(lesson, minibatches):
            losses["grad_norm"] = self._take_step(losses)
            for name, value in losses.items():
                sums[name] = sums[name] + value if name in sums else value
            done += 1
            if float(losses["kl"]) > self.config.target_kl:
                stopped = True
                break
        figures = {name: float(value) / done for name, value in sums.items()}
        return {**figures, "minibatches": done, "stopped_early": float(stopped)}

    def _lesson(self, buffer: ExperienceBuffer, entropy_weight: float) -> Lesson:
        return lesson_of(
            buffer,
            advantage_floor=self.config.advantage_floor,
            entropy_weight=entropy_weight,
            version=self.version,
        )

    def shuffled(self, steps: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """The steps of each minibatch of an update."""
        return shuffled_minibatches(
            steps,
            size=self.config.minibatch,
            epochs=self.config.epochs,
            generator=self.generator,
        )

    def minibatches(self, buffer: ExperienceBuffer) -> Iterator[Minibatch]:
        """The minibatches that an update would take next, assembled."""
        lesson = self._lesson(buffer, 0.0)
        for chosen in self.shuffled(own_steps(buffer)):
            yield minibatch_of(lesson, chosen, self.device, self.model.features)

    def gradients_in_turn(
        self, lesson: Lesson, minibatches: Iterable[NDArray[np.int64]]
    ) -> Iterator[dict[str, Tensor]]:
        """See `GradientSource`: each with the newest weights."""
        for chosen in minibatches:
            yield self.gradients(lesson, chosen)

    def gradients(self, lesson: Lesson, chosen: NDArray[np.int64]) -> dict[str, Tensor]:
        """Set the gradient of every parameter for the steps `chosen` [N]; the losses, by name."""
        minibatch = minibatch_of(lesson, chosen, self.device, self.model.features)
        return self.gradients_of(minibatch, lesson.entropy_weight)

    def gradients_of(self, minibatch: Minibatch, entropy_weight: float) -> dict[str, Tensor]:
        """Set the gradient of every parameter for a minibatch; the losses, by name."""
        if isinstance(self._half, FusedNetwork):
            return self._half.learn(minibatch, self.config, entropy_weight)
        losses = self.losses(minibatch, entropy_weight)
        self._backward(losses["loss"])
        return {name: value.detach() for name, value in losses.items()}

    def losses(self, minibatch: Minibatch, entropy_weight: float) -> dict[str, Tensor]:
        """The clipped objective and its parts, differentiable in "loss" where torch computes."""
        logits, values = self._for_moves(
            self._forward, minibatch.positions, minibatch.legal, minibatch.counts, minibatch.sets
        )
        played = played_moves(logits, minibatch.legal, minibatch.counts, minibatch.actions)
        return ppo_losses(played, values, minibatch, self.config, entropy_weight)

    def _for_moves(
        self,
        network: Any,
        positions: Tensor,
        legal: Tensor,
        counts: Tensor,
        sets: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """Logits as the functions of `legal_policy` take them, and values."""
        if self._half is not None:
            return self._half.of_moves(positions, legal, counts)
        if self.device.type == "cpu":
            return self.model.planes_and_values(positions)
        return self._pass(network, positions, sets)

    def _pass(self, network: Any, positions: Tensor, sets: Tensor | None) -> tuple[Tensor, Tensor]:
        """Logits and values by a form of the model, in the agent's arithmetic."""
        if self._half is not None:
            return self._half(positions)
        with self.autocast():
            logits, values = network(positions, sets)
        return logits, values

    def _backward(self, loss: Tensor) -> None:
        """Set the gradients of the model's parameters."""
        if isinstance(self._half, HalfCopy):
            self._half.backward(loss)
        else:
            # Not by the optimizer, whose first call imports Dynamo: 1 s and 70 MB in each helper.
            for parameter in self._parameters:
                parameter.grad = None
            loss.backward()  # type: ignore[no-untyped-call]

    def _take_step(self, losses: dict[str, Tensor]) -> Tensor:
        """Follow the gradient, unless something is not a number; the gradient's norm."""
        _require_finite({name: losses[name] for name in ("policy_loss", "value_loss", "entropy")})
        norm = nn.utils.clip_grad_norm_(self._parameters, self.config.max_grad_norm)
        _require_finite({"gradient norm": norm})
        self.optimizer.step()
        return norm

    @torch.no_grad()
    def forward_only(self, positions: Tensor, sets: Tensor) -> None:
        """The network's part of choosing moves, for benchmarks.

        sets: `FeatureSet.sets_of` the positions.
        """
        self._alone(positions, sets)

    def forward_and_backward(self, positions: Tensor, sets: Tensor) -> None:
        """The network's part of learning, for benchmarks; the weights do not change."""
        if isinstance(self._half, FusedNetwork):
            self._half.learn(_with_one_move(positions), self.config, 0.0)
            return
        logits, values = self._alone(positions, sets)
        loss = logits.mean() + values.mean()
        if isinstance(self._half, HalfCopy):
            self._half.backward(loss)
        else:
            torch.autograd.grad(loss, self._parameters)

    def _alone(self, positions: Tensor, sets: Tensor) -> tuple[Tensor, Tensor]:
        """What is computed for positions whatever their moves are."""
        legal = torch.zeros(len(positions), 1, dtype=torch.int16, device=self.device)
        return self._for_moves(self._forward, positions, legal, torch.zeros_like(legal[:, 0]), sets)


def _with_one_move(positions: Tensor) -> Minibatch:
    """Steps in which there was nothing to choose."""
    rows = len(positions)
    counts, actions = torch.ones(rows, dtype=torch.int64), torch.zeros(rows, dtype=torch.int64)
    legal, numbers = torch.zeros(rows, 1, dtype=torch.int16), torch.zeros(rows)
    return Minibatch(positions, legal, counts, actions, *[numbers] * 4)


def _laid_out_like(parameter: Tensor, value: Tensor) -> Tensor:
    """A copy in the memory layout of the parameter, which a checkpoint does not keep.

    The fused optimizer pairs what lies at the same place in memory, whatever the strides say.
    """
    if value.shape != parameter.shape:
        return value.clone()
    return torch.empty_like(parameter).copy_(value)


def _has_bfloat16(device: torch.device) -> bool:
    """Whether bfloat16 is fast there: on every GPU in question, and on CPUs with instructions for
    it (1.7-2.1 x the speed of float32, measured at 2x16 and 2x32).
    """
    return device.type == "cuda" or bool(torch.cpu._is_avx512_bf16_supported())


def _require_finite(figures: dict[str, Tensor]) -> None:
    values = torch.stack([figure.detach().float() for figure in figures.values()]).tolist()
    require_finite(dict(zip(figures, values, strict=True)))


def require_finite(figures: dict[str, float]) -> None:
    """Raise `NonFiniteLossError` that names the figures that are not numbers."""
    bad = [f"{name} is {value}" for name, value in figures.items() if not math.isfinite(value)]
    if bad:
        raise NonFiniteLossError(
            f"{' and '.join(bad)}: the update was stopped and the weights before it kept; "
            "a lower ppo.learning_rate or ppo.max_grad_norm may help"
        )


def _between(first: float, last: float, progress: float) -> float:
    return first + (last - first) * min(max(progress, 0.0), 1.0)


def _health(buffer: ExperienceBuffer) -> dict[str, float]:
    own = buffer.trains[: buffer.filled]
    arrays = (buffer.positions, buffer.values, buffer.returns)
    return rollout_health(*(torch.from_numpy(array[: buffer.filled][own]) for array in arrays))
