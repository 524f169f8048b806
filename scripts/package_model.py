"""Turn the model of a run into one that ships: its network alone, in half precision.

    python scripts/package_model.py runs/shogi-gpu-20260101-120000 keisei/models/NAME

The result is a checkpoint like any other, so that every verb that takes a MODEL takes it, but it
cannot be trained on: what only training needs is left out.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from keisei.training.checkpoint_format import STATE, TENSORS, encode_manifest, encode_tensors
from keisei.training.trained_models import MODEL_PREFIX, find_checkpoint

KEPT = ("model", "updates", "steps", "games")


def package(source: Path, target: Path) -> int:
    """Write the packaged model of a run or checkpoint; its size in bytes."""
    checkpoint = find_checkpoint(source)
    tensors = {
        name: tensor.half()
        for name, tensor in checkpoint.tensors.items()
        if name.startswith(MODEL_PREFIX)
    }
    data, dtypes = encode_tensors(tensors)
    state = {name: checkpoint.state[name] for name in KEPT}
    target.mkdir(parents=True, exist_ok=True)
    (target / TENSORS).write_bytes(data)
    (target / STATE).write_bytes(encode_manifest(checkpoint.update, data, dtypes, state))
    return len(data)


def main() -> None:
    """Package what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path, metavar="RUN", help="a run or one of its checkpoints")
    parser.add_argument("target", type=Path, metavar="FOLDER", help="where the model goes")
    given = parser.parse_args()
    print(f"{given.target}: {package(given.source, given.target) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
