"""One pass over the weights against torch's Adam and a target that follows."""

import numpy as np
import pytest
import torch

from keisei.core.adam_kernel import adam_step

SIZES = (5, 1, 12)


@pytest.mark.uncompiled
def test_steps_are_those_of_torch_and_the_target_follows():
    random = np.random.default_rng(4)

    def arrays(scale):
        return tuple(scale * random.normal(size=size).astype(np.float32) for size in SIZES)

    weights, targets, firsts, seconds = (arrays(scale) for scale in (1, 1, 0, 0))
    theirs = [torch.nn.Parameter(torch.from_numpy(weight.copy())) for weight in weights]
    followers = [torch.from_numpy(target.copy()) for target in targets]
    optimizer = torch.optim.Adam(theirs, lr=0.02, betas=(0.8, 0.95), eps=1e-6)
    for count in range(1, 6):
        slopes = arrays(0.1)
        gradient = np.concatenate(slopes)
        adam_step(
            weights, firsts, seconds, targets, gradient, 0.5, count, 0.02, 0.8, 0.95, 1e-6, 0.1
        )  # fmt: skip
        for parameter, slope in zip(theirs, slopes, strict=True):
            parameter.grad = torch.from_numpy(0.5 * slope)
        optimizer.step()
        for follower, parameter in zip(followers, theirs, strict=True):
            follower.lerp_(parameter.detach(), 0.1)
    for ours, expected in zip(weights, theirs, strict=True):
        assert ours == pytest.approx(expected.detach().numpy(), abs=1e-5)
    for ours, expected in zip(targets, followers, strict=True):
        assert ours == pytest.approx(expected.numpy(), abs=1e-5)
