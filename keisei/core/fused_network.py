"""`FusedNetwork`: a small network on a CPU by kernels of our own, in bfloat16."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from keisei.config_schema import PPOConfig
from keisei.core.answer_kernels import answer_moves
from keisei.core.half_copy import HalfCopy
from keisei.core.lesson_kernels import FIGURES, Objective, Steps, learn_from
from keisei.core.llvm_code import has_pair_products
from keisei.core.minibatch import Minibatch
from keisei.core.packed_weights import PackedWeights, summed
from keisei.core.ppo_loss import LOSSES, MOST_WEIGHT
from keisei.core.res_tower import ActorCriticResTower
from keisei.core.row_threads import in_threads, number_of_parts
from keisei.core.tower_kernels import HEAD_CHANNELS, WIDTH
from keisei.shogi.policy_output_mapper import NUM_PLANES, PolicyOutputMapper


def half_network(model: ActorCriticResTower) -> FusedNetwork | HalfCopy:
    """The model in bfloat16 on a CPU, whichever way is fastest."""
    return FusedNetwork(model) if FusedNetwork.is_for(model) else HalfCopy(model)


class _Moves(NamedTuple):
    """The moves of B positions whose logits are wanted."""

    legal: NDArray[np.uint16]
    """[B, L]"""
    counts: NDArray[np.int64]
    """[B]"""
    places: NDArray[np.uint16]
    """Where the logit of each is among what the heads say, [81, 32]."""


class FusedNetwork:
    """Says of positions what the model says, and learns from minibatches.

    The weights may change at any time between two passes, by other processes too. What it says of a
    position does not depend on the others, to the last bit. The value's own layers are in float32.
    """

    def __init__(self, model: ActorCriticResTower) -> None:
        self._model = model
        self._packed = PackedWeights(model)
        self.threads: int | None = None
        """None: as many as torch has."""

    @property
    def _threads(self) -> int:
        return torch.get_num_threads() if self.threads is None else self.threads

    @staticmethod
    def is_for(model: ActorCriticResTower) -> bool:
        """Whether there is code for this model and this processor, and torch is slower.

        Where processors multiply whole tiles (AMX) torch does, and its gradients take 0.80 of the
        time of ours.
        """
        if torch.cpu._is_amx_tile_supported() or not has_pair_products():
            return False
        plain = all(isinstance(block.excitation, nn.Identity) for block in model.blocks)
        return model.stem.out_channels == WIDTH and plain

    def __call__(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """[B, 100] int8 -> logits [B, 2187] and values [B], both float32."""
        planes = np.tile(np.arange(81 * NUM_PLANES, dtype=np.uint16), (len(positions), 1))
        counts = np.full(len(positions), planes.shape[1])
        return self._say(positions, _Moves(planes, counts, _places_of_planes()))

    def of_moves(self, positions: Tensor, legal: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [B, L] of the first counts [B] of the actions legal [B, L], and values [B]."""
        return self._say(positions, _Moves(*_of_kernels(legal, counts), _places_of_actions()))

    def _say(self, positions: Tensor, moves: _Moves) -> tuple[Tensor, Tensor]:
        self._packed.read()
        expansion, weights = self._model.features.expansion, self._packed.weights
        logits = np.empty(moves.legal.shape, np.float32)
        values = np.empty(len(positions), np.float32)
        seen = positions.numpy()

        def answer(part: slice, _: int) -> None:
            legal, counts = moves.legal[part], moves.counts[part]
            answers = logits[part], values[part]
            answer_moves(seen[part], expansion, legal, counts, moves.places, weights, *answers)

        in_threads(len(positions), self._threads, answer)
        return torch.from_numpy(logits), torch.from_numpy(values)

    def learn(
        self, minibatch: Minibatch, config: PPOConfig, entropy_weight: float
    ) -> dict[str, Tensor]:
        """Set the gradients of the model's weights by the loss of `ppo_losses`, which it gives.

        In place where there are some.
        """
        self._packed.read()
        rows = len(minibatch.positions)
        moves = _of_kernels(minibatch.legal, minibatch.counts)
        steps = Steps(
            minibatch.positions.numpy(),
            *moves,
            minibatch.actions.numpy(),
            minibatch.log_probs.numpy(),
            minibatch.advantages.numpy(),
            minibatch.returns.numpy(),
            minibatch.lags.numpy(),
        )
        objective = Objective(
            config.clip, config.value_coefficient, entropy_weight, MOST_WEIGHT, 1 / rows
        )
        parts = number_of_parts(rows, self._threads)
        gradients = [self._packed.gradients() for _ in range(parts)]
        figures = np.zeros((parts, FIGURES))

        expansion, weights = self._model.features.expansion, self._packed.weights

        def add(part: slice, number: int) -> None:
            some = Steps._make(array[part] for array in steps)
            sums = gradients[number], figures[number]
            learn_from(some, expansion, weights, _places_of_actions(), objective, *sums)

        in_threads(rows, self._threads, add)
        self._packed.give_back(summed(gradients))
        policy, value, entropy, kl, clipped = (float(figure) for figure in figures.sum(0))
        loss = policy + config.value_coefficient * value - entropy_weight * entropy
        told = torch.tensor([loss, policy, value, entropy, kl, clipped])
        return dict(zip(LOSSES, told.unbind(), strict=True))


def _of_kernels(legal: Tensor, counts: Tensor) -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
    """Moves as kernels see them; torch indexes with int16."""
    actions = legal.view(torch.uint16) if legal.dtype == torch.int16 else legal
    return actions.numpy(), counts.long().numpy()


@cache
def _places_of_planes() -> NDArray[np.uint16]:
    """[2187]"""
    planes = np.arange(81 * NUM_PLANES)
    return (planes % 81 * HEAD_CHANNELS + planes // 81).astype(np.uint16)


@cache
def _places_of_actions() -> NDArray[np.uint16]:
    """[13527]; actions without a plane are never legal."""
    places: NDArray[np.uint16] = _places_of_planes()[PolicyOutputMapper.plane_indices.clip(min=0)]
    return places
