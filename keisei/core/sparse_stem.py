"""A network's first convolution and its ReLU on a CPU, on sets of bits instead of dense planes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from keisei.core.row_threads import in_threads, number_of_parts
from keisei.core.stem_kernels import (
    stem_backward,
    stem_forward,
    weights_by_channel,
    weights_by_plane,
)
from keisei.shogi.features import FeatureSet, SparsePlanes, kernels_can_read

_BITS = {torch.bfloat16: torch.uint16, torch.float32: torch.float32}
"""What the kernels compute in, and as what they see it."""


def is_sparse_stem_for(positions: Tensor, arithmetic: torch.dtype) -> bool:
    """Whether `sparse_stem` can be used."""
    return kernels_can_read(positions) and arithmetic in _BITS


def sparse_stem(
    features: FeatureSet, positions: Tensor, convolution: nn.Conv2d, arithmetic: torch.dtype
) -> Tensor:
    """[B, W, 9, 9] of a 3 x 3 convolution of the positions' planes, behind a ReLU.

    Differentiable. Weights and result are rounded to `arithmetic`; the sums are of float32.
    """
    assert convolution.bias is not None
    weights = convolution.weight.to(arithmetic), convolution.bias.to(arithmetic)
    planes = features.sparse(positions.numpy())
    answers: Tensor = _Stem.apply(features, planes, *weights)  # type: ignore[no-untyped-call]
    return answers


class _Stem(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, features: FeatureSet, planes: SparsePlanes, weight: Tensor, bias: Tensor
    ) -> Tensor:
        by_plane = np.empty((features.num_planes, 9 * len(bias)), np.float32)
        weights_by_plane(
            _bits(_channels_last(weight)), features.square_planes, features.even_planes, by_plane
        )
        answers = torch.empty(len(planes.sets), 81, len(bias), dtype=weight.dtype)
        seen, bias_bits = _bits(answers), _bits(bias)

        def answer(rows: slice, _: int) -> None:
            stem_forward(planes.sets[rows], planes.even[rows], by_plane, bias_bits, seen[rows])

        in_threads(len(seen), torch.get_num_threads(), answer)
        ctx.features, ctx.planes = features, planes
        ctx.save_for_backward(answers, weight)
        return answers.view(-1, 9, 9, len(bias)).permute(0, 3, 1, 2)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None, Tensor, Tensor]:
        features, planes = ctx.features, ctx.planes
        answers, weight = ctx.saved_tensors
        seen, told = _bits(answers), _bits(_channels_last(gradients[0]).view(answers.shape))
        parts = number_of_parts(len(seen), torch.get_num_threads())
        of_weights = np.zeros((parts, features.num_planes, 9 * len(weight)), np.float32)
        of_bias = np.zeros((parts, len(weight)), np.float32)

        def add(rows: slice, part: int) -> None:
            stem_backward(
                planes.sets[rows],
                planes.even[rows],
                seen[rows],
                told[rows],
                of_weights[part],
                of_bias[part],
            )

        in_threads(len(seen), torch.get_num_threads(), add)
        gradient = torch.empty_like(_channels_last(weight))
        weights_by_channel(
            of_weights.sum(0) if parts > 1 else of_weights[0],
            features.square_planes,
            features.even_planes,
            _bits(gradient),
        )
        return (
            None,
            None,
            gradient.permute(0, 3, 1, 2),
            torch.from_numpy(of_bias.sum(0)).to(weight.dtype),
        )


def _channels_last(tensor: Tensor) -> Tensor:
    """[N, H, W, C] of [N, C, H, W]; no copy where that is how it lies in memory."""
    return tensor.permute(0, 2, 3, 1).contiguous()


def _bits(tensor: Tensor) -> NDArray[Any]:
    bits: NDArray[Any] = tensor.detach().view(_BITS[tensor.dtype]).numpy()
    return bits
