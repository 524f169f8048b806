"""How an agent learns from a `DeviceRollout`: gradient steps that never wait for the host."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from keisei.core.device_policy import DevicePolicy
from keisei.core.device_rollout import DeviceRollout, flat
from keisei.core.ppo_agent import PPOAgent, ScheduledUpdate, require_finite
from keisei.core.ppo_loss import LOSSES
from keisei.core.recorded_call import RecordedCall
from keisei.core.rollout_health import rollout_health

_FIGURES = (*LOSSES, "grad_norm")
_STEPS_BEHIND = 2
"""So many gradient steps later the host looks at a step's figures: they are there by then."""


class DeviceUpdate:
    """The updates of one agent from `rollout`, on its device.

    Where the agent records, what computes the gradients of a whole minibatch is recorded.
    """

    def __init__(self, agent: PPOAgent, policy: DevicePolicy, rollout: DeviceRollout) -> None:
        self._agent, self._policy, self._rollout = agent, policy, rollout
        self._parameters = list(agent.model.parameters())
        # All that a recording reads and writes stays in its place in memory.
        self._gradients = [torch.empty_like(parameter) for parameter in self._parameters]
        self._normalised = torch.zeros_like(rollout.advantages)
        self._entropy_weight = torch.zeros((), device=agent.device)
        self._recorded: RecordedCall[Tensor] | None = None

    def __call__(self, progress: float) -> dict[str, float]:
        """Learn from the rollout, whose advantages are computed; figures of the update.

        As `PPOAgent.update`, with two differences that keep the device busy: whether a loss is a
        number is asked at the end of the update (the weights before it come back if not), and
        `target_kl` stops it two gradient steps late.
        """
        with self._agent.scheduled_update(progress) as scheduled:
            figures = self._learn(scheduled)
        return {**figures, **scheduled.figures(), **_health(self._rollout)}

    def _learn(self, scheduled: ScheduledUpdate) -> dict[str, float]:
        config, device = self._agent.config, self._agent.device
        own = self._rollout.own_steps()
        if len(own) == 0:  # a past self moved everywhere
            return {"minibatches": 0, "stopped_early": 0.0}
        self._normalised.copy_(_normalised(self._rollout, own, config.advantage_floor))
        self._entropy_weight.fill_(scheduled.entropy_weight)
        watch = _LateFigures(device)
        sums = torch.zeros(len(_FIGURES), device=device)
        done, stopped = 0, False
        # All at once: a copy waits until the device has done everything before it.
        minibatches = torch.from_numpy(np.stack(list(self._agent.shuffled(own)))).to(device)
        for chosen in minibatches:
            losses = self._take_step(chosen)
            sums += losses
            done += 1
            stopped = watch.after(losses[_FIGURES.index("kl")]) > config.target_kl
            if stopped:
                break
        figures = dict(zip(_FIGURES, (sums / done).tolist(), strict=True))
        require_finite({n: figures[n] for n in ("policy_loss", "value_loss", "entropy")})
        require_finite({"gradient norm": figures["grad_norm"]})
        return {**figures, "minibatches": done, "stopped_early": float(stopped)}

    def _take_step(self, chosen: Tensor) -> Tensor:
        """Follow the gradient of the steps chosen [N]; the `_FIGURES` before it."""
        for parameter, gradient in zip(self._parameters, self._gradients, strict=True):
            parameter.grad = gradient
        figures = self._set_gradients(chosen)
        self._agent.optimizer.step()
        return figures

    def _set_gradients(self, chosen: Tensor) -> Tensor:
        if not self._agent.records or len(chosen) < self._agent.config.minibatch:
            return self._set_gradients_here(chosen)
        if self._recorded is None:
            self._recorded = RecordedCall(self._set_gradients_here, chosen)
        return self._recorded(chosen)

    def _set_gradients_here(self, chosen: Tensor) -> Tensor:
        losses = self._policy.losses(self._rollout, chosen, self._normalised, self._entropy_weight)
        torch._foreach_copy_(self._gradients, torch.autograd.grad(losses["loss"], self._parameters))
        norm = nn.utils.clip_grad_norm_(self._parameters, self._agent.config.max_grad_norm)
        return torch.stack([*(losses[name].detach() for name in LOSSES), norm])


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


def _health(rollout: DeviceRollout) -> dict[str, float]:
    own = torch.from_numpy(rollout.own_steps()).to(rollout.returns.device)
    tensors = (rollout.positions, rollout.values, rollout.returns)
    return rollout_health(*(flat(tensor)[own] for tensor in tensors))
