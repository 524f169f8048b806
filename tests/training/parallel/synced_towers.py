"""Models whose weights tell which version they are, and the two ends that pass these on."""

from typing import Any

import torch
from torch import nn

from keisei.training.parallel.model_sync import ModelSynchronizer, WorkerModelReceiver
from keisei.training.parallel.shared_memory import SharedMemory


class Tower(nn.Module):
    """A small model with tensors of all shapes, or a large one that takes a while to copy."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3)
        self.body = nn.Linear(width, 64 * width)
        self.scale = nn.Parameter(torch.tensor(1.0))
        self.register_buffer("mean", torch.zeros(width))


def fill(model: nn.Module, value: float) -> None:
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.fill_(value)


def only_value(model: nn.Module) -> float:
    """The one value that all weights have."""
    values = torch.cat([tensor.flatten() for tensor in model.state_dict().values()])
    low, high = values.aminmax()
    assert low == high, "weights of two publications are mixed"
    return float(low)


def synchronizer_of(
    model: nn.Module, *, compressed: bool = False, **rest: Any
) -> ModelSynchronizer:
    rest = {"max_policy_lag": 8, **rest}
    return ModelSynchronizer(model, compression_enabled=compressed, **rest)


def connected(
    *, compressed: bool = False, width: int = 8
) -> tuple[ModelSynchronizer, nn.Module, WorkerModelReceiver, nn.Module]:
    """A writer with its model, and a reader with its own."""
    model, copy = Tower(width), Tower(width)
    synchronizer = synchronizer_of(model, compressed=compressed)
    receiver = WorkerModelReceiver(memory_of(synchronizer), copy, compression_enabled=compressed)
    return synchronizer, model, receiver, copy


def memory_of(synchronizer: ModelSynchronizer) -> SharedMemory:
    assert synchronizer.memory is not None
    return synchronizer.memory


def publish(synchronizer: ModelSynchronizer, model: nn.Module, *versions: int) -> None:
    for version in versions:
        fill(model, version % 2048)  # whole numbers that float16 has
        synchronizer.publish(version)
