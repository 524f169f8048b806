"""`IQNGradients`: the loss of an IQN network and its gradient on a CPU, without autograd.

Between the matrix products, which are torch's, each kernel of `iqn_kernels` does in one pass what
autograd does in five to ten, and all arrays are used again from step to step: a step takes half as
long. `IQNModel.loss` says the same in the language of torch.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from keisei.core.iqn_arrays import Array, Chance, NetworkArrays, Wide
from keisei.core.iqn_kernels import (
    cosines_of,
    noisy_weights,
    product_backward,
    rectify,
    rectify_and_multiply,
)
from keisei.core.iqn_loss_kernels import aims_of_actions, best_actions, loss_and_slopes
from keisei.core.iqn_network import COSINES, IQNetwork
from keisei.core.replay_buffer import Batch


class IQNGradients:
    """Room for the passes of networks of the shape of `network`, one after the other.

    gradient: [M] by all parameters in their order, as of the last `loss`.
    """

    def __init__(self, network: IQNetwork, *, batch_size: int, quantiles: int) -> None:
        (size, inputs), heads = network.seen.weight.shape, len(network.heads.bias)
        self._shape, rows, actions = (batch_size, quantiles), batch_size * quantiles, heads - 1
        self._kind = network.wide_type
        self._all_states, self._all_seen = (
            self._wide(2 * batch_size, columns) for columns in (inputs, size)
        )
        self._states, self._next_states = _halves(self._all_states)
        self._seen, self._next_seen = _halves(self._all_seen)
        self._seen_by_target = self._wide(batch_size, size)
        self._cosines, self._shared_cosines = (self._wide(COSINES, n) for n in (rows, quantiles))
        self._embedded, self._product, self._mixed = (self._wide(rows, size) for _ in range(3))
        self._shared_embedded = self._embedded.rows(0, quantiles)
        self._seen_weight, self._embedding_weight, self._mixed_weight = (
            self._wide(size, columns) for columns in (inputs, COSINES, size)
        )
        self._mixed_bias, self._heads = _empty(size), _layer(heads, size)
        self._noises = _empty(size * (size + 1)), _empty(heads * (size + 1))
        self._dueling, self._of_dueling = _layer(actions, size), _layer(actions, size)
        self._preferred, self._aims = np.empty(batch_size, np.int64), _empty(*self._shape)
        self.gradient = _empty(sum(parameter.numel() for parameter in network.parameters()))
        self._parts = _parts(self.gradient, network)

    def _wide(self, *shape: int) -> Wide:
        return Wide.empty(*shape, kind=self._kind)

    def loss(
        self,
        network: NetworkArrays,
        target: NetworkArrays,
        batch: Batch,
        generator: torch.Generator,
    ) -> float:
        """What `IQNModel.loss` gives, with the same random numbers; fills `gradient`."""
        states, quantiles = self._shape
        self._check(batch.actions)
        chances = [Chance.drawn(generator, count, quantiles) for count in (states, 1, 1)]
        self._states.tensor.copy_(torch.from_numpy(batch.states))
        self._next_states.tensor.copy_(torch.from_numpy(batch.next_states))
        self._look(network, self._all_states, self._all_seen)
        self._aim(network, target, batch, chances[1:])
        self._mix(network, self._seen, chances[0], self._cosines, self._embedded)
        return self._go_back(batch.actions, chances[0].taus)

    def _check(self, actions: NDArray[np.int64]) -> None:
        """Kernels look at no bounds: an action that there is not would read what lies beside."""
        count = len(self._dueling[1])
        if actions.view(np.uint64).max() >= count:
            raise IndexError(f"actions are from 0 to {count - 1}, not {actions.tolist()}")

    def _aim(
        self, network: NetworkArrays, target: NetworkArrays, batch: Batch, chances: list[Chance]
    ) -> None:
        """Fill the aims [B, Q], as `IQNModel.targets` does."""
        weights = (self._mixed_bias, *self._dueling)
        shared = (self._shared_cosines, self._shared_embedded)
        self._mix(network, self._next_seen, chances[0], *shared)
        best_actions(self._mixed.array, *weights, self._preferred)
        self._look(target, self._next_states, self._seen_by_target)
        self._mix(target, self._seen_by_target, chances[1], *shared)
        known = (batch.returns, batch.discounts, batch.dones)
        aims_of_actions(self._mixed.array, *weights, self._preferred, *known, self._aims)

    def _look(self, network: NetworkArrays, states: Wide, seen: Wide) -> None:
        """Fill `seen` [B, L] with what a network makes of states."""
        self._seen_weight.tensor.copy_(network.seen)
        torch.mm(states.tensor, self._seen_weight.turned, out=seen.tensor)
        rectify(seen.array, network.seen_bias)

    def _mix(
        self, network: NetworkArrays, seen: Wide, chance: Chance, cosines: Wide, embedded: Wide
    ) -> None:
        """Fill the mixed layer [R, L], before its bias, and the weights behind it."""
        cosines_of(chance.taus.ravel(), cosines.array)
        self._embedding_weight.tensor.copy_(network.embedding)
        torch.mm(cosines.turned, self._embedding_weight.turned, out=embedded.tensor)
        factors = (embedded.array, network.embedding_bias, seen.array)
        rectify_and_multiply(*factors, self._product.array)
        noisy = (self._mixed_weight.array, self._mixed_bias)
        layers = (network.mixed, network.heads)
        noisy_weights(chance.seeds, *layers, self._noises, noisy, self._heads, self._dueling)
        torch.mm(self._product.tensor, self._mixed_weight.turned, out=self._mixed.tensor)

    def _go_back(self, actions: NDArray[np.int64], taus: Array) -> float:
        """The loss, whose gradient is filled."""
        parts, mixed = self._parts, self._mixed
        of_heads = (parts["heads.weight"], parts["heads.bias"])
        slopes = (self._of_dueling, of_heads, parts["mixed.bias"])
        said = (mixed.array, self._mixed_bias, self._dueling)
        loss = loss_and_slopes(*said, actions, taus, self._aims, *slopes)
        self._weigh("mixed.weight", mixed, self._product.tensor)
        torch.mm(mixed.tensor, self._mixed_weight.tensor, out=self._product.tensor)
        biases = (parts["seen.bias"], parts["embedding.bias"])
        product_backward(self._product.array, self._seen.array, self._embedded.array, *biases)
        self._weigh("embedding.weight", self._product, self._cosines.turned)
        self._weigh("seen.weight", self._seen, self._states.tensor)
        for layer, noise in zip(("mixed", "heads"), self._noises, strict=True):
            np.multiply(parts[layer], noise, out=parts[f"{layer} sigma"])
        return float(loss)

    def _weigh(self, name: str, of_outputs: Wide, inputs: Tensor) -> None:
        """The gradient of a layer's weights, given that of what it says, [R, outputs]."""
        torch.from_numpy(self._parts[name]).copy_(torch.mm(of_outputs.turned, inputs))


def _halves(values: Wide) -> tuple[Wide, Wide]:
    half = len(values.array) // 2
    return values.rows(0, half), values.rows(half, 2 * half)


def _empty(*shape: int) -> Array:
    return np.empty(shape, np.float32)


def _layer(outputs: int, inputs: int) -> tuple[Array, Array]:
    return _empty(outputs, inputs), _empty(outputs)


def _parts(gradient: Array, network: IQNetwork) -> dict[str, Array]:
    """Views of the gradient: of each parameter by its name, and of noisy layers in halves.

    Weight and bias of such a layer lie together, as their noise does, and then come both sigmas.
    """
    parts, start = {}, 0
    for name, parameter in network.named_parameters():
        parts[name] = gradient[start : start + parameter.numel()].reshape(parameter.shape)
        if name.endswith(".weight_sigma"):
            layer, count = name.removesuffix(".weight_sigma"), parameter.numel() + len(parameter)
            parts[layer] = gradient[start - count : start]
            parts[f"{layer} sigma"] = gradient[start : start + count]
        start += parameter.numel()
    return parts
