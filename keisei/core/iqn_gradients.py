"""`IQNGradients`: the loss of an IQN network and its gradient on a CPU, without autograd.

Between the matrix products, which are torch's, each kernel of `iqn_kernels` does in one pass what
autograd does in five to ten, and all arrays are used again from step to step: a step takes half as
long. `IQNModel.loss` says the same in the language of torch.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from keisei.core.iqn_arrays import Array, Chance, NetworkArrays, Wide
from keisei.core.iqn_kernels import (
    cosines_of,
    dueling_gradient,
    dueling_weights,
    heads_backward,
    multiply_rows,
    noisy_layer,
    product_backward,
    quantile_huber_gradient,
    quantiles_of_actions,
    rectify,
    sum_over_quantiles,
)
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
        self._states = self._wide(2 * batch_size, inputs)  # and those that follow them
        self._seen = self._wide(2 * batch_size, size)
        self._seen_by_target = self._wide(batch_size, size)
        self._cosines = self._wide(rows, COSINES)
        self._embedded, self._product, self._mixed = (self._wide(rows, size) for _ in range(3))
        self._seen_weight, self._embedding_weight, self._mixed_weight = (
            self._wide(size, columns) for columns in (inputs, COSINES, size)
        )
        self._mixed_bias, self._mixed_noise = _empty(size), _empty(size * (size + 1))
        self._heads, self._heads_noise = _layer(heads, size), _empty(heads * (size + 1))
        self._dueling, self._of_dueling = _layer(actions, size), _layer(actions, size)
        self._sums = _empty(batch_size, size)
        self._predicted, self._aims, self._slopes = (_empty(*self._shape) for _ in range(3))
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
        self._states.tensor[:states] = torch.from_numpy(batch.states)
        self._states.tensor[states:] = torch.from_numpy(batch.next_states)
        self._look(network, self._states, self._seen)
        self._aim(network, target, batch, chances[1:])
        self._mix(network, self._seen.rows(0, states), chances[0])
        self._answer(batch.actions, self._predicted)
        loss = quantile_huber_gradient(self._predicted, chances[0].taus, self._aims, self._slopes)
        self._go_back(batch.actions)
        return float(loss)

    def _check(self, actions: NDArray[np.int64]) -> None:
        """Kernels look at no bounds: an action that there is not would read what lies beside."""
        count = len(self._dueling[1])
        if actions.min() < 0 or actions.max() >= count:
            raise IndexError(f"actions are from 0 to {count - 1}, not {actions.tolist()}")

    def _aim(
        self, network: NetworkArrays, target: NetworkArrays, batch: Batch, chances: list[Chance]
    ) -> None:
        """Fill the aims [B, Q], as `IQNModel.targets` does."""
        states, quantiles = self._shape
        self._mix(network, self._seen.rows(states, 2 * states), chances[0])
        sum_over_quantiles(self._mixed.array, self._mixed_bias, self._sums)
        weight, bias = (torch.from_numpy(array) for array in self._dueling)
        values = torch.addmm(bias, torch.from_numpy(self._sums), weight.mT, alpha=1 / quantiles)
        self._look(target, self._states.rows(states, 2 * states), self._seen_by_target)
        self._mix(target, self._seen_by_target, chances[1])
        self._answer(values.argmax(dim=1).numpy(), self._aims)
        self._aims *= (batch.discounts * (1 - batch.dones))[:, None]
        self._aims += batch.returns[:, None]

    def _look(self, network: NetworkArrays, states: Wide, seen: Wide) -> None:
        """Fill `seen` [B, L] with what a network makes of states."""
        self._seen_weight.tensor.copy_(network.seen)
        torch.mm(states.tensor, self._seen_weight.tensor.mT, out=seen.tensor)
        rectify(seen.array, network.seen_bias)

    def _mix(self, network: NetworkArrays, seen: Wide, chance: Chance) -> None:
        """Fill the mixed layer [R, L], before its bias, and the weights behind it."""
        taus = chance.taus.ravel()
        cosines, embedded = self._cosines.rows(0, len(taus)), self._embedded.rows(0, len(taus))
        cosines_of(taus, cosines.array)
        self._embedding_weight.tensor.copy_(network.embedding)
        torch.mm(cosines.tensor, self._embedding_weight.tensor.mT, out=embedded.tensor)
        rectify(embedded.array, network.embedding_bias)
        multiply_rows(seen.array, embedded.array, self._product.array)
        noisy = (self._mixed_noise, self._mixed_weight.array, self._mixed_bias)
        noisy_layer(chance.mixed_seed, *network.mixed, *noisy)
        torch.mm(self._product.tensor, self._mixed_weight.tensor.mT, out=self._mixed.tensor)
        noisy_layer(chance.heads_seed, *network.heads, self._heads_noise, *self._heads)
        dueling_weights(*self._heads, *self._dueling)

    def _answer(self, actions: NDArray[np.int64], quantiles: Array) -> None:
        """Fill `quantiles` [B, Q] with those of each state's action."""
        rectify(self._mixed.array, self._mixed_bias)
        quantiles_of_actions(self._mixed.array, *self._dueling, actions, quantiles)

    def _go_back(self, actions: NDArray[np.int64]) -> None:
        """Fill the gradient, from the slopes [B, Q] of the loss by what is predicted."""
        parts, seen = self._parts, self._seen.rows(0, self._shape[0])
        to_heads = (self._dueling[0], actions, *self._of_dueling, parts["mixed.bias"])
        heads_backward(self._slopes, self._mixed.array, *to_heads)
        dueling_gradient(*self._of_dueling, parts["heads.weight"], parts["heads.bias"])
        self._weigh("mixed.weight", self._mixed, self._product)
        torch.mm(self._mixed.tensor, self._mixed_weight.tensor, out=self._product.tensor)
        biases = (parts["seen.bias"], parts["embedding.bias"])
        product_backward(self._product.array, seen.array, self._embedded.array, *biases)
        self._weigh("embedding.weight", self._product, self._cosines)
        self._weigh("seen.weight", seen, self._states.rows(0, self._shape[0]))
        np.multiply(parts["mixed"], self._mixed_noise, out=parts["mixed sigma"])
        np.multiply(parts["heads"], self._heads_noise, out=parts["heads sigma"])

    def _weigh(self, name: str, of_outputs: Wide, inputs: Wide) -> None:
        """The gradient of a layer's weights, given that of what it says, [R, outputs]."""
        gradient = torch.mm(of_outputs.tensor.mT, inputs.tensor)
        torch.from_numpy(self._parts[name]).copy_(gradient)


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
