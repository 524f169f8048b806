"""Modules and optimizers as arrays by name, which is how a model's `state` holds them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn


def named(name: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The arrays, each called `name.…`; `below` undoes it."""
    return {f"{name}.{key}": array for key, array in arrays.items()}


def module_arrays(module: nn.Module) -> dict[str, NDArray[Any]]:
    """Copies of all parameters and buffers of a module."""
    return {name: value.cpu().numpy().copy() for name, value in module.state_dict().items()}


def load_module(module: nn.Module, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Copy what `module_arrays` gave into a module of the same kind."""
    module.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})


def optimizer_arrays(optimizer: torch.optim.Optimizer) -> dict[str, NDArray[Any]]:
    """Copies of what an optimizer keeps of each parameter, by its number."""
    return {
        f"{number}.{name}": value.cpu().numpy().copy()
        for number, slots in optimizer.state_dict()["state"].items()
        for name, value in slots.items()
    }


def load_optimizer(optimizer: torch.optim.Optimizer, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Copy what `optimizer_arrays` gave into an optimizer of the same parameters."""
    slots: dict[int, dict[str, torch.Tensor]] = {}
    for key, array in arrays.items():
        number, name = key.split(".")
        slots.setdefault(int(number), {})[name] = torch.from_numpy(np.array(array))
    optimizer.load_state_dict({**optimizer.state_dict(), "state": slots})


def generator_array(generator: torch.Generator) -> NDArray[np.uint8]:
    """Where a random stream is."""
    array: NDArray[np.uint8] = generator.get_state().numpy().copy()
    return array


def load_generator(generator: torch.Generator, array: NDArray[np.uint8]) -> None:
    """Go on with the same random stream."""
    generator.set_state(torch.from_numpy(np.array(array)))
