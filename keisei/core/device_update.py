"""How an agent learns from a `DeviceRollout`: gradient steps that never wait for the host."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from keisei.core.device_policy import DevicePolicy
from keisei.core.device_rollout import DeviceRollout
from keisei.core.ppo_agent import PPOAgent, ScheduledUpdate, require_finite

_STEPS_BEHIND = 2
"""So many gradient steps later the host looks at a step's figures: they are there by then."""


class DeviceUpdate:
    """The updates of one agent from rollouts on its device."""

    def __init__(self, agent: PPOAgent, policy: DevicePolicy) -> None:
        self._agent, self._policy = agent, policy

    def __call__(self, rollout: DeviceRollout, progress: float) -> dict[str, float]:
        """Learn from a rollout whose advantages are computed; figures of the update.

        As `PPOAgent.update`, with two differences that keep the device busy: whether a loss is a
        number is asked at the end of the update (the weights before it come back if not), and
        `target_kl` stops it two gradient steps late.
        """
        with self._agent.scheduled_update(progress) as scheduled:
            figures = self._learn(rollout, scheduled)
        return {
            **figures,
            **scheduled.figures(),
            "explained_variance": _explained_variance(rollout),
        }

    def _learn(self, rollout: DeviceRollout, scheduled: ScheduledUpdate) -> dict[str, float]:
        config, device = self._agent.config, self._agent.device
        own = rollout.own_steps()
        if len(own) == 0:  # a past self moved everywhere
            return {"minibatches": 0, "stopped_early": 0.0}
        normalised = _normalised(rollout, own, config.advantage_floor)
        entropy_weight = torch.tensor(scheduled.entropy_weight, device=device)
        watch = _LateFigures(device)
        sums: dict[str, Tensor] = {}
        done, stopped = 0, False
        for chosen in self._shuffled(own):
            losses = self._policy.losses(rollout, chosen, normalised, entropy_weight)
            losses = self._step(losses)
            sums = {name: sums[name] + value if sums else value for name, value in losses.items()}
            done += 1
            stopped = watch.after(losses["kl"]) > config.target_kl
            if stopped:
                break
        means = torch.stack(list(sums.values())).div(done).tolist()
        figures = dict(zip(sums, means, strict=True))
        require_finite({n: figures[n] for n in ("policy_loss", "value_loss", "entropy")})
        require_finite({"gradient norm": figures["grad_norm"]})
        return {**figures, "minibatches": done, "stopped_early": float(stopped)}

    def _shuffled(self, own: NDArray[np.int64]) -> Iterator[Tensor]:
        """The steps of each minibatch, all of one size: the last one of a pass begins anew."""
        config = self._agent.config
        size = min(config.minibatch, len(own))
        parts = -(-len(own) // size)
        for _ in range(config.epochs):
            order = own[torch.randperm(len(own), generator=self._agent.generator).numpy()]
            filled = torch.from_numpy(np.resize(order, parts * size)).to(self._agent.device)
            yield from filled.view(parts, size)

    def _step(self, losses: dict[str, Tensor]) -> dict[str, Tensor]:
        agent = self._agent
        agent.optimizer.zero_grad(set_to_none=True)
        losses["loss"].backward()  # type: ignore[no-untyped-call]
        norm = nn.utils.clip_grad_norm_(agent.model.parameters(), agent.config.max_grad_norm)
        agent.optimizer.step()
        return {name: value.detach() for name, value in losses.items()} | {"grad_norm": norm}


class _LateFigures:
    """A figure of each gradient step, read a fixed number of steps later, without waiting."""

    def __init__(self, device: torch.device) -> None:
        self._on_gpu = device.type == "cuda"
        self._under_way: list[tuple[Tensor, torch.cuda.Event | None]] = []

    def after(self, figure: Tensor) -> float:
        """Hand in a step's figure; the one from `_STEPS_BEHIND` steps before, 0 while none is."""
        if self._on_gpu:
            copy = torch.empty((), dtype=figure.dtype, pin_memory=True)
            copy.copy_(figure, non_blocking=True)
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record()
            self._under_way.append((copy, event))
        else:
            self._under_way.append((figure, None))
        if len(self._under_way) <= _STEPS_BEHIND:
            return 0.0
        earlier, event_of = self._under_way.pop(0)
        if event_of is not None:
            event_of.synchronize()
        return float(earlier)


def _normalised(rollout: DeviceRollout, own: NDArray[np.int64], floor: float) -> Tensor:
    """[T, B] advantages as they count: normalised over the rollout's own steps."""
    chosen = torch.from_numpy(own).to(rollout.advantages.device)
    advantages = rollout.advantages.flatten()[chosen]
    scale = advantages.std(correction=0).clamp(min=max(floor, 1e-8))
    return (rollout.advantages - advantages.mean()) / scale


def _explained_variance(rollout: DeviceRollout) -> float:
    """How much of the returns' variance the values foretold; 1 is all, 0 none."""
    own = torch.from_numpy(rollout.own_steps()).to(rollout.returns.device)
    returns, values = rollout.returns.flatten()[own], rollout.values.flatten()[own]
    if len(own) == 0:
        return 0.0
    variance, left = (x.var(correction=0) for x in (returns, returns - values))
    return float(torch.where(variance > 0, 1 - left / variance, 0.0))
